package serve

import (
	"strings"

	"github.com/spate-io/spate/store"
)

// class is what a statement does, as far as the server must know.
type class uint8

const (
	classRead   class = iota + 1 // gives rows, changes nothing
	classInsert                  // INSERT whose data follows the statement
	classWrite                   // everything else
	classSet                     // SET: changes the session
	classUse                     // USE: changes the session
	classKill                    // KILL QUERY
	classEmpty                   // nothing but comments
)

// setting is one name = value of a SETTINGS clause or SET.
type setting struct{ name, value string }

// statement is what the server understood of a text; the engine parses it again.
type statement struct {
	class    class
	sql      string // what the engine gets: no FORMAT clause, no data
	format   string // of the FORMAT clause; "Values" for INSERT ... VALUES; empty when there is none
	data     int    // where the data of an INSERT begins in the text
	inline   bool   // the INSERT's rows are VALUES
	settings []setting
	database string // of USE
	tokens   []token
}

// maxTokens bounds the work on one statement; the engine's parser has a bound of its own for what passes here.
const maxTokens = 200_000

// parseStatement finds out what a text is. For an INSERT with data the text may be cut off anywhere after its FORMAT or
// VALUES; for everything else it is whole.
func parseStatement(sql string) (*statement, error) {
	s := &statement{}
	lex := lexer{sql: sql}
	first := ""
	for {
		t, ok := lex.next()
		if !ok {
			break
		}
		if len(s.tokens) == maxTokens {
			return nil, &store.Error{Code: codeTooLarge, Name: "QUERY_IS_TOO_LARGE", Message: "the statement has too many tokens"}
		}
		s.tokens = append(s.tokens, t)
		if first == "" && t.kind == word {
			first = upper(sql, t)
		}
		if first == "INSERT" && t.depth == 0 && t.kind == word {
			if s.insertData(sql, &lex) {
				return s, nil
			}
		}
	}
	if err := s.end(sql); err != nil {
		return nil, err
	}
	s.sql = sql
	s.class = classify(first, sql, s.tokens)
	s.settings = findSettings(sql, s.tokens)
	s.cutFormat(sql)
	if s.class == classUse && len(s.tokens) >= 2 {
		s.database = bare(s.tokens[len(s.tokens)-1], sql)
	}
	return s, nil
}

// parseAll gives the tokens of a whole text, data of an INSERT included.
func parseAll(sql string) (*statement, error) {
	s := &statement{sql: sql}
	lex := lexer{sql: sql}
	for t, ok := lex.next(); ok; t, ok = lex.next() {
		s.tokens = append(s.tokens, t)
	}
	return s, s.end(sql)
}

// insertData looks at the last token of an INSERT: when data follows it, the statement is complete.
func (s *statement) insertData(sql string, lex *lexer) bool {
	t := s.tokens[len(s.tokens)-1]
	switch upper(sql, t) {
	case "VALUES":
		s.format, s.inline, s.data = "Values", true, t.end
		s.sql = sql[:t.start]
	case "FORMAT":
		if len(s.tokens) < 3 {
			return false
		}
		name, ok := lex.next()
		if !ok || name.kind != word {
			return false
		}
		s.tokens = append(s.tokens, name)
		s.format, s.sql = sql[name.start:name.end], sql[:t.start]
		s.inline = strings.EqualFold(s.format, "Values")
		s.data = afterFormat(sql, name.end)
	default:
		return false
	}
	s.class = classInsert
	s.settings = findSettings(sql, s.tokens)
	return true
}

// afterFormat skips what may stand between FORMAT name and data: blanks, one semicolon, one line end.
func afterFormat(sql string, pos int) int {
	blanks := func() {
		for pos < len(sql) && (sql[pos] == ' ' || sql[pos] == '\t' || sql[pos] == '\f' || sql[pos] == '\r') {
			pos++
		}
	}
	blanks()
	if pos < len(sql) && sql[pos] == ';' {
		pos++
		blanks()
	}
	if pos < len(sql) && sql[pos] == '\n' {
		pos++
	}
	return pos
}

// end drops semicolons at the end and refuses a second statement.
func (s *statement) end(sql string) error {
	for i, t := range s.tokens {
		if t.kind != punct || sql[t.start] != ';' {
			continue
		}
		for _, u := range s.tokens[i:] {
			if u.kind != punct || sql[u.start] != ';' {
				return &store.Error{Code: store.CodeSyntax, Name: "SYNTAX_ERROR", Message: "Multi-statements are not allowed"}
			}
		}
		s.tokens = s.tokens[:i]
		return nil
	}
	return nil
}

// classify says what a statement does from its first word.
func classify(first, sql string, tokens []token) class {
	switch first {
	case "":
		return classEmpty
	case "SELECT", "WITH", "FROM", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN", "VALUES", "CHECK":
		return classRead
	case "SET":
		if len(tokens) > 1 && (upper(sql, tokens[1]) == "ROLE" || upper(sql, tokens[1]) == "DEFAULT" || upper(sql, tokens[1]) == "TRANSACTION") {
			return classWrite
		}
		return classSet
	case "USE":
		return classUse
	case "KILL":
		return classKill
	}
	return classWrite
}

// cutFormat takes the FORMAT clause off the end of a statement that gives rows, and the semicolon.
func (s *statement) cutFormat(sql string) {
	n := len(s.tokens)
	if n == 0 {
		return
	}
	s.sql = sql[:s.tokens[n-1].end]
	for i := n - 2; i > 0; i-- {
		t, name := s.tokens[i], s.tokens[i+1]
		if t.kind != word || t.depth != 0 || upper(sql, t) != "FORMAT" || name.kind != word {
			continue
		}
		if i+2 < n && upper(sql, s.tokens[i+2]) != "SETTINGS" {
			continue
		}
		if before := s.tokens[i-1]; before.kind == punct && sql[before.start] == '.' || upper(sql, before) == "AS" {
			continue
		}
		s.format = sql[name.start:name.end]
		rest := ""
		if i+2 < n {
			rest = sql[s.tokens[i+2].start:s.tokens[n-1].end]
		}
		s.sql = strings.TrimRight(sql[:t.start], " \t\r\n")
		if rest != "" {
			s.sql += "\n" + rest
		}
		return
	}
}

// findSettings gives every name = value after a SETTINGS or SET, at any depth.
func findSettings(sql string, tokens []token) []setting {
	var list []setting
	for i, t := range tokens {
		if t.kind != word || (upper(sql, t) != "SETTINGS" && (i != 0 || upper(sql, t) != "SET")) {
			continue
		}
		for j := i + 1; j+2 < len(tokens); {
			name, eq := tokens[j], tokens[j+1]
			if (name.kind != word && name.kind != quoted) || eq.kind != punct || sql[eq.start] != '=' {
				break
			}
			j += 2
			from := j
			for j < len(tokens) && !isEndOfValue(sql, tokens[j], name.depth) {
				j++
			}
			if j == from {
				break
			}
			value := sql[tokens[from].start:tokens[j-1].end]
			if j == from+1 {
				value = bare(tokens[from], sql)
			}
			list = append(list, setting{bare(name, sql), value})
			if j >= len(tokens) || sql[tokens[j].start] != ',' {
				break
			}
			j++
		}
	}
	return list
}

// isEndOfValue says that a token cannot belong to a setting's value.
func isEndOfValue(sql string, t token, depth int) bool {
	if t.depth > depth {
		return false
	}
	if t.kind == punct {
		c := sql[t.start]
		return c == ',' || c == ')' && t.depth < depth
	}
	if t.kind == word {
		switch upper(sql, t) {
		case "FORMAT", "VALUES", "SELECT", "AS", "COMMENT":
			return true
		}
	}
	return false
}

// upper gives a bare word in upper case; empty for other tokens.
func upper(sql string, t token) string {
	if t.kind != word {
		return ""
	}
	return strings.ToUpper(sql[t.start:t.end])
}
