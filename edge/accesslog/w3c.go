package accesslog

import (
	"bytes"
	"strings"

	"github.com/spate-io/spate/event"
)

// w3cParser reads W3C extended logs (IIS, CloudFront, NetScaler ...). #Fields says what the columns are, anywhere in the file.
type w3cParser struct {
	record
	fields     []field
	quirks     []quirk
	exact      bool // the number of columns is known from #Fields
	cloudFront bool
	need       string
	foreign    bool // #Fields lacks the column that this format needs
	cols       [][]byte
	starts     []int
	maxLine    int
}

// quirk says how a column's text is to be decoded.
type quirk uint8

const (
	asIs     quirk = iota
	pluses         // spaces are written as '+', unless the column was quoted
	percents       // %XX, perhaps twice
	escapes        // %XX only where % itself was written as %25
)

// w3cSpec makes parsers that know the columns before any #Fields line.
type w3cSpec struct {
	fields string
	need   string // column without which a log is another program's
}

func (s w3cSpec) parser(o Options) Parser {
	p := &w3cParser{need: s.need, maxLine: o.MaxLine, cols: make([][]byte, 0, maxColumns), starts: make([]int, 0, maxColumns)}
	p.clock.zone = o.Zone
	if s.fields != "" {
		p.setFields([]byte(s.fields))
		p.exact = false
	}
	return p
}

// Parse implements [Parser].
func (p *w3cParser) Parse(line []byte, e *event.HTTP) error {
	p.begin(e)
	line = trim(line)
	if len(line) > p.maxLine {
		return p.fail(fIgnore, 0, reasonTooLong)
	}
	if len(line) > 0 && line[0] == '#' {
		if rest, ok := bytes.CutPrefix(line, []byte("#Fields:")); ok {
			p.setFields(rest)
		}
		return ErrNoRequest
	}
	if p.foreign {
		return p.refuse(line, "line", 0, "not the columns of this format")
	}
	if len(p.fields) == 0 {
		return p.refuse(line, "line", 0, "no #Fields line came before it")
	}
	p.cols, p.starts = splitColumns(line, separatorOf(line), false, p.cols[:0], p.starts[:0])
	if len(p.cols) != len(p.fields) && (p.exact || len(p.cols) > len(p.fields) || len(p.cols) < 12) {
		return p.refuse(line, "line", len(line), "not as many columns as #Fields names")
	}
	for i, v := range p.cols {
		if p.fields[i] == fIgnore {
			continue
		}
		if reason := p.column(i, v, line); reason != "" {
			return p.refuse(line, p.fields[i].String(), p.starts[i], reason)
		}
	}
	if p.have&(haveDate|haveTimeOfDay) != haveDate|haveTimeOfDay && p.have&(haveStart|haveEnd) == 0 {
		return p.refuse(line, "line", 0, noTime)
	}
	if p.have&haveStatus == 0 {
		return p.refuse(line, "line", 0, "no status among the columns")
	}
	if f, reason := p.finish(); reason != "" {
		return p.fail(f, 0, reason)
	}
	return nil
}

// separatorOf gives the tab when the line has one.
func separatorOf(line []byte) byte {
	if bytes.IndexByte(line, '\t') >= 0 {
		return '\t'
	}
	return ' '
}

// column decodes and sets one column.
func (p *w3cParser) column(i int, v, line []byte) string {
	f := p.fields[i]
	switch p.quirks[i] {
	case pluses:
		if start := p.starts[i]; start == 0 || line[start-1] != '"' {
			v = p.spaces(v)
		}
	case percents:
		double := bytes.Contains(v, []byte("%25"))
		if v, p.scratch = percentDecode(v, p.scratch); double {
			v, p.scratch = percentDecode(v, p.scratch)
		}
	case escapes:
		if bytes.Contains(v, []byte("%25")) {
			v, p.scratch = percentDecode(v, p.scratch)
		}
	}
	if f == fDurMs && (p.cloudFront || bytes.IndexByte(v, '.') >= 0) {
		f = fDurSec
	}
	return p.set(f, v, false)
}

// spaces undoes '+' for a space. The second of two is a plus that was there.
func (p *w3cParser) spaces(v []byte) []byte {
	i := bytes.IndexByte(v, '+')
	if i < 0 {
		return v
	}
	from := len(p.scratch)
	p.scratch = append(p.scratch, v...)
	out := p.scratch[from:len(p.scratch):len(p.scratch)]
	for was := false; i < len(out); i++ {
		if plus := out[i] == '+'; plus && !was {
			out[i], was = ' ', true
		} else {
			was = false
		}
	}
	return out
}

// setFields takes the names of the columns.
func (p *w3cParser) setFields(names []byte) {
	p.fields, p.quirks, p.exact = p.fields[:0], p.quirks[:0], true
	p.foreign = !bytes.Contains(names, []byte(p.need))
	p.cloudFront = bytes.Contains(names, []byte("x-edge-location"))
	for _, name := range bytes.Fields(names) {
		if len(p.fields) == maxColumns {
			break
		}
		f, q := p.quirkOf(strings.ToLower(string(name)))
		p.fields, p.quirks = append(p.fields, f), append(p.quirks, q)
	}
}

func (p *w3cParser) quirkOf(name string) (field, quirk) {
	f := w3cFields[name]
	q := asIs
	switch f {
	case fUserAgent:
		if q = pluses; p.cloudFront {
			q = percents
		}
	case fReferer:
		if p.cloudFront {
			q = escapes
		}
	}
	return f, q
}

// w3cFields are the columns that have a place in the event, in lower case.
var w3cFields = map[string]field{
	"date": fDate, "time": fTimeOfDay, "date-local": fDate, "time-local": fTimeOfDay, "cs-start": fTimeStart,
	"c-ip": fClientStrict, "c-port": fClientPort, "cs-username": fUser, "s-ip": fServerAddr, "s-port": fServerPort,
	"cs-method": fMethod, "cs-uri-stem": fURI, "cs-uri-query": fQuery, "cs-uri": fURL, "sc-status": fStatus, "c-status": fStatus,
	"sc-bytes": fBytes, "cs-bytes": fReqBytes, "time-taken": fDurMs, "timetakenms": fDurMs, "x-duration": fDurSec,
	"cs-version": fProtocol, "cs-protocol-version": fProtocol, "cs-protocol": fScheme, "cs-host": fHost, "cs(host)": fHost,
	"x-host-header": fHost, "cs(user-agent)": fUserAgent, "cs(referer)": fReferer, "cs(referrer)": fReferer,
	"x-forwarded-for": fXFF, "cs(x-forwarded-for)": fXFF, "s-xff": fXFF, "x-edge-location": fColo, "x-edge-result-type": fCacheResult,
	"x-edge-request-id": fRequestID, "ssl-protocol": fTLSProtocol, "ssl-cipher": fTLSCipher, "sc-content-type": fContentType,
}

// The columns of files that lost their #Fields line.
const (
	cloudFrontColumns = "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) " +
		"cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken x-forwarded-for " +
		"ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status fle-encrypted-fields c-port " +
		"time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len sc-range-start sc-range-end"
	iisColumns = "date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status " +
		"sc-substatus sc-win32-status time-taken"
)
