package accesslog

import (
	"math"
	"strconv"
)

// parseUint reads a decimal number and nothing else.
func parseUint(v []byte) (uint64, bool) {
	if len(v) == 0 || len(v) > 20 {
		return 0, false
	}
	var n uint64
	for _, c := range v {
		c -= '0'
		if c > 9 {
			return 0, false
		}
		if n > math.MaxUint64/10 {
			return 0, false
		}
		n *= 10
		if n+uint64(c) < n {
			return 0, false
		}
		n += uint64(c)
	}
	return n, true
}

// parseFixed reads a decimal number with an optional fraction ("0.123", "12", JSON exponents too) and gives it in units of
// 10^-scale, truncated. A leading '+' is allowed (HAProxy's logasap), a '-' is not: nothing in an access log is negative
// but "unknown", which the callers know.
func parseFixed(v []byte, scale int) (uint64, bool) {
	if len(v) > 0 && v[0] == '+' {
		v = v[1:]
	}
	if len(v) == 0 || len(v) > 40 {
		return 0, false
	}
	var n uint64
	digits, frac, dot := 0, 0, false
	for _, c := range v {
		switch {
		case c >= '0' && c <= '9':
			digits++
			if dot {
				if frac == scale {
					continue
				}
				frac++
			}
			if n > (math.MaxUint64-9)/10 {
				return 0, false
			}
			n = n*10 + uint64(c-'0')
		case c == '.' && !dot:
			dot = true
		case (c == 'e' || c == 'E') && digits > 0:
			return parseExponent(v, scale)
		default:
			return 0, false
		}
	}
	if digits == 0 {
		return 0, false
	}
	for ; frac < scale; frac++ {
		if n > math.MaxUint64/10 {
			return 0, false
		}
		n *= 10
	}
	return n, true
}

// parseExponent is the slow way for "1.5e-05"; few writers use it.
func parseExponent(v []byte, scale int) (uint64, bool) {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f < 0 {
		return 0, false
	}
	f *= math.Pow10(scale)
	if f >= math.MaxUint64 {
		return 0, false
	}
	return uint64(math.Round(f)), true
}

// clamp32 keeps durations of more than 71 minutes at the most that the event can hold.
func clamp32(n uint64) uint32 {
	if n > math.MaxUint32 {
		return math.MaxUint32
	}
	return uint32(n)
}

// isDash tells whether a value is the mark for "nothing": "-" or empty.
func isDash(v []byte) bool { return len(v) == 0 || len(v) == 1 && v[0] == '-' }
