package accesslog

import (
	"fmt"
	"strings"
)

// Compile makes a format from a format string: nginx's log_format, Apache's LogFormat or Envoy's, the bare string or the
// whole directive as it stands in the configuration, also over several lines. A string that is a JSON object gives a
// parser for JSON lines with those keys. Values that Spate has no field for are skipped; what cannot be told apart
// (two values with nothing between them) is an error.
func Compile(format string) (Format, error) {
	src, err := unwrap(format)
	if err != nil {
		return Format{}, err
	}
	if strings.HasPrefix(strings.TrimSpace(src), "{") && strings.Contains(src, `"`) {
		return compileJSON(src)
	}
	toks, err := lex(src)
	if err != nil {
		return Format{}, err
	}
	p, err := link(toks)
	if err != nil {
		return Format{}, fmt.Errorf("format %q: %w", src, err)
	}
	return Format{Name: "custom", Doc: "compiled from a format string", Source: src, make: p.parser}, nil
}

// unwrap takes the format string out of a directive: log_format name 'a' 'b'; or LogFormat "a" name.
func unwrap(s string) (string, error) {
	s = strings.TrimSpace(s)
	word, rest, _ := strings.Cut(s, " ")
	switch strings.ToLower(word) {
	case "log_format":
		rest = strings.TrimSpace(rest)
		if i := strings.IndexAny(rest, " \t\n"); i >= 0 && rest[0] != '\'' && rest[0] != '"' {
			rest = rest[i:] // the name
		}
		return joinStrings(rest)
	case "logformat":
		return joinStrings(rest)
	}
	if len(s) > 1 && (s[0] == '\'' || s[0] == '"') && s[len(s)-1] == s[0] && strings.Contains(s[1:len(s)-1], " ") {
		if joined, err := joinStrings(s); err == nil && s[0] == '\'' {
			return joined, nil
		}
	}
	if strings.Contains(s, `\"`) {
		s = strings.ReplaceAll(s, `\"`, `"`)
	}
	return strings.ReplaceAll(s, `\t`, "\t"), nil
}

// joinStrings joins the quoted strings of a directive's arguments.
func joinStrings(s string) (string, error) {
	var out strings.Builder
	found := false
	for i := 0; i < len(s); i++ {
		q := s[i]
		if q != '\'' && q != '"' {
			continue
		}
		if found && strings.Contains(s[strings.LastIndexAny(s[:i], `'"`)+1:i], ";") {
			break
		}
		j := i + 1
		for ; j < len(s) && s[j] != q; j++ {
			if s[j] == '\\' && j+1 < len(s) {
				j++
				switch s[j] {
				case 't':
					out.WriteByte('\t')
				case 'n':
					out.WriteByte('\n')
				case '"', '\'', '\\':
					out.WriteByte(s[j])
				default:
					out.WriteByte('\\')
					out.WriteByte(s[j])
				}
				continue
			}
			out.WriteByte(s[j])
		}
		if j == len(s) {
			return "", fmt.Errorf("format %q: quote is not closed", s)
		}
		found = true
		i = j
	}
	if !found {
		return "", fmt.Errorf("format %q: no quoted format string in the directive", s)
	}
	return out.String(), nil
}

// token is a piece of a format string: a literal, or a value.
type token struct {
	lit    string
	field  field
	spaces int // spaces that the value is known to hold
	name   string
}

func (t token) value() bool { return t.name != "" }

// lex tells the three languages apart and cuts the string into tokens.
func lex(s string) ([]token, error) {
	switch {
	case envoyValue.MatchString(s):
		return lexEnvoy(s), nil
	case nginxValue.MatchString(s):
		return lexNginx(s), nil
	case strings.Contains(s, "%"):
		return lexApache(s)
	}
	return nil, fmt.Errorf("format %q: no $variable and no %%directive in it", s)
}

// link turns tokens into a program.
func link(toks []token) (*program, error) {
	toks = merge(toks)
	p := &program{}
	inQuotes := false
	for i := 0; i < len(toks); i++ {
		t := toks[i]
		if !t.value() {
			if i == 0 {
				p.prefix = t.lit
			}
			inQuotes = inQuotes != (strings.Count(t.lit, `"`)%2 == 1)
			continue
		}
		s := step{field: t.field, quoted: inQuotes}
		if i+1 < len(toks) {
			next := toks[i+1]
			if next.value() {
				s.path = (t.field == fHost || t.field == fVhost) && (next.field == fURI || next.field == fPath)
				if !s.path {
					return nil, fmt.Errorf("nothing stands between %s and %s", t.name, next.name)
				}
			} else {
				s.delim = next.lit
				s.quoted = s.quoted || i > 0 && strings.HasSuffix(toks[i-1].lit, `"`) && next.lit[0] == '"'
				if next.lit[0] == ' ' && len(next.lit) == 1 {
					s.skip = t.spaces
				}
				s.digit = inQuotes && i+2 < len(toks) && (toks[i+2].field == fStatus || toks[i+2].field == fBody || toks[i+2].field == fBytes)
			}
		}
		p.steps = append(p.steps, s)
	}
	return p, p.check()
}

// check refuses programs that could never give an event.
func (p *program) check() error {
	var time, request, date bool
	for _, s := range p.steps {
		switch s.field {
		case fTime, fTimeStart:
			time = true
		case fDate:
			date = true
		case fTimeOfDay:
			time = time || date
		case fRequest, fStatus, fMethod, fSquidResult:
			request = true
		}
	}
	if !time {
		return fmt.Errorf("no time in it")
	}
	if !request {
		return fmt.Errorf("neither status nor request in it")
	}
	return nil
}

// merge joins neighbouring literals, drops values that are part of their neighbour, and joins path and query.
func merge(toks []token) []token {
	var out []token
	for _, t := range toks {
		if n := len(out); n > 0 {
			last := &out[n-1]
			if !t.value() && !last.value() {
				last.lit += t.lit
				continue
			}
			if t.value() && last.value() {
				if last.field == fPath && (t.field == fQuery || t.name == "is_args") {
					last.field, last.name = fURI, last.name+t.name
					continue
				}
				if last.field == fURI && t.field == fQuery {
					continue
				}
			}
		}
		if !t.value() && t.lit == "" {
			continue
		}
		out = append(out, t)
	}
	return out
}
