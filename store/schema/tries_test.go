package schema_test

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb/chdbtest"
)

func TestTryUniq(t *testing.T) {
	if os.Getenv("TRY") != "uniq" {
		t.Skip()
	}
	db := chdbtest.Open(t)
	for _, f := range []string{"uniq", "uniqCombined(12)", "uniqCombined(13)", "uniqCombined(14)", "uniqCombined(15)", "uniqCombined(16)", "uniqCombined(17)", "uniqCombined64(14)", "uniqCombined64(15)", "uniqHLL12", "uniqTheta"} {
		name, arg, _ := bytes.Cut([]byte(f), []byte("("))
		st := string(name) + "State"
		if len(arg) > 0 {
			st += "(" + string(arg)
		}
		var b bytes.Buffer
		for _, n := range []int{1, 10, 100, 1000, 5000, 20000, 100000, 1000000} {
			reps := min(400, max(20, 20000000/n/4))
			if n == 1000000 {
				reps = 20
			}
			q := "SELECT '" + f + "', {n:UInt32}, {r:UInt32}, round(avg(length(toString(s)))) AS size, round(100*quantileExact(0.99)(abs(finalizeAggregation(s) - {n:UInt32})/{n:UInt32}),2) AS e99, round(100*max(abs(finalizeAggregation(s) - {n:UInt32})/{n:UInt32}),2) AS emax FROM (SELECT " + st + "(toIPv6(IPv6NumToString(reinterpretAsFixedString(toUInt128(number) * 2654435761 + 77)))) AS s FROM numbers({n:UInt32} * {r:UInt32}) GROUP BY intDiv(number, {n:UInt32}))"
			if _, err := db.Stream(context.Background(), store.Query{SQL: q, Params: map[string]string{"n": itoa(n), "r": itoa(reps)}, Settings: map[string]string{"max_memory_usage": "0"}}, &b); err != nil {
				t.Log(err)
			}
		}
		t.Log("\n" + b.String())
	}
}
