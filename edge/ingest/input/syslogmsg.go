package input

import "bytes"

// messageText gives the text of a syslog message without what the sender put before it. A message that is not syslog is
// given as it is: it may be a bare line.
//
//	RFC 5424: <PRI>1 TIME HOST APP PROCID MSGID [DATA] TEXT
//	RFC 3164: <PRI>Mmm dd hh:mm:ss HOST TAG[PID]: TEXT, with or without HOST
func messageText(m []byte) []byte {
	m = bytes.TrimRight(m, "\r\n\x00")
	rest, ok := priority(m)
	if !ok {
		return m
	}
	if len(rest) > 2 && rest[0] == '1' && rest[1] == ' ' {
		if text, ok := text5424(rest[2:]); ok {
			return text
		}
	}
	if text, ok := text3164(rest); ok {
		return text
	}
	return rest
}

// priority cuts "<190>" off.
func priority(m []byte) ([]byte, bool) {
	if len(m) < 3 || m[0] != '<' {
		return m, false
	}
	i := bytes.IndexByte(m[:min(len(m), 5)], '>')
	if i < 2 {
		return m, false
	}
	for _, c := range m[1:i] {
		if c < '0' || c > '9' {
			return m, false
		}
	}
	return m[i+1:], true
}

// text5424 passes over time, host, application, process and message id, and the structured data.
func text5424(m []byte) ([]byte, bool) {
	for range 5 {
		i := bytes.IndexByte(m, ' ')
		if i < 0 {
			return nil, false
		}
		m = m[i+1:]
	}
	switch {
	case len(m) > 0 && m[0] == '-':
		m = m[1:]
	case len(m) > 0 && m[0] == '[':
		end := dataEnd(m)
		if end < 0 {
			return nil, false
		}
		m = m[end:]
	default:
		return nil, false
	}
	m = bytes.TrimPrefix(m, []byte(" "))
	return bytes.TrimPrefix(m, []byte("\xEF\xBB\xBF")), true
}

// dataEnd gives the length of "[id name="value"][...]"; quotes, brackets and backslashes in values have a backslash before them.
func dataEnd(m []byte) int {
	quoted := false
	for i := 0; i < len(m); i++ {
		switch c := m[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ']' && !quoted:
			if i+1 == len(m) || m[i+1] != '[' {
				return i + 1
			}
		}
	}
	return -1
}

// text3164 passes over time, host and tag. The tag ends with a colon and has at most one word; nginx with nohostname, and some
// daemons, leave the host out.
func text3164(m []byte) ([]byte, bool) {
	switch {
	case len(m) > 16 && m[3] == ' ' && m[6] == ' ' && m[9] == ':' && m[12] == ':' && m[15] == ' ':
		m = m[16:]
	case len(m) > 20 && m[4] == '-' && m[7] == '-' && m[10] == 'T': // ISO time, as rsyslog writes it
		i := bytes.IndexByte(m, ' ')
		if i < 0 {
			return nil, false
		}
		m = m[i+1:]
	default:
		return nil, false
	}
	first, rest, _ := bytes.Cut(m, []byte(" "))
	if isTag(first) {
		return rest, true
	}
	if second, rest, ok := bytes.Cut(rest, []byte(" ")); ok && isTag(second) {
		return rest, true
	}
	return m, true // neither host nor tag
}

// isTag tells whether a word is "nginx:" or "haproxy[123]:".
func isTag(word []byte) bool {
	n := len(word)
	return n > 1 && n <= 64 && word[n-1] == ':' && !bytes.ContainsAny(word[:n-1], "\"{:")
}
