package accesslog

import "time"

// clock turns the times of one log into ns since the Unix epoch. Lines come in runs of the same second, day and zone, so
// it remembers the last of each.
type clock struct {
	zone *time.Location

	lastText [32]byte // the last common-log time as text
	lastLen  int
	lastTime int64

	dayText [11]byte // "26/Jan/2019"
	day     int64    // days since the epoch
	dayOK   bool

	local     int64 // the hour (seconds of local time) for which localZone was looked up
	localZone int64 // its offset in seconds
	localOK   bool
}

// common reads "26/Jan/2019:19:45:25 +0330"; the zone may be missing or a fraction may follow the seconds (HAProxy).
func (c *clock) common(v []byte) (int64, bool) {
	if len(v) == c.lastLen && string(v) == string(c.lastText[:c.lastLen]) {
		return c.lastTime, true
	}
	if len(v) < 20 || len(v) > 36 || v[2] != '/' || v[6] != '/' || v[11] != ':' {
		return 0, false
	}
	if !c.dayOK || string(v[:11]) != string(c.dayText[:]) {
		y, ok1 := digits(v[7:11])
		m := month(v[3:6])
		d, ok2 := digits(v[:2])
		if !ok1 || !ok2 || m == 0 || !validDay(y, m, d) {
			return 0, false
		}
		c.day, c.dayOK = daysSinceEpoch(y, m, d), true
		copy(c.dayText[:], v)
	}
	tod, rest, ok := timeOfDay(v[12:])
	if !ok {
		return 0, false
	}
	t, ok := c.join(c.day, tod, rest)
	if ok && len(v) <= len(c.lastText) {
		c.lastLen = copy(c.lastText[:], v)
		c.lastTime = t
	}
	return t, ok
}

// iso reads RFC 3339 and its relatives: "2018-07-02T22:23:00.186641Z", "2013-10-10 16:52:00+02:00", or without zone.
func (c *clock) iso(v []byte) (int64, bool) {
	if len(v) < 19 || len(v) > 40 || v[10] != 'T' && v[10] != ' ' && v[10] != 't' {
		return 0, false
	}
	day, ok := isoDay(v[:10])
	if !ok {
		return 0, false
	}
	tod, rest, ok := timeOfDay(v[11:])
	if !ok {
		return 0, false
	}
	return c.join(day, tod, rest)
}

// join adds day, time of day in ns and what follows (nothing, or a zone) to a time.
func (c *clock) join(day, tod int64, rest []byte) (int64, bool) {
	if day < minDay || day > maxDay {
		return 0, false
	}
	t := day*int64(24*time.Hour) + tod
	if len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return t - c.localOffset(t)*int64(time.Second), true
	}
	off, ok := zoneOffset(rest)
	if !ok {
		return 0, false
	}
	return t - off*int64(time.Second), true
}

// Days that a time in ns can hold with room for any zone: 1678 to 2262.
const minDay, maxDay = -106700, 106700

// localOffset gives the seconds that the configured zone is ahead of UTC at a local time. Where the clock was set back,
// the hour that is there twice is taken as the first one.
func (c *clock) localOffset(local int64) int64 {
	if c.zone == nil || c.zone == time.UTC {
		return 0
	}
	quarter := local / int64(15*time.Minute)
	if !c.localOK || c.local != quarter {
		at := time.Unix(0, local).UTC()
		_, off := time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, c.zone).Zone()
		c.local, c.localZone, c.localOK = quarter, int64(off), true
	}
	return c.localZone
}

// timeOfDay reads "19:45:25" with an optional fraction after '.' or ',' and gives ns and what follows. 24:00:00 is the end of
// the day, second 60 the leap second, which has no place in Unix time and becomes the first second of the next minute.
func timeOfDay(v []byte) (ns int64, rest []byte, ok bool) {
	if len(v) < 8 || v[2] != ':' || v[5] != ':' {
		return 0, nil, false
	}
	h, ok1 := digits(v[0:2])
	m, ok2 := digits(v[3:5])
	s, ok3 := digits(v[6:8])
	if !ok1 || !ok2 || !ok3 || h > 24 || m > 59 || s > 60 || h == 24 && (m > 0 || s > 0) {
		return 0, nil, false
	}
	ns = (int64(h)*3600 + int64(m)*60 + int64(s)) * int64(time.Second)
	rest = v[8:]
	if len(rest) > 1 && (rest[0] == '.' || rest[0] == ',') {
		unit, i := int64(100*time.Millisecond), 1
		for ; i < len(rest) && rest[i] >= '0' && rest[i] <= '9'; i++ {
			ns += int64(rest[i]-'0') * unit
			unit /= 10
		}
		if i == 1 {
			return 0, nil, false
		}
		rest = rest[i:]
	}
	return ns, rest, true
}

// zoneOffset reads "Z", "UTC", "GMT", "+0330", "+03:30" or "+03" as seconds ahead of UTC.
func zoneOffset(v []byte) (int64, bool) {
	switch string(v) {
	case "Z", "z", "UTC", "GMT":
		return 0, true
	}
	if len(v) == 6 && v[3] == ':' {
		v = append(append(make([]byte, 0, 5), v[:3]...), v[4:]...)
	}
	if len(v) != 5 && len(v) != 3 || v[0] != '+' && v[0] != '-' {
		return 0, false
	}
	h, ok := digits(v[1:3])
	m := 0
	if ok && len(v) == 5 {
		m, ok = digits(v[3:5])
	}
	if !ok || h > 15 || m > 59 {
		return 0, false
	}
	off := int64(h)*3600 + int64(m)*60
	if v[0] == '-' {
		off = -off
	}
	return off, true
}

// isoDay reads "2018-07-02" (or with slashes) as days since the epoch.
func isoDay(v []byte) (int64, bool) {
	if len(v) == 8 && v[2] == v[5] { // two-digit year, as old IIS writes it: "98-05-02"
		y, ok := digits(v[:2])
		if !ok {
			return 0, false
		}
		return civil(twoDigitYear(y), v[2:])
	}
	if len(v) != 10 || v[4] != v[7] {
		return 0, false
	}
	y, ok := digits(v[:4])
	if !ok {
		return 0, false
	}
	return civil(y, v[4:])
}

// civil reads "-07-02" after a year.
func civil(y int, v []byte) (int64, bool) {
	if v[0] != '-' && v[0] != '/' {
		return 0, false
	}
	m, ok1 := digits(v[1:3])
	d, ok2 := digits(v[4:6])
	if !ok1 || !ok2 || !validDay(y, m, d) {
		return 0, false
	}
	return daysSinceEpoch(y, m, d), true
}

// twoDigitYear places 70 to 99 in the last century, as POSIX does from 69 on.
func twoDigitYear(y int) int {
	if y >= 69 {
		return 1900 + y
	}
	return 2000 + y
}

func digits(v []byte) (int, bool) {
	n := 0
	for _, c := range v {
		c -= '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + int(c)
	}
	return n, true
}

// month gives 1 to 12 for English abbreviations, 0 for anything else.
func month(v []byte) int {
	switch string(v) {
	case "Jan":
		return 1
	case "Feb":
		return 2
	case "Mar":
		return 3
	case "Apr":
		return 4
	case "May":
		return 5
	case "Jun":
		return 6
	case "Jul":
		return 7
	case "Aug":
		return 8
	case "Sep":
		return 9
	case "Oct":
		return 10
	case "Nov":
		return 11
	case "Dec":
		return 12
	}
	return 0
}

func validDay(y, m, d int) bool {
	if m < 1 || m > 12 || d < 1 {
		return false
	}
	switch m {
	case 4, 6, 9, 11:
		return d <= 30
	case 2:
		if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
			return d <= 29
		}
		return d <= 28
	}
	return d <= 31
}

// daysSinceEpoch counts days from 1970-01-01 in the Gregorian calendar, with years starting in March so that the leap day is
// the last of its year.
func daysSinceEpoch(y, m, d int) int64 {
	if m <= 2 {
		y--
		m += 12
	}
	era := y / 400
	yoe := y - era*400
	doy := (153*(m-3)+2)/5 + d - 1
	return int64(era)*146097 + int64(yoe*365+yoe/4-yoe/100+doy) - 719468
}
