package accesslog

import (
	"bytes"
	"time"
)

// setMoment does dates, times of day and durations.
func (r *record) setMoment(f field, v []byte) string {
	unit := uint64(0)
	switch f {
	case fDate:
		d, ok := isoDay(v)
		if !ok {
			return "not a date"
		}
		r.date, r.have = d, r.have|haveDate
	case fTimeOfDay:
		t, rest, ok := timeOfDay(v)
		if !ok {
			return "not a time of day"
		}
		r.tod, r.todZone, r.have = t, rest, r.have|haveTimeOfDay
	case fTimeSecFrac:
		n, ok := parseUint(v)
		if !ok || n > 999 {
			return "not milliseconds of a second"
		}
		r.start += int64(n) * int64(time.Millisecond)
	case fDurSec:
		unit = 9
	case fDurMs:
		unit = 6
	case fDurUs:
		unit = 3
	}
	if f < fDurSec {
		return ""
	}
	if isDash(v) || v[0] == '-' { // -1 is AWS's and HAProxy's "never got there"
		return ""
	}
	v, unit = durationUnit(v, unit)
	ns, ok := parseFixed(v, int(unit))
	if !ok || ns > uint64(maxDuration) {
		return "not a duration"
	}
	r.dur, r.have = ns, r.have|haveDur
	return ""
}

// maxDuration bounds what a line may claim, so that times stay in range.
const maxDuration = 10 * 365 * 24 * time.Hour

// durationUnit cuts a unit from v, if it has one.
func durationUnit(v []byte, unit uint64) ([]byte, uint64) {
	n := len(v)
	if n < 2 || v[n-1] != 's' {
		return v, unit
	}
	switch c := v[n-2]; {
	case c >= '0' && c <= '9':
		return v[:n-1], 9
	case c == 'm':
		return v[:n-2], 6
	case c == 'u':
		return v[:n-2], 3
	case c == 'n':
		return v[:n-2], 0
	case c == 0xB5 || c == 0xBC: // micro sign, Greek mu
		return v[:n-3], 3
	}
	return v, unit
}

// setTime reads a time in any of the forms that logs have.
func (r *record) setTime(v []byte, have uint32, at *int64) string {
	t, ok := r.time(v)
	if !ok {
		return "not a time"
	}
	if r.have&have != 0 && (*at%int64(time.Second) != 0 || t%int64(time.Second) == 0) {
		return "" // the first one counts, but for one that knows more than the second
	}
	*at, r.have = t, r.have|have
	return ""
}

func (r *record) time(v []byte) (int64, bool) {
	if len(v) >= 20 && v[2] == '/' {
		return r.clock.common(v)
	}
	if len(v) >= 19 && v[4] == '-' {
		return r.clock.iso(v)
	}
	whole := v
	if i := bytes.IndexByte(v, '.'); i >= 0 {
		whole = v[:i]
	}
	unit := 9
	switch n := len(whole); { // seconds until the year 5138, and so on
	case n < 9 || n > 19: // nine digits of seconds are 1973
		return 0, false
	case n > 17:
		unit = 0
	case n > 14:
		unit = 3
	case n > 11:
		unit = 6
	}
	n, ok := parseFixed(v, unit)
	if !ok || n > 1<<63-1-uint64(maxDuration) {
		return 0, false
	}
	return int64(n), true
}
