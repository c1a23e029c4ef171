package histogram_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/spate-io/spate/histogram"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb/chdbtest"
)

// TestSQLBin_EqualsBinOf compares the engine's bins with Go's: all small numbers, every bound and its neighbours, and
// numbers of every length, in the types that our columns have.
func TestSQLBin_EqualsBinOf(t *testing.T) {
	db := chdbtest.Open(t)
	for _, numbers := range []string{
		"SELECT toUInt64(number) AS x FROM numbers(20000)",
		"SELECT toUInt32(number * 214748 + number % 7) AS x FROM numbers(20000)",
		"SELECT toUInt16(number) AS x FROM numbers(65536)",
		"SELECT toInt64(bitShiftRight(cityHash64(number), 1 + number % 63)) AS x FROM numbers(50000)",
		"SELECT toUInt64(m * intExp10(e) + d) AS x FROM (SELECT arrayJoin(range(10, 100)) AS m, arrayJoin(range(0, 17)) AS e, arrayJoin([-1, 0, 1]) AS d)",
		"SELECT toInt64(9223372036854775807) AS x",
	} {
		var b bytes.Buffer
		sql := "SELECT x, toTypeName(bin), " + histogram.SQLBin("x") + " AS bin FROM (" + numbers + ")"
		if _, err := db.Stream(context.Background(), store.Query{SQL: sql}, &b); err != nil {
			t.Fatal(err)
		}
		n := 0
		for sc := bufio.NewScanner(&b); sc.Scan(); n++ {
			var x int64
			var kind string
			var bin histogram.Bin
			if _, err := fmt.Fscan(strings.NewReader(sc.Text()), &x, &kind, &bin); err != nil || kind != "Int16" {
				t.Fatalf("%q: %v", sc.Text(), err)
			}
			if want := histogram.BinOf(x); bin != want {
				t.Fatalf("%d has bin %d in the engine, %d here", x, bin, want)
			}
		}
		if n == 0 {
			t.Fatalf("no numbers: %s", numbers)
		}
	}
}
