package useragent

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// crawler is one line of the list.
type crawler struct {
	name     string
	class    string
	rank     int
	literals []string       // the pattern can match only where one of these is
	pattern  *regexp.Regexp // nil when finding the literal is the match
}

// classes are the classes of bots by tag of the list, those that win over others first. Tags that are not here
// are of BotOther.
var classes = []struct{ tag, class string }{
	{"ai-crawler", BotAI},
	{"search-engine", BotSearch},
	{"monitoring", BotMonitor},
	{"scanner", BotScanner},
	{"seo", BotSEO},
	{"feed-reader", BotFeed},
	{"http-library", BotTool},
	{"browser-automation", BotTool},
}

// parseCrawlers reads the list: a pattern, a tab and tags with commas between them on each line; # begins a comment.
func parseCrawlers(text string) ([]crawler, error) {
	var list []crawler
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		pattern, tags, _ := strings.Cut(line, "\t")
		if right, ok := corrections[pattern]; ok {
			pattern = right
		}
		if pattern == "" {
			continue
		}
		if tag, ok := retagged[pattern]; ok {
			tags = tag
		}
		c, err := newCrawler(pattern, strings.Split(tags, ","))
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", pattern, err)
		}
		list = append(list, c)
	}
	return list, nil
}

func newCrawler(pattern string, tags []string) (crawler, error) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return crawler{}, err
	}
	c := crawler{name: strings.Trim(first(re), " /();:+,.-"), class: BotOther, rank: len(classes)}
	if alias, ok := aliases[c.name]; ok {
		c.name = alias
	}
	for rank, k := range classes {
		for _, tag := range tags {
			if tag == k.tag && rank < c.rank {
				c.class, c.rank = k.class, rank
			}
		}
	}
	c.literals = required(re)
	for _, l := range c.literals {
		if len(l) < 2 {
			return crawler{}, fmt.Errorf("fixed part %q is too short to look for", l)
		}
	}
	if len(c.literals) == 0 {
		return crawler{}, fmt.Errorf("no fixed part to look for")
	}
	if re.Op != syntax.OpLiteral || re.Flags&syntax.FoldCase != 0 {
		c.pattern, err = regexp.Compile(pattern)
	}
	return c, err
}

// before reports whether c says more than d when both match: its class wins, or it is the longer.
func (c *crawler) before(d *crawler) bool {
	if c.rank != d.rank {
		return c.rank < d.rank
	}
	return len(c.name) > len(d.name)
}

func (c *crawler) matches(ua []byte) bool { return c.pattern == nil || c.pattern.Match(ua) }

// required returns literals of which every match of re has one, as long as it can find; none when there are no such.
func required(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return []string{string(re.Rune)}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			r := required(sub)
			if len(r) == 0 {
				return nil
			}
			all = append(all, r...)
		}
		return all
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if r := required(sub); shortest(r) > shortest(best) {
				best = r
			}
		}
		return best
	default: // others need not hold any literal
	}
	return nil
}

// shortest returns the length of the shortest of the literals, 0 when there are none.
func shortest(literals []string) int {
	n := 0
	for i, l := range literals {
		if i == 0 || len(l) < n {
			n = len(l)
		}
	}
	return n
}

// first returns a text that re matches, or nearly: the first of each choice, and nothing where something may be missing.
func first(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		if len(re.Rune) > 0 && re.Rune[0] > ' ' && re.Rune[0] <= '~' {
			return string(re.Rune[:1])
		}
	case syntax.OpCapture, syntax.OpPlus, syntax.OpAlternate:
		return first(re.Sub[0])
	case syntax.OpConcat:
		var b strings.Builder
		for _, sub := range re.Sub {
			b.WriteString(first(sub))
		}
		return b.String()
	case syntax.OpStar:
		return " "
	default: // anchors and what may be missing
	}
	return ""
}
