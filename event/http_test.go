package event

import (
	"bytes"
	"errors"
	"net/netip"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sample returns an event in which every field is set, each to another value.
func sample() *HTTP {
	e := &HTTP{}
	v := reflect.ValueOf(e).Elem()
	for i, f := range HTTPFields() {
		x := v.FieldByName(f.Name)
		switch f.Kind {
		case KindTime:
			x.SetInt(1_700_000_000_123_456_789 + int64(i))
		case KindUint64, KindUint32, KindUint16:
			x.SetUint(uint64(1000 + i))
		case KindFloat32:
			x.SetFloat(3.25)
		case KindBool:
			x.SetBool(true)
		case KindIP:
			x.Set(reflect.ValueOf(netip.MustParseAddr([]string{"192.0.2.7", "2001:db8::1"}[i%2])))
		case KindText:
			x.SetBytes([]byte(f.Name + "/value"))
		}
	}
	return e
}

// typical returns an event as a web server makes it.
func typical() *HTTP {
	return &HTTP{
		EdgeStartTimestamp: 1_700_000_000_123_456_789, EdgeEndTimestamp: 1_700_000_000_125_001_000,
		ClientRequestBytes: 612, EdgeResponseBytes: 18_233, EdgeResponseBodyBytes: 17_900, ConnectionID: 88_121, ConnectionRequests: 3,
		ClientTCPRTTUs: 18_200, OriginConnectDurationUs: 120, OriginResponseHeaderReceiveDurationUs: 1_400, OriginResponseDurationUs: 1_460,
		ClientSrcPort: 51_234, EdgeServerPort: 443, EdgeResponseStatus: 200, OriginResponseStatus: 200, OriginTries: 1,
		ClientSSLSessionReused: true, EdgeResponseCompleted: true,
		ClientIP: netip.MustParseAddr("203.0.113.9"), EdgeServerIP: netip.MustParseAddr("198.51.100.1"),
		ClientRequestHost: []byte("www.example.com"), ClientRequestMethod: []byte("GET"), ClientRequestScheme: []byte("https"),
		ClientRequestPath: []byte("/articles/2023/11/why-edges-matter"), ClientRequestQuery: []byte("utm_source=feed&page=2"),
		ClientRequestProtocol: []byte("HTTP/2.0"), ClientRequestReferer: []byte("https://www.example.com/"),
		ClientRequestUserAgent:  []byte("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/119.0.0.0 Safari/537.36"),
		EdgeResponseContentType: []byte("text/html; charset=utf-8"), ClientSSLProtocol: []byte("TLSv1.3"), ClientSSLCipher: []byte("TLS_AES_128_GCM_SHA256"),
		ClientSSLServerName: []byte("www.example.com"), OriginAddress: []byte("10.0.0.12:8080"), CacheCacheStatus: []byte("miss"),
		RayID: []byte("8c3f1e2d4b5a69788796a5b4c3d2e1f0"), EdgeServerName: []byte("www.example.com"), EdgeName: []byte("edge-1"), EdgeColoCode: []byte("FRA"),
	}
}

// equal lets go-cmp compare events.
var equal = cmp.Options{cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty(), cmpopts.EquateNaNs()}

func TestHTTP_RoundTrip(t *testing.T) {
	for name, want := range map[string]*HTTP{"empty": {}, "all_fields": sample(), "typical": typical()} {
		t.Run(name, func(t *testing.T) {
			prefix := []byte("before")
			b := want.Append(prefix)
			if !bytes.Equal(b[:6], prefix) {
				t.Fatal("the bytes before the message changed")
			}
			b = b[6:]
			v, n, err := ReadHTTP(append(b, "after"...))
			if err != nil || n != len(b) {
				t.Fatalf("read %d of %d bytes: %v", n, len(b), err)
			}
			got := sample() // must be overwritten
			v.Decode(got)
			if d := cmp.Diff(want, got, equal); d != "" {
				t.Fatal(d)
			}
			if again := got.Append(nil); !bytes.Equal(again, b) {
				t.Fatal("written again, the bytes differ")
			}
		})
	}
}

func TestHTTP_AppendOverGarbage(t *testing.T) {
	want := typical().Append(nil)
	dirty := bytes.Repeat([]byte{0xA5}, 4096)
	if got := typical().Append(dirty[:0]); !bytes.Equal(got, want) {
		t.Fatal("old bytes of the buffer shine through")
	}
}

func TestHTTP_AppendCutsWhatIsTooLarge(t *testing.T) {
	e := typical()
	e.ClientRequestPath = bytes.Repeat([]byte("p"), 200<<10)
	b := e.Append(nil)
	v, _, err := ReadHTTP(b)
	if err != nil || len(v.ClientRequestPath()) != 200<<10 {
		t.Fatalf("a long path that fits was cut to %d: %v", len(v.ClientRequestPath()), err)
	}
	e.ClientRequestQuery = bytes.Repeat([]byte("q"), 200<<10)
	v, n, err := ReadHTTP(e.Append(nil))
	if err != nil || n > MaxMessage {
		t.Fatalf("read %d bytes: %v", n, err)
	}
	if len(v.ClientRequestPath()) != MaxText || len(v.ClientRequestQuery()) != MaxText || string(v.ClientRequestHost()) != "www.example.com" {
		t.Fatalf("path %d, query %d bytes, host %q", len(v.ClientRequestPath()), len(v.ClientRequestQuery()), v.ClientRequestHost())
	}
	if len(e.ClientRequestPath) != 200<<10 {
		t.Fatal("append changed the event")
	}
}

func TestHTTP_Reset(t *testing.T) {
	e := sample()
	e.Reset()
	if d := cmp.Diff(&HTTP{}, e, equal); d != "" {
		t.Fatal(d)
	}
}

func TestHTTP_NoAllocations(t *testing.T) {
	e, dst := typical(), make([]byte, 0, 4096)
	var v View
	var back HTTP
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"append", func() { dst = e.Append(dst[:0]) }},
		{"read", func() { v, _, _ = ReadHTTP(dst) }},
		{"decode", func() { v.Decode(&back) }},
		{"walk", func() { _, _ = Walk(dst, func(View) error { return nil }) }},
	} {
		c.f()
		if n := testing.AllocsPerRun(100, c.f); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

func TestReadHTTP_EveryPrefixRefused(t *testing.T) {
	b := sample().Append(nil)
	for n := range b {
		_, _, err := ReadHTTP(b[:n:n])
		var e *Error
		if !errors.As(err, &e) || !errors.Is(e.Err, ErrShort) {
			t.Fatalf("prefix of %d bytes: %v", n, err)
		}
	}
}
