package schema_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/anonymize"
	"github.com/spate-io/spate/internal/enrich"
	"github.com/spate-io/spate/store/schema"
)

// anyEvent fills every field with something, often hostile.
func anyEvent(r *rand.Rand) event.HTTP {
	var e event.HTTP
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Interface().(type) {
		case []byte:
			text := make([]byte, []int{0, 1, 7, 200}[r.IntN(4)])
			for j := range text {
				text[j] = byte(r.IntN(256))
			}
			f.SetBytes(text)
		case netip.Addr:
			a := [16]byte{0: 0x20, 15: byte(r.IntN(256))}
			f.Set(reflect.ValueOf([]netip.Addr{netip.AddrFrom16(a), netip.AddrFrom4([4]byte(a[12:])), {}}[r.IntN(3)]))
		case bool:
			f.SetBool(r.IntN(2) == 0)
		case float32:
			f.SetFloat(float64(r.IntN(1000)) / 8)
		case int64:
			f.SetInt(1_767_225_600_000_000_000 + r.Int64N(1_000_000_000_000))
		default:
			f.SetUint(r.Uint64() >> (64 - f.Type().Bits()) >> r.IntN(8))
		}
	}
	e.EdgeEndTimestamp = e.EdgeStartTimestamp + r.Int64N(9_000_000_000_000)
	return e
}

// Every field of every event comes back from the store as it went in, bytes that are no text included.
func TestHTTPBlock_KeepsEveryField(t *testing.T) {
	db := openSchema(t)
	r := rand.New(rand.NewPCG(1, 2))
	b := schema.NewHTTPBlock(nil)
	for round := range 2 { // the second block reuses the memory of the first
		b.Reset()
		var want []string
		var exprs []string
		for i := range 700 {
			e := anyEvent(r)
			e.ConnectionID = uint64(round*700 + i)
			var line []string
			exprs = exprs[:0]
			v := reflect.ValueOf(e)
			for _, f := range event.HTTPFields() {
				value, expr := expected(f, v.FieldByName(f.Name).Interface())
				line, exprs = append(line, value), append(exprs, expr)
			}
			res := enrich.Result{ZoneID: "z" + fmt.Sprint(i%3), ClientCountry: "D\x00", ClientASN: uint32(i), Cached: i%2 == 0}
			line = append(line, res.ZoneID, "4400", fmt.Sprint(i), fmt.Sprint(i%2 == 0))
			want = append(want, strings.Join(line, "\t"))
			if _, err := event.Walk(e.Append(nil), func(v event.View) error { b.Append(v, &res); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		insert(t, db, b.Inserts(""))
		exprs = append(exprs, "ZoneID", "hex(ClientCountry)", "ClientASN", "Cached")
		got := rows(t, db, fmt.Sprintf("SELECT %s FROM http_requests WHERE ConnectionID >= %d ORDER BY ConnectionID", strings.Join(exprs, ", "), round*700))
		if diff := cmp.Diff(want, strings.Split(got, "\n")); diff != "" {
			t.Fatalf("(-put +got)\n%.2000s", diff)
		}
	}
}

// expected gives the text of a value and the expression that reads it.
func expected(f event.Field, v any) (value, expr string) {
	switch v := v.(type) {
	case []byte:
		return strings.ToUpper(fmt.Sprintf("%x", v)), "hex(" + f.Name + ")"
	case netip.Addr:
		a := [16]byte{}
		if v.IsValid() {
			a = v.As16()
		}
		return strings.ToUpper(fmt.Sprintf("%x", a)), "hex(" + f.Name + ")"
	case int64:
		return fmt.Sprint(v / 1000), "toUnixTimestamp64Micro(" + f.Name + ")"
	}
	return fmt.Sprint(v), f.Name
}

func TestHTTPBlock_MovesTimesThatNoTableHolds(t *testing.T) {
	db := openSchema(t)
	b := schema.NewHTTPBlock(nil)
	for i, e := range []event.HTTP{
		{EdgeStartTimestamp: math.MinInt64}, {EdgeStartTimestamp: math.MaxInt64, EdgeEndTimestamp: math.MinInt64},
		{EdgeStartTimestamp: -1}, {EdgeStartTimestamp: 5_000_000_000_000_000_000, EdgeEndTimestamp: 5_000_000_001_000_000_000},
		{EdgeStartTimestamp: math.MinInt64, EdgeEndTimestamp: math.MaxInt64},
	} {
		e.ConnectionID = uint64(i)
		if _, err := event.Walk(e.Append(nil), func(v event.View) error { b.Append(v, &enrich.Result{}); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	insert(t, db, b.Inserts(""))
	got := rows(t, db, "SELECT toYear(EdgeStartTimestamp), EdgeDurationUs >= 0, RequestDurationUs FROM http_requests ORDER BY ConnectionID")
	if want := "1970\t0\t0\n2106\t1\t0\n1970\t0\t0\n2106\t1\t1000000\n1970\t1\t4294967295"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	checkRollups(t, db)
}

func TestHTTPBlock_EmptyAndReset(t *testing.T) {
	db := openSchema(t)
	b := schema.NewHTTPBlock(nil)
	insert(t, db, b.Inserts(""))
	in := blockOf(t, b, madeEvents(0, 50), "", enrichMade)
	raw, flow := string(in[0].Block), string(in[1].Block)
	for range 3 {
		if in := blockOf(t, b, madeEvents(0, 50), "", enrichMade); string(in[0].Block) != raw || string(in[1].Block) != flow {
			t.Fatal("a reused block differs from a new one")
		}
	}
	allocs := testing.AllocsPerRun(10, func() {
		b.Reset()
		_, _ = event.Walk(madeEvent, func(v event.View) error { b.Append(v, &madeResult); return nil })
		_ = b.Bytes()
	})
	if allocs > 20 { // one per new word of a dictionary
		t.Errorf("%v allocations", allocs)
	}
}

var (
	madeEvent  = madeEvents(0, 1)
	madeResult = enrich.Result{ZoneID: "z"}
)

// Where addresses must not be stored, neither the raw table nor the sets of the rollups have them.
func TestHTTPBlock_MasksAddresses(t *testing.T) {
	db := openSchema(t)
	mask, err := anonymize.New(anonymize.Config{Addresses: anonymize.Truncate, IPv4Prefix: 24, IPv6Prefix: 48})
	if err != nil {
		t.Fatal(err)
	}
	b := schema.NewHTTPBlock(mask)
	for i := range 20 {
		e := event.HTTP{
			EdgeStartTimestamp: 1_767_225_600_000_000_000, ClientIP: netip.AddrFrom4([4]byte{203, 0, 113, byte(i + 1)}),
			ClientXForwardedFor: fmt.Appendf(nil, "203.0.113.%d, 198.51.100.9", i+1),
		}
		if _, err := event.Walk(e.Append(nil), func(v event.View) error { b.Append(v, &enrich.Result{ZoneID: "z"}); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	insert(t, db, b.Inserts(""))
	const want = "::ffff:203.0.113.0\t203.0.113.0, 198.51.100.0\t20"
	if got := rows(t, db, "SELECT ClientIP, ClientXForwardedFor, count() FROM http_requests GROUP BY ALL"); got != want {
		t.Errorf("stored %q, want %q", got, want)
	}
	if got := rows(t, db, "SELECT uniqMerge(uniques) FROM http_requests_1m"); got != "1" {
		t.Errorf("addresses in the rollup: %q", got)
	}
}
