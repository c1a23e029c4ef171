package nginx_test

import (
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spate-io/spate/edge/nginx"
	"github.com/spate-io/spate/event"
)

// columns are the variables in nginx's own log, in order, each with how the event must hold it.
var columns = []struct {
	variable string
	want     func(value string) string // the log's value in the event's form
	got      func(e *event.HTTP) string
}{
	{"request_id", same, func(e *event.HTTP) string { return string(e.RayID) }},
	{"remote_addr", same, func(e *event.HTTP) string { return e.ClientIP.Unmap().String() }},
	{"remote_port", same, func(e *event.HTTP) string { return fmt.Sprint(e.ClientSrcPort) }},
	{"server_addr", same, func(e *event.HTTP) string { return e.EdgeServerIP.Unmap().String() }},
	{"server_port", same, func(e *event.HTTP) string { return fmt.Sprint(e.EdgeServerPort) }},
	{"server_name", same, func(e *event.HTTP) string { return string(e.EdgeServerName) }},
	{"host", same, func(e *event.HTTP) string { return string(e.ClientRequestHost) }},
	{"request_method", same, func(e *event.HTTP) string { return string(e.ClientRequestMethod) }},
	{"scheme", same, func(e *event.HTTP) string { return string(e.ClientRequestScheme) }},
	{"server_protocol", same, func(e *event.HTTP) string { return string(e.ClientRequestProtocol) }},
	{"http_referer", short, func(e *event.HTTP) string { return string(e.ClientRequestReferer) }},
	{"http_user_agent", short, func(e *event.HTTP) string { return string(e.ClientRequestUserAgent) }},
	{"http_x_forwarded_for", short, func(e *event.HTTP) string { return string(e.ClientXForwardedFor) }},
	{"remote_user", upToNUL, func(e *event.HTTP) string { return string(e.ClientRequestUser) }},
	{"request_length", same, func(e *event.HTTP) string { return fmt.Sprint(e.ClientRequestBytes) }},
	{"bytes_sent", same, func(e *event.HTTP) string { return fmt.Sprint(e.EdgeResponseBytes) }},
	{"body_bytes_sent", same, func(e *event.HTTP) string { return fmt.Sprint(e.EdgeResponseBodyBytes) }},
	{"status", func(v string) string { return strings.TrimLeft(v, "0") }, func(e *event.HTTP) string { return fmt.Sprint(e.EdgeResponseStatus) }},
	{"sent_http_content_type", same, func(e *event.HTTP) string { return string(e.EdgeResponseContentType) }},
	{"ssl_protocol", same, func(e *event.HTTP) string { return string(e.ClientSSLProtocol) }},
	{"ssl_cipher", same, func(e *event.HTTP) string { return string(e.ClientSSLCipher) }},
	{"ssl_server_name", same, func(e *event.HTTP) string { return string(e.ClientSSLServerName) }},
	{"ssl_client_verify", same, func(e *event.HTTP) string { return string(e.ClientMTLSAuthStatus) }},
	{"ssl_session_reused", flag("r"), func(e *event.HTTP) string { return fmt.Sprint(e.ClientSSLSessionReused) }},
	{"upstream_addr", lastOf, func(e *event.HTTP) string { return string(e.OriginAddress) }},
	{"upstream_status", lastOf, func(e *event.HTTP) string { return zero(e.OriginResponseStatus) }},
	{"upstream_connect_time", micros, func(e *event.HTTP) string { return fmt.Sprint(e.OriginConnectDurationUs) }},
	{"upstream_header_time", micros, func(e *event.HTTP) string { return fmt.Sprint(e.OriginResponseHeaderReceiveDurationUs) }},
	{"upstream_response_time", micros, func(e *event.HTTP) string { return fmt.Sprint(e.OriginResponseDurationUs) }},
	{"upstream_bytes_sent", sumOf, func(e *event.HTTP) string { return fmt.Sprint(e.OriginRequestBytes) }},
	{"upstream_bytes_received", sumOf, func(e *event.HTTP) string { return fmt.Sprint(e.OriginResponseBytes) }},
	{"upstream_cache_status", strings.ToLower, func(e *event.HTTP) string { return string(e.CacheCacheStatus) }},
	{"connection", same, func(e *event.HTTP) string { return fmt.Sprint(e.ConnectionID) }},
	{"connection_requests", same, func(e *event.HTTP) string { return fmt.Sprint(e.ConnectionRequests) }},
	{"pipe", flag("p"), func(e *event.HTTP) string { return fmt.Sprint(e.ClientRequestPipelined) }},
	{"request_completion", flag("OK"), func(e *event.HTTP) string { return fmt.Sprint(e.EdgeResponseCompleted) }},
	{"limit_req_status", same, func(e *event.HTTP) string { return string(e.EdgeLimitReqStatus) }},
	{"gzip_ratio", ratio, func(e *event.HTTP) string { return fmt.Sprintf("%.2f", e.EdgeResponseCompressionRatio) }},
}

// extra are variables that the test reads by name.
var extra = []string{"msec", "request_time", "request_uri", "request", "arg_threat"}

func logFormat() string {
	var s []string
	for _, c := range columns {
		s = append(s, "$"+c.variable)
	}
	for _, name := range extra {
		s = append(s, "$"+name)
	}
	return strings.Join(s, "\t")
}

func same(v string) string { return v }

func short(v string) string { return v[:min(len(v), 16<<10)] }

func upToNUL(v string) string {
	v, _, _ = strings.Cut(v, "\x00")
	return v
}

func flag(yes string) func(string) string {
	return func(v string) string { return fmt.Sprint(v == yes) }
}

func zero(n uint16) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func parts(v string) []string {
	return strings.Split(strings.ReplaceAll(v, " : ", ", "), ", ")
}

func lastOf(v string) string {
	p := parts(v)
	if last := p[len(p)-1]; last != "-" {
		return last
	}
	return ""
}

func add(v string) float64 {
	sum := 0.0
	for _, p := range parts(v) {
		n, err := strconv.ParseFloat(p, 64)
		if err == nil {
			sum += n
		}
	}
	return sum
}

func sumOf(v string) string  { return fmt.Sprintf("%.0f", add(v)) }
func micros(v string) string { return fmt.Sprintf("%.0f", math.Round(add(v)*1000)*1000) }
func ratio(v string) string  { return fmt.Sprintf("%.2f", add(v)) }

// line is one line of nginx's log, unescaped, by variable.
type line map[string]string

// unescape turns \xHH into bytes and "-" into nothing.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && s[i+1] == 'x' {
			n, err := strconv.ParseUint(s[i+2:i+4], 16, 8)
			if err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	if b.String() == "-" {
		return ""
	}
	return b.String()
}

func readLog(t *testing.T, s *server) map[string]line {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, "access.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]line{}
	for text := range strings.Lines(string(b)) {
		values := strings.Split(strings.TrimSuffix(text, "\n"), "\t")
		if len(values) != len(columns)+len(extra) {
			t.Fatalf("%d values in log line %q", len(values), text)
		}
		l := line{}
		for i, c := range columns {
			l[c.variable] = unescape(values[i])
		}
		for i, name := range extra {
			l[name] = unescape(values[len(columns)+i])
		}
		lines[l["request_id"]] = l
	}
	return lines
}

// The module has three ways to read a variable and takes the best that works; all must give the same.
func TestModule_EveryFieldEqualsNginxsOwnLog(t *testing.T) {
	t.Run("direct", func(t *testing.T) { everyField(t, 4000, func(*server) {}) })
	t.Run("keyed", func(t *testing.T) {
		everyField(t, 300, func(s *server) {
			s.write(t, "spate/lua/spate/handlers.lua", "return { find = function() return {} end }")
		})
	})
	t.Run("portable", func(t *testing.T) {
		everyField(t, 300, func(s *server) {
			s.write(t, "spate/lua/spate/handlers.lua", "return { find = function() return {} end }")
			code, err := os.ReadFile(filepath.Join(s.dir, "spate/lua/spate/sys.lua"))
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(string(code), "function M.exported(name)", "function M.exported(name) do return false end", 1)
			if changed == string(code) {
				t.Fatal("sys.lua has no M.exported")
			}
			s.write(t, "spate/lua/spate/sys.lua", changed)
		})
	})
}

// everyField sends odd requests, garbage and n ordinary ones, and compares every field of every event with the log.
func everyField(t *testing.T, n int, prepare func(*server)) {
	p := ports(t, 4)
	plain, secureAddr := fmt.Sprintf("127.0.0.1:%d", p[0]), fmt.Sprintf("127.0.0.1:%d", p[2])
	s := start(t, "worker_processes 2;\nevents { worker_connections 256; }", site(p[0], p[1], p[2], p[3]), nginx.Options{Colo: "HEL"})
	prepare(s)
	cert := s.certificate(t)
	sink := auto()
	s.listen(t, sink)
	began := time.Now()
	s.run(t, plain)

	v4, v6 := client{t, plain}, client{t, fmt.Sprintf("[::1]:%d", p[1])}
	for _, r := range odd() {
		v4.many([]string{r})
		v6.many([]string{r, "GET /index.html HTTP/1.1\r\nHost: c.test\r\n\r\n"})
	}
	for _, g := range garbage() {
		v4.raw(g, true)
	}
	requests := ordinary(n)
	for i, batch := range slices.Collect(slices.Chunk(requests, 50)) {
		[]client{v4, v6}[i%2].many(batch)
	}
	secure(t, secureAddr, cert)
	s.quit(t)

	lines := readLog(t, s)
	events, dropped := received(t, sink)
	if len(events) != len(lines) || dropped != 0 {
		t.Errorf("%d events, %d dropped, %d lines in the log", len(events), dropped, len(lines))
	}
	if len(lines) < n+150 {
		t.Errorf("only %d lines in the log", len(lines))
	}
	seen := map[string]int{}
	for i := range events {
		e := &events[i]
		l, ok := lines[string(e.RayID)]
		if !ok {
			t.Errorf("no log line for event %s", e.RayID)
			continue
		}
		delete(lines, string(e.RayID))
		compare(t, e, l, seen)
		times(t, e, l, began)
		target(t, e, l)
		constants(t, e, l)
		if t.Failed() && i > 100 {
			t.FailNow()
		}
	}
	for _, c := range columns {
		if seen[c.variable] == 0 {
			t.Errorf("no request had a value for %s: the test does not test it", c.variable)
		}
	}
	decodeWithTool(t, sink, events)
}

func compare(t *testing.T, e *event.HTTP, l line, seen map[string]int) {
	t.Helper()
	for _, c := range columns {
		value := l[c.variable]
		if strings.HasPrefix(c.variable, "ssl_") && l["scheme"] == "http" {
			value = ""
		}
		want, got := c.want(value), c.got(e)
		if want != "" && want != "0" && want != "false" && want != "0.00" {
			seen[c.variable]++
		}
		if want == got || (want == "" && (got == "0" || got == "-" || got == "invalid IP")) {
			continue
		}
		t.Errorf("%s %q: event has %.100q, log has %.100q", c.variable, l["request"], got, want)
	}
}

// times compares the start with the log to the millisecond; the log's times have no more.
func times(t *testing.T, e *event.HTTP, l line, began time.Time) {
	t.Helper()
	msec, err := strconv.ParseFloat(l["msec"], 64)
	if err != nil {
		t.Fatal(err)
	}
	took, err := strconv.ParseFloat(l["request_time"], 64)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(math.Round((msec-took)*1000)) * 1e6; e.EdgeStartTimestamp != want {
		t.Errorf("start %d, log has %d", e.EdgeStartTimestamp, want)
	}
	duration := time.Duration(e.EdgeEndTimestamp - e.EdgeStartTimestamp)
	logged := time.Duration(took*1e6) * time.Microsecond
	if duration < logged || duration > logged+time.Second {
		t.Errorf("duration %s, log has %s", duration, logged)
	}
	end := time.Unix(0, e.EdgeEndTimestamp)
	if end.Before(began) || end.After(time.Now()) || e.EdgeEndTimestamp%1000 != 0 {
		t.Errorf("end %s is not in the time of the test, or not in microseconds", end)
	}
}

// target compares path and query with the request target, or with the raw line when nginx made no target of it.
func target(t *testing.T, e *event.HTTP, l line) {
	t.Helper()
	uri := l["request_uri"]
	if uri == "" {
		uri, _, _ = strings.Cut(l["request"], "\x00")
		if m := l["request_method"]; m != "" {
			uri = strings.TrimPrefix(uri, m+" ")
		}
		if i := strings.LastIndex(uri, " HTTP/"); i >= 0 {
			uri = uri[:i]
		}
	}
	path, query, _ := strings.Cut(uri, "?")
	if string(e.ClientRequestPath) != short(path) || string(e.ClientRequestQuery) != short(query) {
		t.Errorf("%.100q: path %.100q, query %.100q", l["request"], e.ClientRequestPath, e.ClientRequestQuery)
	}
}

func constants(t *testing.T, e *event.HTTP, l line) {
	t.Helper()
	if string(e.EdgeName) != "test-edge" || string(e.EdgeColoCode) != "HEL" {
		t.Errorf("edge %q, colo %q", e.EdgeName, e.EdgeColoCode)
	}
	tries := 0
	if l["upstream_addr"] != "" {
		tries = len(parts(l["upstream_addr"]))
	}
	if int(e.OriginTries) != tries {
		t.Errorf("%d tries, log has %q", e.OriginTries, l["upstream_addr"])
	}
	threat := l["arg_threat"]
	if l["request_uri"] == "/ctx" {
		threat = "scraper"
	}
	if string(e.Threat) != threat {
		t.Errorf("%s: threat %q, want %q", l["request"], e.Threat, threat)
	}
	if e.ClientTCPRTTUs == 0 && e.ClientIP != (netip.Addr{}) {
		t.Errorf("%s: no round-trip time", l["request"])
	}
}
