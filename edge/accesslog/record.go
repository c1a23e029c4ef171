package accesslog

import (
	"bytes"

	"github.com/spate-io/spate/event"
)

// record gathers the values of one line into an event. A parser has one and uses it again for each line.
type record struct {
	e       *event.HTTP
	scratch []byte // unescaped texts of this line
	plain   bool   // the line has no backslash, so nothing is escaped
	clock   clock

	have       uint32
	start, end int64  // ns
	date       int64  // days
	tod        int64  // ns in that day
	todZone    []byte // zone that followed the time of day
	dur        uint64 // ns
	hostFrom   uint8
}

// What a line has given so far.
const (
	haveStart = 1 << iota
	haveEnd
	haveDate
	haveTimeOfDay
	haveDur
	haveRequest // request line, or method
	haveStatus
	haveBody
	haveBytes
	haveClient
	haveMethod
	haveProtocol
	haveCacheHit
	haveCacheSeen
)

// Where the host came from; a later, better source replaces an earlier one.
const (
	hostNone = iota
	hostServer
	hostURI
	hostLogged
)

// begin starts a line.
func (r *record) begin(e *event.HTTP) {
	e.Reset()
	r.e = e
	r.scratch = r.scratch[:0]
	r.have, r.start, r.end, r.date, r.tod, r.dur, r.hostFrom, r.todZone = 0, 0, 0, 0, 0, 0, hostNone, nil
}

// Reasons that finish gives.
const (
	noTime   = "line has no time"
	noStatus = "line has neither status nor request"
)

// finish computes what follows from several values. The reason is empty when the event is whole.
func (r *record) finish() (field, string) {
	e := r.e
	if r.have&(haveDate|haveTimeOfDay) == haveDate|haveTimeOfDay && r.have&(haveStart|haveEnd) == 0 {
		t, ok := r.clock.join(r.date, r.tod, r.todZone)
		if !ok {
			return fTimeOfDay, "not a time of day"
		}
		r.end, r.have = t, r.have|haveEnd
	}
	switch {
	case r.have&haveStart != 0 && r.have&haveEnd != 0:
		if r.end < r.start { // clocks of two sources; the start is what counts
			r.end = r.start
		}
		e.EdgeStartTimestamp, e.EdgeEndTimestamp = r.start, r.end
		if r.have&haveDur != 0 {
			e.EdgeEndTimestamp = r.start + int64(r.dur)
		}
	case r.have&haveStart != 0:
		e.EdgeStartTimestamp = r.start
		if r.have&haveDur != 0 {
			e.EdgeEndTimestamp = r.start + int64(r.dur)
		}
	case r.have&haveEnd != 0:
		e.EdgeStartTimestamp = r.end
		if r.have&haveDur != 0 {
			e.EdgeStartTimestamp, e.EdgeEndTimestamp = r.end-int64(r.dur), r.end
		}
	default:
		return fTime, noTime
	}
	if r.have&(haveStatus|haveRequest|haveMethod) == 0 {
		return fStatus, noStatus
	}
	if r.have&haveBody != 0 && r.have&haveBytes == 0 {
		e.EdgeResponseBytes = e.EdgeResponseBodyBytes
	}
	if r.have&haveCacheHit != 0 {
		e.CacheCacheStatus = textHit
	} else if r.have&haveCacheSeen != 0 {
		e.CacheCacheStatus = textMiss
	}
	if !e.ClientIP.IsValid() && r.have&haveClient == 0 && len(e.ClientXForwardedFor) > 0 {
		first, _, _ := bytes.Cut(e.ClientXForwardedFor, comma)
		e.ClientIP, _ = parseIP(bytes.TrimSpace(first))
	}
	return fIgnore, ""
}

// fail empties the event and makes the error.
func (r *record) fail(f field, offset int, reason string) error {
	r.e.Reset()
	return &Error{Field: f.String(), Offset: offset, Reason: reason}
}

var comma = []byte{','}

// Texts that events share. Nobody writes to them.
var (
	textHit, textMiss           = []byte("hit"), []byte("miss")
	textHTTP, textHTTPS         = []byte("http"), []byte("https")
	textHTTP10, textHTTP11      = []byte("HTTP/1.0"), []byte("HTTP/1.1")
	textHTTP20, textHTTP30      = []byte("HTTP/2.0"), []byte("HTTP/3.0")
	textTLS10, textTLS11        = []byte("TLSv1"), []byte("TLSv1.1")
	textTLS12, textTLS13        = []byte("TLSv1.2"), []byte("TLSv1.3")
	textSSL30                   = []byte("SSLv3")
	textRevalidated, textExpire = []byte("revalidated"), []byte("expired")
	textBypass                  = []byte("bypass")
)

// text takes an escaped value as it came from between quotes; "-" is nothing.
func (r *record) text(v []byte, escaped bool) []byte {
	if isDash(v) {
		return nil
	}
	if escaped && !r.plain {
		v, r.scratch = unescape(v, r.scratch)
	}
	return v
}

// setHost takes "host", "host:port", "[v6]:port" as the host asked for, from a source that may be better than the one before.
func (r *record) setHost(v []byte, from uint8) string {
	if isDash(v) || from < r.hostFrom {
		return ""
	}
	host := v
	if i := bytes.LastIndexByte(v, ':'); i >= 0 {
		if v[0] == '[' {
			j := bytes.IndexByte(v, ']')
			if j < 0 {
				return "bracket is not closed"
			}
			host = v[:j+1]
		} else if bytes.IndexByte(v, ':') == i {
			host = v[:i]
			if port, ok := parsePort(v[i+1:]); ok && r.e.EdgeServerPort == 0 && from == hostLogged {
				r.e.EdgeServerPort = port
			}
		}
	}
	r.e.ClientRequestHost, r.scratch = lower(host, r.scratch)
	r.hostFrom = from
	return ""
}
