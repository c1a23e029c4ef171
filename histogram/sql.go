package histogram

import (
	"fmt"
	"strings"
)

// SQLBin gives a ClickHouse expression of type Int16 with the Bin of expr, an expression of an unsigned integer type or
// of a signed one without negative values (microseconds, bytes). It is integer arithmetic only, so engine and Go agree on
// every value. expr is used several times; the engine computes it once. It must not come from a user.
func SQLBin(expr string) string {
	// e is the count of powers of ten from 10 that the value reaches.
	var e strings.Builder
	for i := 1; i <= 18; i++ {
		if i > 1 {
			e.WriteByte('+')
		}
		fmt.Fprintf(&e, "($>=%d)", tens[i])
	}
	sql := "toInt16(if($<10,if($=0,0,toInt64($)*10-9),90*(" + e.String() +
		")+toInt64(intDiv($,intExp10(greatest(" + e.String() + ",1)-1)))-9))"
	return strings.ReplaceAll(sql, "$", "("+expr+")")
}
