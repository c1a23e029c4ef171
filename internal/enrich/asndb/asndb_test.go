package asndb

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const rows = `1.0.0.0,1.0.0.255,13335,"Cloudflare, Inc."
1.0.4.0,1.0.7.255,38803,Gtelecom Pty Ltd
1.0.8.0,1.0.8.255,38803,neighbour of the same
255.255.255.0,255.255.255.255,7,up to the last address
2001:200::,2001:200:ffff:ffff:ffff:ffff:ffff:ffff,2500,WIDE Project
2001:db8::1,2001:db8::1,4200000001,one address
`

func table(t testing.TB) []byte {
	t.Helper()
	list, err := ReadCSV(strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Build(list)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDB_Lookup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "asn.db")
	if err := os.WriteFile(path, table(t), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if v4, v6 := db.Ranges(); v4 != 5 || v6 != 4 {
		t.Errorf("%d and %d ranges", v4, v6)
	}
	f := func(addr string, want uint32) {
		t.Helper()
		if got := db.Lookup(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %d, want %d", addr, got, want)
		}
	}
	f("0.0.0.0", 0)
	f("0.255.255.255", 0)
	f("1.0.0.0", 13335)
	f("1.0.0.255", 13335)
	f("1.0.1.0", 0)
	f("1.0.4.0", 38803)
	f("1.0.8.255", 38803)
	f("1.0.9.0", 0)
	f("255.255.255.255", 7)
	f("::ffff:1.0.0.1", 13335)
	f("::", 0)
	f("2001:200::", 2500)
	f("2001:200:ffff:ffff:ffff:ffff:ffff:ffff", 2500)
	f("2001:201::", 0)
	f("2001:db8::", 0)
	f("2001:db8::1", 4200000001)
	f("2001:db8::2", 0)
	if got := db.Lookup(netip.Addr{}); got != 0 {
		t.Errorf("no address: %d", got)
	}
}

func TestParse_RefusesDamage(t *testing.T) {
	b := table(t)
	for n := range b {
		if _, err := Parse(b[:n]); !errors.Is(err, ErrFormat) {
			t.Fatalf("prefix of %d bytes: %v", n, err)
		}
		x := bytes.Clone(b)
		x[n] ^= 1
		if _, err := Parse(x); !errors.Is(err, ErrFormat) {
			t.Fatalf("byte %d changed: %v", n, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

func TestBuild_RefusesBadRows(t *testing.T) {
	for _, csv := range []string{"1.0.0.0,1.0.0.255", "x,1.0.0.255,1", "1.0.0.9,1.0.0.1,1", "1.0.0.0,2001::,1", "1.0.0.0,1.0.0.1,-4", "1.0.0.0,\"1"} {
		if _, err := ReadCSV(strings.NewReader(csv)); err == nil {
			t.Errorf("%q accepted", csv)
		}
	}
	if _, err := Build([]Range{{}}); err == nil {
		t.Error("a range without addresses accepted")
	}
	if b, err := Build(nil); err != nil || len(b) != headerSize+4 {
		t.Errorf("%d bytes: %v", len(b), err)
	}
}

func TestBuild_RangeThatBeginsLastHolds(t *testing.T) {
	list, err := ReadCSV(strings.NewReader(`10.0.0.0,10.0.0.99,1
10.0.0.10,10.0.0.19,2
10.0.0.12,10.0.0.13,3
10.0.0.90,10.0.1.20,4
10.0.0.90,10.0.0.95,5
10.0.1.21,10.0.1.30,4
`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Build(list)
	if err != nil {
		t.Fatal(err)
	}
	db, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	for addr := netip.MustParseAddr("9.255.255.0"); addr != netip.MustParseAddr("10.0.2.0"); addr = addr.Next() {
		var want Range
		for _, r := range list {
			if !addr.Less(r.First) && !r.Last.Less(addr) && (!want.First.IsValid() || !r.First.Less(want.First)) {
				want = r
			}
		}
		if got := db.Lookup(addr); got != want.ASN {
			t.Errorf("%s: %d, want %d", addr, got, want.ASN)
		}
	}
	if v4, _ := db.Ranges(); v4 != 8 {
		t.Errorf("%d ranges", v4)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(table(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		db, err := Parse(b)
		if err != nil {
			return
		}
		for _, a := range []string{"1.0.0.1", "2001:200::1", "255.255.255.255", "::"} {
			db.Lookup(netip.MustParseAddr(a))
		}
	})
}
