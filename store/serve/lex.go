package serve

import "strings"

// kind says what a token is.
type kind uint8

const (
	word   kind = iota + 1 // identifier or keyword, bare
	quoted                 // identifier in backticks or double quotes
	text                   // string literal
	number
	punct // one byte of anything else
)

// token is a piece of a statement; start and end are byte offsets. depth is the number of brackets around it.
type token struct {
	kind       kind
	start, end int
	depth      int
}

// lexer cuts a statement into tokens as ClickHouse does, without comments and space. It never fails: what is not closed
// ends with the text.
type lexer struct {
	sql   string
	pos   int
	depth int
}

// next gives the next token; false at the end.
func (l *lexer) next() (token, bool) {
	l.skip()
	if l.pos >= len(l.sql) {
		return token{}, false
	}
	t := token{start: l.pos, depth: l.depth}
	switch c := l.sql[l.pos]; {
	case isWordStart(c):
		t.kind = word
		for l.pos < len(l.sql) && (isWordByte(l.sql[l.pos]) || l.sql[l.pos] == '$') {
			l.pos++
		}
	case c >= '0' && c <= '9':
		t.kind = number
		for l.pos < len(l.sql) && (isWordByte(l.sql[l.pos]) || l.sql[l.pos] == '.') {
			l.pos++
		}
	case c == '\'':
		t.kind = text
		l.quote(c)
	case c == '`' || c == '"':
		t.kind = quoted
		l.quote(c)
	case c == '$' && l.heredoc():
		t.kind = text
	default:
		t.kind = punct
		l.pos++
		switch c {
		case '(', '[', '{':
			l.depth++
		case ')', ']', '}':
			l.depth = max(0, l.depth-1)
			t.depth = l.depth
		}
	}
	t.end = l.pos
	return t, true
}

// quote moves past a quoted text; a backslash or a doubled quote does not end it.
func (l *lexer) quote(q byte) {
	for l.pos++; l.pos < len(l.sql); l.pos++ {
		switch l.sql[l.pos] {
		case '\\':
			l.pos++
		case q:
			if l.pos+1 >= len(l.sql) || l.sql[l.pos+1] != q {
				l.pos++
				return
			}
			l.pos++
		}
	}
	l.pos = min(l.pos, len(l.sql))
}

// heredoc moves past $tag$ ... $tag$ and says whether there was one.
func (l *lexer) heredoc() bool {
	end := l.pos + 1
	for end < len(l.sql) && isWordByte(l.sql[end]) {
		end++
	}
	if end >= len(l.sql) || l.sql[end] != '$' {
		return false
	}
	tag := l.sql[l.pos : end+1]
	stop := strings.Index(l.sql[end+1:], tag)
	if stop < 0 {
		return false
	}
	l.pos = end + 1 + stop + len(tag)
	return true
}

// skip moves past space and comments.
func (l *lexer) skip() {
	for l.pos < len(l.sql) {
		rest := l.sql[l.pos:]
		switch {
		case isSpace(rest[0]):
			l.pos++
		case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "# "), strings.HasPrefix(rest, "#!"):
			if i := strings.IndexByte(rest, '\n'); i >= 0 {
				l.pos += i + 1
			} else {
				l.pos = len(l.sql)
			}
		case strings.HasPrefix(rest, "/*"):
			if i := strings.Index(rest[2:], "*/"); i >= 0 {
				l.pos += i + 4
			} else {
				l.pos = len(l.sql)
			}
		case strings.HasPrefix(rest, "\u00a0"), strings.HasPrefix(rest, "\ufeff"):
			l.pos += len("\u00a0")
			if strings.HasPrefix(rest, "\ufeff") {
				l.pos++
			}
		default:
			return
		}
	}
}

func isSpace(c byte) bool { return c == ' ' || (c >= '\t' && c <= '\r') }

func isWordStart(c byte) bool {
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
}

func isWordByte(c byte) bool { return isWordStart(c) || (c >= '0' && c <= '9') }

// bare gives an identifier without its quotes, or a string literal's text.
func bare(t token, sql string) string {
	s := sql[t.start:t.end]
	if t.kind != quoted && t.kind != text || len(s) < 2 || s[0] == '$' {
		return s
	}
	q := s[:1]
	s = s[1 : len(s)-1]
	if !strings.ContainsAny(s, "\\"+q) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if (s[i] == '\\' || s[i] == q[0]) && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
