package histogram

import "strings"

// SQLBin gives a ClickHouse expression of type Int16 with the Bin of expr, an expression of an unsigned integer type or
// of a signed one without negative values (microseconds, bytes; below 2^63). It is integer arithmetic only, so engine and
// Go agree on every value. expr occurs several times in it, the engine computes it once. It must not come from a user.
func SQLBin(expr string) string {
	return strings.ReplaceAll("toInt16(if($<10,if($=0,0,toInt64($)*10-9),"+
		"90*(toInt64(length(toString($)))-1)+toInt64(intDiv($,intExp10(greatest(length(toString($)),2)-2)))-9))",
		"$", "("+expr+")")
}
