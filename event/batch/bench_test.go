package batch

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/testdata"
)

var combined = regexp.MustCompile(`^(\S+) \S+ \S+ \[([^\]]+)\] "(\S+) ([^ ?"]*)\??([^ "]*) ([^"]*)" (\d+) (\d+) "([^"]*)" "([^"]*)"`)

// realEvents returns the messages of n requests of a real shop's log, with the fields that a log has no column for filled
// in as nginx would: random request ids, connection serials and timings.
func realEvents(t testing.TB, n int) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join(testdata.Dir(t), "logs", "zanbil_nginx_100k_2019-01-26.log.zst"))
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	r := rand.New(rand.NewPCG(1, 2))
	var raw []byte
	lines := bufio.NewScanner(z)
	for n > 0 && lines.Scan() {
		if m := combined.FindSubmatch(lines.Bytes()); m != nil {
			e := fromLine(m, r)
			raw = e.Append(raw)
			n--
		}
	}
	return raw
}

func fromLine(m [][]byte, r *rand.Rand) event.HTTP {
	at, _ := time.Parse("02/Jan/2006:15:04:05 -0700", string(m[2]))
	start := at.UnixNano() + r.Int64N(1e9)
	ip, _ := netip.ParseAddr(string(m[1]))
	status, _ := strconv.Atoi(string(m[7]))
	size, _ := strconv.Atoi(string(m[8]))
	took := uint32(r.ExpFloat64() * 20_000)
	return event.HTTP{
		EdgeStartTimestamp: start, EdgeEndTimestamp: start + int64(took)*1000, ClientRequestBytes: 300 + uint64(r.IntN(400)),
		EdgeResponseBytes: uint64(size) + 300, EdgeResponseBodyBytes: uint64(size), ConnectionID: uint64(r.IntN(1e6)),
		ConnectionRequests: uint32(r.IntN(20)), ClientTCPRTTUs: uint32(r.IntN(90_000)), OriginResponseHeaderReceiveDurationUs: took / 2,
		OriginResponseDurationUs: took * 3 / 4, ClientSrcPort: uint16(1024 + r.IntN(60_000)), EdgeServerPort: 443,
		EdgeResponseStatus: uint16(status), OriginResponseStatus: uint16(status), OriginTries: 1, EdgeResponseCompleted: true,
		ClientIP: ip, EdgeServerIP: netip.MustParseAddr("198.51.100.1"), ClientRequestHost: []byte("www.example.com"),
		ClientRequestMethod: m[3], ClientRequestScheme: []byte("https"), ClientRequestPath: m[4], ClientRequestQuery: m[5],
		ClientRequestProtocol: m[6], ClientRequestReferer: m[9], ClientRequestUserAgent: m[10],
		EdgeResponseContentType: []byte("text/html; charset=utf-8"), ClientSSLProtocol: []byte("TLSv1.3"),
		ClientSSLCipher: []byte("TLS_AES_256_GCM_SHA384"), ClientSSLServerName: []byte("www.example.com"),
		OriginAddress: []byte("10.0.0.12:8080"), RayID: fmt.Appendf(nil, "%016x%016x", r.Uint64(), r.Uint64()),
		EdgeServerName: []byte("www.example.com"), EdgeName: []byte("edge-1"), EdgeColoCode: []byte("FRA"),
	}
}

// BenchmarkCodecs reports for each codec and level how small a batch of 10,000 real requests becomes, and how fast.
func BenchmarkCodecs(b *testing.B) {
	raw := realEvents(b, 10_000)
	h := head()
	h.Events = 10_000
	for _, c := range []struct {
		codec Codec
		level int
	}{{None, 0}, {Snappy, 0}, {LZ4, 0}, {LZ4, 6}, {Gzip, 1}, {Gzip, 6}, {Zstd, 1}, {Zstd, 3}, {Zstd, 7}, {Zstd, 19}} {
		e, err := NewEncoder(c.codec, c.level)
		if err != nil {
			b.Fatal(err)
		}
		var sealed []byte
		b.Run(fmt.Sprintf("encode/%s-%d", c.codec, c.level), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if sealed, err = e.Encode(sealed[:0], h, raw); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(raw))/float64(len(sealed)), "ratio")
			b.ReportMetric(float64(len(sealed))/10_000, "B/event")
		})
		d := NewDecoder(0)
		b.Run(fmt.Sprintf("decode/%s-%d", c.codec, c.level), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, got, err := d.Decode(sealed); err != nil || len(got) != len(raw) {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestBatch_RealEvents(t *testing.T) {
	raw := realEvents(t, 2000)
	h := head()
	h.Events = 2000
	for _, c := range codecs {
		got, back, err := NewDecoder(0).Decode(seal(t, c, h, raw))
		if err != nil || !bytes.Equal(back, raw) {
			t.Fatalf("%s: %v", c, err)
		}
		n, err := event.Walk(back, func(event.View) error { return nil })
		if err != nil || n != int(got.Events) {
			t.Fatalf("%s: %d events: %v", c, n, err)
		}
	}
}
