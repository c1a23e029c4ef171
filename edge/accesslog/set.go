package accesslog

import (
	"bytes"
	"strconv"
)

// set puts the value v of field f into the event. raw values still have the escapes of text logs; the values of JSON
// logs have none left. The reason is empty when v was right for f.
func (r *record) set(f field, v []byte, raw bool) (reason string) {
	e := r.e
	switch f {
	case fIgnore:
	case fClient:
		return r.setClient(v)
	case fClientStrict:
		return r.setClientAddress(v)
	case fTime:
		return r.setTime(v, haveEnd, &r.end)
	case fTimeStart:
		return r.setTime(v, haveStart, &r.start)
	case fRequest:
		if !raw {
			r.setPlainRequest(v)
		} else {
			r.setRequest(v)
		}
	case fStatus:
		return r.setStatus(v)
	case fBody:
		if r.have&haveBody == 0 || e.EdgeResponseBodyBytes == 0 {
			return r.number(v, &e.EdgeResponseBodyBytes, haveBody)
		}
	case fBytes:
		return r.number(v, &e.EdgeResponseBytes, haveBytes)
	case fReferer:
		e.ClientRequestReferer = r.text(v, raw)
	case fUserAgent:
		e.ClientRequestUserAgent = r.text(v, raw)
	case fUser:
		return r.setUser(v, raw)
	case fXFF:
		e.ClientXForwardedFor = r.text(v, raw)
	case fClientNotName:
		if _, ok := parseIP(v); !ok && string(v) != "unix:" && string(v) != "localhost" {
			return "not an address"
		}
		return r.setClient(v)
	case fXFFChecked:
		if v = r.text(v, raw); !isAddressList(v) {
			return "not a list of addresses"
		}
		e.ClientXForwardedFor = v
	case fHost:
		return r.setHost(r.text(v, raw), hostLogged)
	case fVhost:
		return r.setVhost(v)
	case fServerName:
		e.EdgeServerName = r.text(v, raw)
		return r.setHost(e.EdgeServerName, hostServer)
	default:
		if f >= fDate && f <= fDurNs {
			return r.setMoment(f, v)
		}
		if f >= fUpAddr && f <= fSquidResult {
			return r.setOrigin(f, v, raw)
		}
		if f >= fTLSProtocol {
			return r.setTLS(f, v, raw)
		}
		return r.setRare(f, v, raw)
	}
	return ""
}

// setRare does the fields that most formats lack.
func (r *record) setRare(f field, v []byte, raw bool) string {
	e := r.e
	switch f {
	case fClientPort:
		return port(v, &e.ClientSrcPort)
	case fClientAddrPort:
		host, p, ok := splitPort(v)
		if !ok {
			return "not an address with a port"
		}
		e.ClientSrcPort = p
		return r.setClientAddress(host)
	case fMethod:
		r.have |= haveMethod
		if v = r.text(v, raw); v != nil && !isMethod(v) {
			return "not a method"
		}
		e.ClientRequestMethod = v
	case fURI:
		if v = r.text(v, raw); v != nil {
			r.setTarget(v, false)
		}
	case fURL:
		if v = r.text(v, raw); v != nil {
			return r.setAddress(v)
		}
	case fPath:
		if v = r.text(v, raw); v != nil && len(e.ClientRequestPath) == 0 {
			e.ClientRequestPath = v
		}
	case fQuery:
		if v = r.text(v, raw); len(v) > 0 && v[0] == '?' {
			v = v[1:]
		}
		if len(v) > 0 {
			e.ClientRequestQuery = v
		}
	case fProtocol:
		e.ClientRequestProtocol = canonicalProtocol(r.text(v, raw))
	case fScheme:
		return r.setScheme(r.text(v, raw))
	case fHTTPS:
		e.ClientRequestScheme = textHTTP
		if string(v) == "on" || string(v) == "true" || string(v) == "1" {
			e.ClientRequestScheme = textHTTPS
		}
	case fContentType:
		e.EdgeResponseContentType = r.text(v, raw)
	case fReqBytes:
		return r.number(v, &e.ClientRequestBytes, 0)
	case fReqBodyBytes:
		if e.ClientRequestBytes == 0 {
			return r.number(v, &e.ClientRequestBytes, 0)
		}
	case fGzipRatio:
		if n, ok := parseFixed(v, 4); ok {
			e.EdgeResponseCompressionRatio = float32(n) / 1e4
		} else if !isDash(v) {
			return "not a ratio"
		}
	case fCompleted:
		e.EdgeResponseCompleted = string(v) == "OK"
	case fConnStatus:
		e.EdgeResponseCompleted = len(v) == 1 && (v[0] == '+' || v[0] == '-')
	case fPipelined:
		e.ClientRequestPipelined = len(v) == 1 && v[0] == 'p'
	case fServerAddr:
		if ip, ok := parseIP(v); ok {
			e.EdgeServerIP = ip
		}
	case fServerPort:
		return port(v, &e.EdgeServerPort)
	case fConnID:
		return r.number(v, &e.ConnectionID, 0)
	case fConnRequests:
		return number32(v, 0, &e.ConnectionRequests)
	case fRTTUs:
		return number32(v, 0, &e.ClientTCPRTTUs)
	case fRTTMs:
		return number32(v, 3, &e.ClientTCPRTTUs)
	case fRequestID:
		e.RayID = r.text(v, raw)
	case fColo:
		e.EdgeColoCode = r.text(v, raw)
	case fLimitReq:
		e.EdgeLimitReqStatus = r.text(v, raw)
	case fThreat:
		e.Threat = r.text(v, raw)
	}
	return ""
}

// setClient takes an address, a name the server looked up, "unix:", or a list.
func (r *record) setClient(v []byte) string {
	if ip, ok := parseIP(v); ok {
		r.e.ClientIP, r.have = ip, r.have|haveClient
		return ""
	}
	if bytes.IndexByte(v, ',') >= 0 {
		return "list of addresses; give a format that says which field it is"
	}
	if isDash(v) || !isHostName(v) {
		return "neither an address nor a host name"
	}
	r.have |= haveClient
	return ""
}

// setClientAddress takes an address; "-" is unknown.
func (r *record) setClientAddress(v []byte) string {
	if isDash(v) {
		return ""
	}
	ip, ok := parseIP(v)
	if !ok {
		return "not an address"
	}
	r.e.ClientIP, r.have = ip, r.have|haveClient
	return ""
}

func (r *record) setStatus(v []byte) string {
	if isDash(v) || v[0] == '-' && string(v) == "-1" {
		r.have |= haveStatus
		return ""
	}
	if len(v) == 3 {
		a, b, c := v[0]-'0', v[1]-'0', v[2]-'0'
		if a <= 9 && b <= 9 && c <= 9 {
			n := uint16(a)*100 + uint16(b)*10 + uint16(c)
			if n >= 100 || n == 0 {
				r.e.EdgeResponseStatus, r.have = n, r.have|haveStatus
				return ""
			}
		}
	}
	if len(v) == 1 && v[0] == '0' {
		r.have |= haveStatus
		return ""
	}
	return "not a status of three digits"
}

// setUser refuses what shows that columns are shifted.
func (r *record) setUser(v []byte, raw bool) string {
	if n := len(v); n >= 2 && (v[0] == '-' && v[1] == ' ' || v[n-1] == '-' && v[n-2] == ' ') {
		return "more columns than the format has"
	}
	r.e.ClientRequestUser = r.text(v, raw)
	if len(v) == 2 && v[0] == '"' && v[1] == '"' { // Apache writes an empty user so
		r.e.ClientRequestUser = nil
	}
	return ""
}

// setVhost takes a host name that stands where other formats have something else, so it must look like one.
func (r *record) setVhost(v []byte) string {
	if _, ok := parseIP(v); ok || bytes.IndexByte(v, '.') < 0 && bytes.IndexByte(v, ':') < 0 || !isHostName(v) {
		return "not a virtual host"
	}
	if i := bytes.IndexByte(v, ':'); i >= 0 {
		if _, ok := parsePort(v[i+1:]); !ok {
			return "not a virtual host"
		}
	}
	return r.setHost(v, hostLogged)
}

func (r *record) setScheme(v []byte) string {
	switch string(v) {
	case "":
	case "http", "ws", "HTTP":
		r.e.ClientRequestScheme = textHTTP
	case "https", "wss", "h2", "grpcs", "HTTPS":
		r.e.ClientRequestScheme = textHTTPS
	default:
		if !isMethod(v) {
			return "not a scheme"
		}
		r.e.ClientRequestScheme, r.scratch = lower(v, r.scratch)
	}
	return ""
}

// setPlainRequest takes a request line without escapes (from JSON): a backslash there is what the client sent.
func (r *record) setPlainRequest(v []byte) {
	if bytes.IndexByte(v, '\\') < 0 {
		r.setRequest(v)
		return
	}
	from := len(r.scratch)
	for _, c := range v { // as setRequest will undo it
		if c == '\\' {
			r.scratch = append(r.scratch, c)
		}
		r.scratch = append(r.scratch, c)
	}
	r.setRequest(r.scratch[from:len(r.scratch):len(r.scratch)])
}

// number takes a count; "-" is 0.
func (r *record) number(v []byte, to *uint64, have uint32) string {
	if isDash(v) {
		r.have |= have
		return ""
	}
	n, ok := parseUint(v)
	if !ok {
		if f, err := strconv.ParseFloat(string(v), 64); err != nil || f < 0 || f > 1<<53 || bytes.IndexByte(v, '.') < 0 {
			return "not a number"
		} else {
			n = uint64(f) // JSON writers that have no integers
		}
	}
	*to, r.have = n, r.have|have
	return ""
}

// number32 takes a number in units of 10^-scale that is kept at most at 32 bits.
func number32(v []byte, scale int, to *uint32) string {
	if isDash(v) || v[0] == '-' {
		return ""
	}
	n, ok := parseFixed(v, scale)
	if !ok {
		return "not a number"
	}
	*to = clamp32(n)
	return ""
}

func port(v []byte, to *uint16) string {
	if isDash(v) {
		return ""
	}
	p, ok := parsePort(v)
	if !ok {
		return "not a port"
	}
	*to = p
	return ""
}

// isAddressList tells whether v looks like X-Forwarded-For: nothing, or addresses and words with commas between them, the
// first of them an address.
func isAddressList(v []byte) bool {
	first, _, _ := bytes.Cut(v, comma)
	if len(v) == 0 {
		return true
	}
	host, _, ok := splitPort(bytes.TrimSpace(first))
	if _, is := parseIP(first); is {
		return true
	}
	_, is := parseIP(host)
	return ok && is || string(first) == "unknown" || string(first) == "localhost" || string(first) == "unix:"
}
