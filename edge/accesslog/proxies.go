package accesslog

import (
	"bytes"

	"github.com/spate-io/spate/event"
)

// haproxyParser reads the HTTP log of HAProxy (option httplog, httpslog), with or without what syslog puts before it:
//
//	client:port [accept date] frontend backend/server TR/Tw/Tc/Tr/Ta status bytes cookie cookie flags
//	act/fe/be/srv/retries srv_queue/backend_queue {captures} {captures} "request"
type haproxyParser struct {
	record
	cols    [][]byte
	starts  []int
	maxLine int
}

func newHAProxy(o Options) Parser {
	p := &haproxyParser{maxLine: o.MaxLine, cols: make([][]byte, 0, maxColumns), starts: make([]int, 0, maxColumns)}
	p.clock.zone = o.Zone
	return p
}

// Parse implements [Parser].
func (p *haproxyParser) Parse(line []byte, e *event.HTTP) error {
	p.begin(e)
	line = trim(line)
	if len(line) > p.maxLine {
		return p.fail(fIgnore, 0, reasonTooLong)
	}
	open := acceptDate(line)
	if open < 0 {
		return p.refuse(line, "line", 0, "no [accept date]")
	}
	shut := open + bytes.IndexByte(line[open:], ']')
	client := line[:open-1]
	from := bytes.LastIndexByte(client, ' ') + 1
	if reason := p.haproxyClient(client[from:]); reason != "" {
		return p.refuse(line, "ClientIP", from, reason)
	}
	if reason := p.set(fTimeStart, line[open+1:shut], true); reason != "" {
		return p.refuse(line, "EdgeStartTimestamp", open+1, reason)
	}
	quote := bytes.IndexByte(line[shut:], '"')
	if quote < 0 {
		return p.refuse(line, "request", len(line), "no request: not an HTTP log line")
	}
	quote += shut
	p.cols, p.starts = splitColumns(line[shut+1:quote], ' ', false, p.cols[:0], p.starts[:0])
	if len(p.cols) < 10 {
		return p.refuse(line, "line", shut+1, "fewer columns than the format has")
	}
	if i, reason := p.haproxyColumns(); reason != "" {
		return p.refuse(line, haproxyNames[i], shut+1+p.starts[i], reason)
	}
	request := line[quote+1:]
	if end := bytes.LastIndexByte(request, '"'); end >= 0 { // a long request is cut, its quote with it
		request = request[:end]
	}
	p.setRequest(request)
	if f, reason := p.finish(); reason != "" {
		return p.fail(f, 0, reason)
	}
	return nil
}

var haproxyNames = [10]string{"EdgeServerName", "OriginAddress", "timers", "EdgeResponseStatus", "EdgeResponseBytes", "cookie", "cookie",
	"flags", "connections", "queues"}

// acceptDate finds the '[' of "[09/Dec/2013:12:59:46.633]", or -1.
func acceptDate(line []byte) int {
	for i := 1; i+22 < len(line); i++ {
		j := bytes.IndexByte(line[i:], '[')
		if j < 0 || i+j+22 >= len(line) {
			return -1
		}
		i += j
		if line[i-1] == ' ' && line[i+3] == '/' && line[i+7] == '/' && line[i+12] == ':' && bytes.IndexByte(line[i:min(i+40, len(line))], ']') > 20 {
			return i
		}
	}
	return -1
}

// haproxyClient takes "address:port", "unix:1".
func (p *haproxyParser) haproxyClient(v []byte) string {
	if bytes.HasPrefix(v, []byte("unix:")) {
		return ""
	}
	if bytes.IndexByte(v, ':') < 0 {
		return "no port"
	}
	return p.set(fClientAddrPort, v, true)
}

// haproxyColumns does what stands between date and request.
func (p *haproxyParser) haproxyColumns() (column int, reason string) {
	e, cols := p.e, p.cols
	front := cols[0]
	e.ClientRequestScheme = textHTTP
	if n := len(front); n > 1 && front[n-1] == '~' { // the frontend took TLS
		front, e.ClientRequestScheme = front[:n-1], textHTTPS
	}
	e.EdgeServerName = front
	slash := bytes.IndexByte(cols[1], '/')
	if slash < 0 {
		return 1, "no '/' between backend and server"
	}
	asked := len(cols[1]) > slash+1 && cols[1][slash+1] != '<' // <NOSRV>, <STATS>
	if asked {
		e.OriginAddress = cols[1]
	}
	if reason := p.haproxyTimers(cols[2]); reason != "" {
		return 2, reason
	}
	if reason := p.setStatus(cols[3]); reason != "" {
		return 3, reason
	}
	if reason := p.set(fBytes, bytes.TrimPrefix(cols[4], []byte("+")), true); reason != "" {
		return 4, reason
	}
	flags := cols[7]
	if len(flags) != 4 && len(flags) != 2 {
		return 7, "not the four flags of a session's end"
	}
	e.EdgeResponseCompleted = flags[0] == '-'
	counts := bytes.Count(cols[8], []byte("/"))
	if counts != 4 {
		return 8, "not five counts"
	}
	if asked {
		retries, ok := parseUint(bytes.TrimPrefix(cols[8][bytes.LastIndexByte(cols[8], '/')+1:], []byte("+")))
		if !ok {
			return 8, "not five counts"
		}
		e.OriginTries = uint16(min(retries+1, 65535))
		e.OriginResponseStatus = e.EdgeResponseStatus
	}
	return 0, ""
}

// haproxyTimers takes TR/Tw/Tc/Tr/Ta in ms. -1 is a stage that was not reached, '+' before Ta a log written before the end.
func (p *haproxyParser) haproxyTimers(v []byte) string {
	var part [5][]byte
	for i := range part {
		j := bytes.IndexByte(v, '/')
		if (j < 0) != (i == 4) {
			return "not five timers: not an HTTP log line"
		}
		if j < 0 {
			j = len(v)
		}
		part[i] = v[:j]
		if i < 4 {
			v = v[j+1:]
		}
	}
	if reason := p.set(fUpConnectMs, part[2], true); reason != "" {
		return reason
	}
	if reason := p.set(fUpHeaderMs, part[3], true); reason != "" {
		return reason
	}
	return p.set(fDurMs, bytes.TrimPrefix(part[4], []byte("+")), true)
}

// squidParser reads Squid's native access.log:
//
//	time elapsed client result/status bytes method URL user hierarchy/peer type
type squidParser struct {
	record
	cols    [][]byte
	starts  []int
	maxLine int
}

func newSquid(o Options) Parser {
	p := &squidParser{maxLine: o.MaxLine, cols: make([][]byte, 0, maxColumns), starts: make([]int, 0, maxColumns)}
	p.clock.zone = o.Zone
	return p
}

var squidFields = [10]field{fTime, fDurMs, fClient, fSquidResult, fBytes, fMethod, fURL, fUser, fUpAddr, fContentType}

// Parse implements [Parser].
func (p *squidParser) Parse(line []byte, e *event.HTTP) error {
	p.begin(e)
	line = trim(line)
	if len(line) > p.maxLine {
		return p.fail(fIgnore, 0, reasonTooLong)
	}
	p.cols, p.starts = splitColumns(line, ' ', false, p.cols[:0], p.starts[:0])
	if len(p.cols) < 10 {
		return p.refuse(line, "line", len(line), "fewer columns than the format has")
	}
	if bytes.IndexByte(p.cols[0], '.') != 10 {
		return p.refuse(line, "EdgeEndTimestamp", 0, "not seconds with milliseconds")
	}
	for i, f := range squidFields {
		v := p.cols[i]
		switch i {
		case 5:
			if string(v) == "NONE" { // no request was read
				v = nil
			}
		case 6:
			if string(e.ClientRequestMethod) == "CONNECT" {
				p.setTarget(v, true)
				continue
			}
			if bytes.HasPrefix(v, []byte("error:")) {
				continue
			}
		case 8:
			slash := bytes.IndexByte(v, '/')
			if slash < 0 {
				return p.refuse(line, f.String(), p.starts[i], "no '/' between hierarchy code and peer")
			}
			v = v[slash+1:]
		}
		if reason := p.set(f, v, false); reason != "" {
			return p.refuse(line, f.String(), p.starts[i], reason)
		}
	}
	if f, reason := p.finish(); reason != "" {
		return p.fail(f, 0, reason)
	}
	return nil
}
