package accesslog

import "bytes"

// setRequest takes a request line: "GET /path?query HTTP/1.1", a line without protocol as HTTP/0.9 has it, "PRI * HTTP/2.0",
// "CONNECT host:port HTTP/1.1", a target in absolute form. A line that is none of these (a TLS hello sent to a plain port, "-",
// nothing) is what a client sent as well: the event stays without method, path and protocol, so that garbage gets into no
// column.
func (r *record) setRequest(v []byte) {
	r.have |= haveRequest
	if isDash(v) {
		return
	}
	if !r.plain {
		v, r.scratch = unescape(v, r.scratch)
	}
	for len(v) > 0 && v[0] == ' ' { // some clients begin with spaces, and some servers take it
		v = v[1:]
	}
	sp := bytes.IndexByte(v, ' ')
	if sp <= 0 || !isMethod(v[:sp]) {
		return
	}
	method, rest := v[:sp], v[sp+1:]
	for len(rest) > 0 && rest[len(rest)-1] == ' ' {
		rest = rest[:len(rest)-1]
	}
	var protocol []byte
	if i := bytes.LastIndexByte(rest, ' '); i >= 0 || isProtocol(rest) {
		if p := rest[i+1:]; isProtocol(p) {
			protocol, rest = p, rest[:max(i, 0)]
		}
	}
	for len(rest) > 0 && rest[len(rest)-1] == ' ' {
		rest = rest[:len(rest)-1]
	}
	for len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	if protocol == nil && !isTarget(rest) { // prose, or a request cut off: "hello world" is none
		return
	}
	r.e.ClientRequestMethod = method
	r.e.ClientRequestProtocol = canonicalProtocol(protocol)
	r.setTarget(rest, len(method) == 7 && string(method) == "CONNECT")
}

// setTarget takes the target of a request: "/path?query", "*", "http://host/path", or with CONNECT "host:port".
func (r *record) setTarget(v []byte, connect bool) {
	if connect {
		if len(v) > 0 && v[0] != '/' {
			r.setHost(v, hostURI)
			return
		}
	}
	if len(v) > 0 && v[0] != '/' {
		if i := bytes.Index(v, schemeEnd); i > 0 && i <= 10 && isMethod(v[:i]) {
			r.setURL(v, i)
			return
		}
	}
	r.setURI(v)
}

var schemeEnd = []byte("://")

// setURL takes an absolute URL whose scheme is i bytes long.
func (r *record) setURL(v []byte, i int) {
	scheme, rest := v[:i], v[i+3:]
	if len(r.e.ClientRequestScheme) == 0 {
		r.e.ClientRequestScheme, r.scratch = lower(scheme, r.scratch)
	}
	end := bytes.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority := rest[:end]
	if at := bytes.LastIndexByte(authority, '@'); at >= 0 {
		authority = authority[at+1:]
	}
	r.setHost(authority, hostURI)
	r.setURI(rest[end:])
}

// setURI takes path and query.
func (r *record) setURI(v []byte) {
	if i := bytes.IndexByte(v, '?'); i >= 0 {
		r.e.ClientRequestPath, r.e.ClientRequestQuery = v[:i], v[i+1:]
		return
	}
	r.e.ClientRequestPath = v
}

// isTarget tells whether v can be what follows the method when no protocol follows.
func isTarget(v []byte) bool {
	if len(v) == 0 {
		return false
	}
	return v[0] == '/' || len(v) == 1 && v[0] == '*' || bytes.Contains(v, schemeEnd)
}

// isMethod tells whether v is a token of RFC 9110 that may be a method: "GET", "SSTP_DUPLEX_POST", but not "-".
func isMethod(v []byte) bool {
	if len(v) == 0 || len(v) > 64 {
		return false
	}
	letters := false
	for _, c := range v {
		switch {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z':
			letters = true
		case c >= '0' && c <= '9':
		default:
			if bytes.IndexByte(methodMarks, c) < 0 {
				return false
			}
		}
	}
	return letters
}

var methodMarks = []byte("!#$%&'*+-.^_`|~")

// isProtocol tells whether v is "HTTP/1.1", "HTTP/2", "RTSP/1.0" and so on.
func isProtocol(v []byte) bool {
	i := bytes.IndexByte(v, '/')
	if i < 2 || i > 8 || len(v)-i < 2 || len(v)-i > 4 {
		return false
	}
	for _, c := range v[:i] {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	v = v[i+1:]
	if v[0] < '0' || v[0] > '9' {
		return false
	}
	return len(v) == 1 || len(v) == 3 && v[1] == '.' && v[2] >= '0' && v[2] <= '9'
}

// canonicalProtocol gives the one spelling that events use: HTTP/2 and h2 are HTTP/2.0, HTTP/3 and h3 are HTTP/3.0.
func canonicalProtocol(v []byte) []byte {
	switch string(v) {
	case "HTTP/1.1", "http/1.1", "1.1", "HTTP11":
		return textHTTP11
	case "HTTP/1.0", "http/1.0", "1.0", "HTTP10":
		return textHTTP10
	case "HTTP/2.0", "HTTP/2", "h2", "h2c", "HTTP2", "2.0", "2", "http/2":
		return textHTTP20
	case "HTTP/3.0", "HTTP/3", "h3", "HTTP3", "3.0", "3", "http/3", "HTTP/3.0 quic":
		return textHTTP30
	}
	return v
}

// setAddress takes an absolute URL, one without scheme ("host/path"), or path and query.
func (r *record) setAddress(v []byte) string {
	if slash := bytes.IndexByte(v, '/'); v[0] != '/' && v[0] != '*' && !bytes.Contains(v, schemeEnd) {
		if slash < 0 {
			slash = len(v)
		}
		if !isHostName(v[:slash]) {
			return "neither a URL nor a path"
		}
		if reason := r.setHost(v[:slash], hostURI); reason != "" {
			return reason
		}
		r.setURI(v[slash:])
		return ""
	}
	r.setTarget(v, false)
	return ""
}
