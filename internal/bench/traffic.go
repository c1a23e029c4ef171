package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/zone"
)

// traffic is what requests are made from: requests of a real log, or invented ones, and sites that share them by Zipf's
// law.
type traffic struct {
	requests []event.HTTP // texts are their own
	sites    []site
	weights  []float64 // running sums; the last is 1
}

// site is one zone. The first is the busiest.
type site struct {
	name string
	host []byte
	home []byte // colo where most of its traffic comes in
}

// maxTemplates bounds the requests of a log that are kept.
const maxTemplates = 200_000

var colos = [...]string{"FRA", "AMS", "IAD", "SIN"}

func newTraffic(zones int, log string) (*traffic, error) {
	t := &traffic{sites: make([]site, zones), weights: make([]float64, zones)}
	sum := 0.0
	for i := range t.sites {
		name := fmt.Sprintf("site%05d.example", i+1)
		t.sites[i] = site{name: name, host: []byte("www." + name), home: []byte(colos[i%len(colos)])}
		sum += 1 / float64(i+1)
		t.weights[i] = sum
	}
	for i := range t.weights {
		t.weights[i] /= sum
	}
	var err error
	if log == "" {
		t.requests = invented()
	} else if t.requests, err = readLog(log); err != nil {
		return nil, fmt.Errorf("read %s: %w", log, err)
	}
	return t, nil
}

// zones gives the configuration of a registry that knows the sites.
func (t *traffic) zones() zone.Config {
	cfg := zone.DefaultConfig()
	for _, s := range t.sites {
		cfg.List = append(cfg.List, zone.Entry{Name: s.name})
	}
	return cfg
}

// draw gives the number of a site, by its share of the traffic.
func (t *traffic) draw(r *rand.Rand) int {
	n, _ := slices.BinarySearch(t.weights, r.Float64())
	return min(n, len(t.sites)-1)
}

// readLog reads the first requests of a log in any known format.
func readLog(path string) ([]event.HTTP, error) {
	in, done, err := openLog(path)
	if err != nil {
		return nil, err
	}
	defer done()
	var list []event.HTTP
	err = in.each(func(e *event.HTTP) error {
		v, _, err := event.ReadHTTP(e.Append(nil)) // memory of its own
		if err != nil {
			return nil //nolint:nilerr // one less
		}
		v.Decode(e)
		if list = append(list, *e); len(list) == maxTemplates {
			return errEnough
		}
		return nil
	})
	if err == nil && len(list) == 0 {
		err = errors.New("no line can be read")
	}
	return list, err
}

// invented makes requests for those who have no log at hand.
func invented() []event.HTTP {
	r := rand.New(rand.NewPCG(1, 2))
	agents := []string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
		"Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0.0.0 Mobile Safari/537.36",
		"Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0",
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "curl/8.5.0",
	}
	kinds := []string{"product/%d", "image/%d.jpg", "static/app.%d.js", "static/style.%d.css", "api/items/%d", "filter/%d/page"}
	status := []uint16{200, 200, 200, 200, 200, 200, 200, 304, 301, 302, 404, 499, 500}
	list := make([]event.HTTP, 20_000)
	for i := range list {
		n := int(math.Exp(r.Float64() * math.Log(20_000)))
		list[i] = event.HTTP{
			ClientIP:            netip.AddrFrom4([4]byte{byte(1 + r.IntN(220)), byte(r.IntN(64)), byte(r.IntN(16)), byte(r.IntN(256))}),
			ClientRequestMethod: []byte("GET"), ClientRequestPath: fmt.Appendf([]byte("/"), kinds[r.IntN(len(kinds))], n),
			ClientRequestProtocol: []byte("HTTP/1.1"), ClientRequestReferer: fmt.Appendf(nil, "https://www.example.com/product/%d", n/7),
			ClientRequestUserAgent: []byte(agents[min(r.IntN(12), r.IntN(len(agents)))]), EdgeResponseStatus: status[r.IntN(len(status))],
			EdgeResponseBodyBytes: uint64(math.Exp(r.NormFloat64()*1.8 + 9)),
		}
	}
	return list
}

// maker makes requests of traffic. It belongs to one goroutine.
type maker struct {
	t     *traffic
	r     *rand.Rand
	asLog bool // as the log has them: nothing is added or changed but site and time
	ray   [32]byte
	next  int
}

func (t *traffic) maker(seed uint64) *maker {
	return &maker{t: t, r: rand.New(rand.NewPCG(seed, 3))}
}

// fill makes e a request to site number n that began at ns. Its texts are valid until the next call.
func (m *maker) fill(e *event.HTTP, n int, ns int64) {
	s := &m.t.sites[n]
	if m.asLog {
		*e = m.t.requests[m.next%len(m.t.requests)]
		m.next++
		e.EdgeStartTimestamp, e.EdgeEndTimestamp = ns, 0
		e.ClientRequestHost, e.EdgeResponseCompleted = s.host, true
		return
	}
	r := m.r
	*e = m.t.requests[r.IntN(len(m.t.requests))]
	e.EdgeStartTimestamp = ns
	e.EdgeEndTimestamp = ns + int64(math.Exp(r.NormFloat64()+9.5))*1000
	e.ClientRequestHost = s.host
	e.ClientIP = m.address(e.ClientIP, n)
	e.EdgeResponseBytes = max(e.EdgeResponseBytes, e.EdgeResponseBodyBytes) + 250 + r.Uint64N(64)
	e.ClientRequestBytes = 300 + r.Uint64N(900)
	e.EdgeResponseContentType = contentType(e.ClientRequestPath)
	e.EdgeColoCode, e.EdgeName = s.home, edgeOf(s.home)
	if r.IntN(10) == 0 {
		e.EdgeColoCode = []byte(colos[r.IntN(len(colos))])
	}
	m.connection(e, s)
	m.origin(e)
	const digits = "0123456789abcdef"
	a, b := r.Uint64(), r.Uint64()
	for i := range 16 {
		m.ray[i], m.ray[16+i] = digits[a>>(4*i)&15], digits[b>>(4*i)&15]
	}
	e.RayID, e.EdgeResponseCompleted = m.ray[:], true
}

// address moves a client into the neighbourhood of its own that each site sees.
func (m *maker) address(a netip.Addr, n int) netip.Addr {
	if !a.Is4() {
		return a
	}
	b := a.As4()
	b[2] ^= byte(n)
	b[3] ^= byte(n>>8) ^ byte(m.r.IntN(2))
	return netip.AddrFrom4(b)
}

var (
	https, tls13, tls12 = []byte("https"), []byte("TLSv1.3"), []byte("TLSv1.2")
	cipher13, cipher12  = []byte("TLS_AES_256_GCM_SHA384"), []byte("ECDHE-RSA-AES128-GCM-SHA256")
	plain, http2        = []byte("http"), []byte("HTTP/2.0")
	cacheStates         = [...][]byte{[]byte("hit"), []byte("hit"), []byte("hit"), []byte("hit"), []byte("miss"), []byte("miss"), []byte("expired"), []byte("bypass"), nil, nil}
	upstreams           = [...][]byte{[]byte("10.0.0.7:8080"), []byte("10.0.0.8:8080"), []byte("10.0.0.9:8080")}
)

func (m *maker) connection(e *event.HTTP, s *site) {
	r := m.r
	e.ConnectionID, e.ConnectionRequests = r.Uint64N(1<<32), 1+r.Uint32N(30)
	e.ClientTCPRTTUs, e.ClientSrcPort = 5_000+r.Uint32N(120_000), uint16(1024+r.IntN(60_000))
	switch n := r.IntN(20); {
	case n == 0:
		e.ClientRequestScheme, e.EdgeServerPort = plain, 80
		return
	case n < 4:
		e.ClientSSLProtocol, e.ClientSSLCipher = tls12, cipher12
	default:
		e.ClientSSLProtocol, e.ClientSSLCipher, e.ClientRequestProtocol = tls13, cipher13, http2
	}
	e.ClientRequestScheme, e.EdgeServerPort, e.ClientSSLServerName = https, 443, s.host
	e.ClientSSLSessionReused = r.IntN(3) == 0
}

func (m *maker) origin(e *event.HTTP) {
	e.CacheCacheStatus = cacheStates[m.r.IntN(len(cacheStates))]
	if string(e.CacheCacheStatus) == "hit" {
		return
	}
	e.OriginAddress, e.OriginTries, e.OriginResponseStatus = upstreams[m.r.IntN(len(upstreams))], 1, e.EdgeResponseStatus
	took := uint32(max(e.EdgeEndTimestamp-e.EdgeStartTimestamp, 0) / 1000)
	e.OriginResponseDurationUs, e.OriginResponseHeaderReceiveDurationUs, e.OriginConnectDurationUs = took, took*3/4, took/20
	e.OriginRequestBytes, e.OriginResponseBytes = e.ClientRequestBytes, e.EdgeResponseBytes
}

// contentType guesses by the end of the path.
func contentType(path []byte) []byte {
	dot := bytes.LastIndexByte(path, '.')
	if dot < 0 || len(path)-dot > 6 {
		return typeHTML
	}
	for i := range types {
		if string(path[dot+1:]) == types[i].ending {
			return types[i].name
		}
	}
	return typeHTML
}

var (
	typeHTML = []byte("text/html; charset=utf-8")
	types    = [...]struct {
		ending string
		name   []byte
	}{
		{"jpg", []byte("image/jpeg")}, {"jpeg", []byte("image/jpeg")}, {"png", []byte("image/png")}, {"webp", []byte("image/webp")},
		{"gif", []byte("image/gif")}, {"svg", []byte("image/svg+xml")}, {"ico", []byte("image/x-icon")}, {"js", []byte("application/javascript")},
		{"css", []byte("text/css")}, {"json", []byte("application/json")}, {"woff2", []byte("font/woff2")}, {"ttf", []byte("font/ttf")},
	}
)

func edgeOf(colo []byte) []byte {
	for i, c := range colos {
		if c == string(colo) {
			return edges[i]
		}
	}
	return nil
}

var edges = func() (list [len(colos)][]byte) {
	for i, c := range colos {
		list[i] = []byte(strings.ToLower(c) + "1")
	}
	return list
}()
