package anonymize_test

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spate-io/spate/internal/anonymize"
)

func masker(t testing.TB, mode string) *anonymize.Masker {
	t.Helper()
	cfg := anonymize.DefaultConfig()
	cfg.Addresses, cfg.KeyFile = mode, filepath.Join(t.TempDir(), "dir", "key")
	m, err := anonymize.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMasker_Truncates(t *testing.T) {
	m := masker(t, anonymize.Truncate)
	for in, want := range map[string]string{
		"203.0.113.77": "203.0.113.0", "::ffff:203.0.113.77": "203.0.113.0", "2001:db8:1:2::7": "2001:db8:1::", "0.0.0.1": "0.0.0.0",
	} {
		if got := m.Address(netip.MustParseAddr(in)); got.String() != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
	if got := m.Address(netip.Addr{}); got.IsValid() {
		t.Errorf("no address is %s", got)
	}
}

func TestMasker_Hashes(t *testing.T) {
	cfg := anonymize.DefaultConfig()
	cfg.Addresses, cfg.KeyFile = anonymize.Hash, filepath.Join(t.TempDir(), "key")
	// The value was computed with Python: hmac.new(bytes(range(16)), b'\0'*10 + b'\xff\xff' + bytes([203, 0, 113, 77]), 'sha256').
	if err := os.WriteFile(cfg.KeyFile, []byte("000102030405060708090a0b0c0d0e0f\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := anonymize.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	const wantHash = "fd36:d73:8166:d42b:2c2d:51ec:db56:7b3c"
	v4 := netip.MustParseAddr("203.0.113.77")
	if got := m.Address(v4).String(); got != wantHash {
		t.Errorf("hash %s, want %s", got, wantHash)
	}
	if m.Address(netip.MustParseAddr("::ffff:203.0.113.77")) != m.Address(v4) {
		t.Error("the two ways to write one address differ")
	}
	if m.Fork().Address(v4) != m.Address(v4) {
		t.Error("a fork hashes otherwise")
	}
	if masker(t, anonymize.Hash).Address(v4) == m.Address(v4) {
		t.Error("the key does not matter")
	}
}

func TestMasker_ReplacesAddressesInText(t *testing.T) {
	m := masker(t, anonymize.Truncate)
	for in, want := range map[string]string{
		"203.0.113.77, 2001:db8:1:2::7,198.51.100.9": "203.0.113.0, 2001:db8:1::,198.51.100.0",
		"203.0.113.77:4711":                          "203.0.113.0:4711",
		"[2001:db8:1:2::7]:4711":                     "[2001:db8:1::]:4711",
		"unknown":                                    "unknown",
		"came from 203.0.113.77.":                    "came from 203.0.113.0.",
		`203.0.113.77 - - [10/Oct/2000:13:55:36 -0700] "GET /a/1.2.3 HTTP/1.0" 200 2326`: `203.0.113.0 - - [10/Oct/2000:13:55:36 -0700] "GET /a/1.2.3 HTTP/1.0" 200 2326`,
		"":                       "",
		"::1":                    "::",
		"::::::":                 "::::::",
		strings.Repeat("1", 100): strings.Repeat("1", 100),
	} {
		if got := string(m.Text([]byte(in))); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func TestNew_KeyFile(t *testing.T) {
	cfg := anonymize.DefaultConfig()
	if m, err := anonymize.New(cfg); m != nil || err != nil {
		t.Fatalf("keep: %v, %v", m, err)
	}
	cfg.Addresses, cfg.KeyFile = anonymize.Hash, filepath.Join(t.TempDir(), "key")
	first, err := anonymize.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	again, err := anonymize.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a := netip.MustParseAddr("192.0.2.1")
	if first.Address(a) != again.Address(a) {
		t.Error("another key after a restart")
	}
	if info, err := os.Stat(cfg.KeyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v, %v", info, err)
	}
	if err := os.WriteFile(cfg.KeyFile, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := anonymize.New(cfg); err == nil || !strings.Contains(err.Error(), "32 hexadecimal digits") {
		t.Errorf("a bad key: %v", err)
	}
}

func FuzzMasker_Text(f *testing.F) {
	f.Add([]byte("203.0.113.77, [2001:db8::7]:80"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m := masker(t, anonymize.Truncate)
		before := bytes.Clone(text)
		once := bytes.Clone(m.Text(text))
		if !bytes.Equal(text, before) {
			t.Fatal("the text was changed")
		}
		if twice := m.Text(once); !bytes.Equal(once, twice) {
			t.Fatalf("%q becomes %q becomes %q", text, once, twice)
		}
	})
}

func BenchmarkMasker(b *testing.B) {
	addresses := make([]netip.Addr, 256)
	for i := range addresses {
		addresses[i] = netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
	}
	for _, mode := range []string{anonymize.Truncate, anonymize.Hash} {
		b.Run(mode, func(b *testing.B) {
			m := masker(b, mode)
			b.ReportAllocs()
			for i := range b.N {
				m.Address(addresses[i%256])
			}
		})
	}
}
