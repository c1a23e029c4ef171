package analytics

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb/chdbtest"
)

// States merged here give the number that the engine gives for the same states, at every size and overlap.
func TestUniques_EqualTheEngine(t *testing.T) {
	db := chdbtest.Open(t)
	for _, c := range []struct{ rows, each, step uint64 }{
		{1, 1, 1}, {3, 1, 0}, {5, 500, 250}, {24, 4_000, 3_000}, {2, 65_536, 0}, {1, 65_537, 1}, {3, 40_000, 39_999}, {30, 65_000, 20_000},
		{4, 300_000, 100_000}, {2, 2_000_000, 2_000_000}, {6, 30, 1_000_000},
	} {
		t.Run(fmt.Sprintf("%d_of_%d_by_%d", c.rows, c.each, c.step), func(t *testing.T) {
			states := fmt.Sprintf("SELECT number %% %d AS n, uniqState(toIPv6(IPv6NumToString(toFixedString(reinterpretAsString(toUInt128(number DIV %d + n * %d + 1)), 16)))) AS u FROM numbers(%d) GROUP BY n",
				c.rows, c.rows, c.step, c.rows*c.each)
			var out bytes.Buffer
			if _, err := db.Stream(context.Background(), store.Query{SQL: "SELECT uniqMerge(u) FROM (" + states + ")"}, &out); err != nil {
				t.Fatal(err)
			}
			want, err := strconv.ParseUint(strings.TrimSpace(out.String()), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			var u uniques
			var column uniquesColumn
			if _, err := db.Select(context.Background(), store.Query{SQL: "SELECT u FROM (" + states + ")"}, proto.Results{{Name: "u", Data: &column}}, func(_ context.Context, rows int) error {
				for i := range rows {
					u.merge(column.skips[i], column.hashes[i])
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d, skipping %d bits", want, u.skip)
			if got := u.number(); got != want {
				t.Errorf("got %d, the engine says %d", got, want)
			}
		})
	}
}
