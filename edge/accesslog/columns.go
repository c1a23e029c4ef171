package accesslog

import (
	"bytes"

	"github.com/spate-io/spate/event"
)

// columnSpec is a log of columns that stand in a fixed order and may be quoted or in brackets.
type columnSpec struct {
	fields []field
	square bool // columns may stand in [brackets]
	min    int  // columns that a line must have; more than len(fields) are allowed, writers add new ones at the end
	// accept looks at the raw columns where the format has rules of its own; a reason refuses the line.
	accept func(r *record, cols [][]byte) (column int, reason string)
}

// maxColumns bounds what is looked at.
const maxColumns = 80

// columnParser reads such a log.
type columnParser struct {
	record
	spec    *columnSpec
	cols    [][]byte
	starts  []int
	maxLine int
}

func (s *columnSpec) parser(o Options) Parser {
	p := &columnParser{spec: s, maxLine: o.MaxLine, cols: make([][]byte, 0, maxColumns), starts: make([]int, 0, maxColumns)}
	p.clock.zone = o.Zone
	return p
}

// Parse implements [Parser].
func (p *columnParser) Parse(line []byte, e *event.HTTP) error {
	p.begin(e)
	line = trim(line)
	if len(line) > p.maxLine {
		return p.fail(fIgnore, 0, reasonTooLong)
	}
	if len(line) > 0 && line[0] == '#' {
		return ErrNoRequest
	}
	p.cols, p.starts = splitColumns(line, ' ', p.spec.square, p.cols[:0], p.starts[:0])
	if len(p.cols) < p.spec.min {
		return p.refuse(line, "line", len(line), "fewer columns than the format has")
	}
	if p.spec.accept != nil {
		if i, reason := p.spec.accept(&p.record, p.cols); reason != "" {
			return p.refuse(line, p.spec.fields[i].String(), p.starts[i], reason)
		}
	}
	for i, f := range p.spec.fields {
		if i >= len(p.cols) {
			break
		}
		if f == fIgnore {
			continue
		}
		if reason := p.set(f, p.cols[i], true); reason != "" {
			return p.refuse(line, f.String(), p.starts[i], reason)
		}
	}
	if f, reason := p.finish(); reason != "" {
		return p.fail(f, 0, reason)
	}
	return nil
}

// splitColumns cuts a line at sep; runs of spaces are one separator. "quoted" and [bracketed] columns lose their marks where
// columns are separated by spaces. A quote counts only at the start of a column, and its end is the first one that is not escaped and is followed by sep.
func splitColumns(line []byte, sep byte, square bool, cols [][]byte, starts []int) ([][]byte, []int) {
	i := 0
	for len(cols) < maxColumns {
		if sep == ' ' {
			for i < len(line) && line[i] == ' ' {
				i++
			}
			if i >= len(line) {
				break
			}
		} else if i > len(line) {
			break
		}
		if i < len(line) && sep == ' ' && (line[i] == '"' || square && line[i] == '[') {
			if end := columnEnd(line, i, sep); end > 0 {
				cols, starts = append(cols, line[i+1:end]), append(starts, i+1)
				i = end + 2
				continue
			}
		}
		end := bytes.IndexByte(line[i:], sep)
		if end < 0 {
			cols, starts = append(cols, line[i:]), append(starts, i)
			break
		}
		cols, starts = append(cols, line[i:i+end]), append(starts, i)
		i += end + 1
	}
	return cols, starts
}

// columnEnd finds the mark that closes the column opened at i, or 0.
func columnEnd(line []byte, i int, sep byte) int {
	mark := byte('"')
	if line[i] == '[' {
		mark = ']'
	}
	for j := i + 1; j < len(line); j++ {
		k := bytes.IndexByte(line[j:], mark)
		if k < 0 {
			return 0
		}
		j += k
		if (j+1 == len(line) || line[j+1] == sep) && (line[j-1] != '\\' || j-1 == i || !escaped(line[i+1:], j-i-1)) {
			return j
		}
	}
	return 0
}

// albColumns: type time elb client:port target:port request_processing_time target_processing_time response_processing_time
// elb_status_code target_status_code received_bytes sent_bytes "request" "user_agent" ssl_cipher ssl_protocol target_group_arn
// "trace_id" "domain_name" "chosen_cert_arn" matched_rule_priority request_creation_time "actions_executed" ...
var albColumns = columnSpec{
	fields: []field{fScheme, fTime, fIgnore, fClientAddrPort, fUpAddr, fIgnore, fUpResponseSec, fIgnore, fStatus, fUpStatus, fReqBytes,
		fBytes, fRequest, fUserAgent, fTLSCipher, fTLSProtocol, fIgnore, fRequestID, fSNI, fIgnore, fIgnore, fTimeStart},
	min: 17,
	accept: func(_ *record, cols [][]byte) (int, string) {
		switch string(cols[0]) {
		case "http", "https", "h2", "grpcs", "ws", "wss":
		default:
			return 0, "not a type of an application load balancer"
		}
		if !isDash(cols[16]) && !bytes.HasPrefix(cols[16], []byte("arn:")) {
			return 13, "columns are shifted: a quote in this value is not escaped"
		}
		return 0, ""
	},
}

// elbColumns: time elb client:port backend:port request_processing_time backend_processing_time response_processing_time
// elb_status_code backend_status_code received_bytes sent_bytes "request" "user_agent" ssl_cipher ssl_protocol
var elbColumns = columnSpec{
	fields: []field{fTimeStart, fIgnore, fClientAddrPort, fUpAddr, fIgnore, fUpResponseSec, fIgnore, fStatus, fUpStatus, fReqBytes,
		fBody, fRequest, fUserAgent, fTLSCipher, fTLSProtocol},
	min: 12,
	accept: func(r *record, cols [][]byte) (int, string) {
		if bytes.HasPrefix(cols[11], []byte("- - -")) {
			return 11, "a TCP connection, not a request"
		}
		var total uint64
		for _, c := range cols[4:7] { // the three parts of the time that it took
			n, ok := parseFixed(c, 9)
			if !ok {
				if string(c) != "-1" {
					return 4, "not a duration"
				}
				return 0, ""
			}
			total += n
		}
		r.dur, r.have = min(total, uint64(maxDuration)), r.have|haveDur
		return 0, ""
	},
}

// s3Columns: owner bucket [time] remote_ip requester request_id operation key "request" status error bytes_sent object_size
// total_time turn_around_time "referer" "user_agent" version host_id signature cipher auth host tls arn acl
var s3Columns = columnSpec{
	fields: []field{fIgnore, fIgnore, fTimeStart, fClientStrict, fIgnore, fRequestID, fIgnore, fIgnore, fRequest, fStatus, fIgnore, fBody,
		fIgnore, fDurMs, fUpResponseMs, fReferer, fUserAgent, fIgnore, fIgnore, fIgnore, fTLSCipher, fIgnore, fHost, fTLSProtocol},
	square: true,
	min:    17,
	accept: func(r *record, cols [][]byte) (int, string) {
		if bytes.Count(cols[6], []byte(".")) < 1 { // REST.GET.OBJECT, S3.EXPIRE.OBJECT
			return 6, "not an operation of S3"
		}
		if len(cols) < 23 { // old lines have no host; the bucket is all there is
			return 0, r.setHost(cols[1], hostServer)
		}
		return 0, ""
	},
}
