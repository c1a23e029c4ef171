// Package useragent says what a User-Agent header tells: browser, operating system, device, and whether the sender is a bot
// and of what class. Its answers come from small closed sets of names, whatever a client sends, so that they may be
// counted by.
//
// One automaton finds all words that any rule is about in a single pass; regular expressions of the crawler list run only
// where their fixed part was found. A Parser never changes after New and may be used by any number of goroutines.
package useragent

import (
	_ "embed"
	"fmt"
)

// Agent is what a User-Agent header tells.
type Agent struct {
	Browser string // family, or the name of a bot; empty when unknown
	OS      string // family; empty when unknown
	Device  string // desktop, mobile, tablet or other; bots are other
	Bot     string // class of the bot: one of the Bot constants, empty for none
}

// The classes of bots.
const (
	BotSearch  = "search_engine"
	BotAI      = "ai_crawler"
	BotSEO     = "seo"
	BotMonitor = "monitor"
	BotFeed    = "feed"
	BotTool    = "tool"
	BotScanner = "scanner"
	BotOther   = "other_bot"
)

// The classes of devices.
const (
	Desktop = "desktop"
	Mobile  = "mobile"
	Tablet  = "tablet"
	Other   = "other"
)

//go:embed crawlers.tsv
var crawlerList string

// Parser classifies user agents.
type Parser struct {
	words    automaton
	tokens   int // literals below this number are tokens, the others belong to crawlers
	crawlers []crawler
	owner    []int32 // crawler of each literal
	rules    rules
}

// New returns a Parser with the crawler list that is built in.
func New() (*Parser, error) {
	list, err := parseCrawlers(crawlerList)
	if err != nil {
		return nil, fmt.Errorf("crawler list: %w", err)
	}
	p := &Parser{crawlers: list}
	literals := p.rules.compile()
	if p.tokens = len(literals); p.tokens > len(tokenSet{})*64 {
		return nil, fmt.Errorf("%d tokens: more than a set holds", p.tokens)
	}
	p.owner = make([]int32, len(literals))
	for i, c := range list {
		for _, l := range c.literals {
			literals = append(literals, l)
			p.owner = append(p.owner, int32(i))
		}
	}
	p.words = newAutomaton(literals)
	return p, nil
}

// Parse classifies one user agent. It does not keep or change ua.
func (p *Parser) Parse(ua []byte) Agent {
	if len(ua) == 0 {
		return Agent{Device: Other}
	}
	var seen tokenSet
	best := -1
	state := int32(0)
	for _, c := range ua {
		state = p.words.step(state, c)
		for _, l := range p.words.found[state] {
			if int(l) < p.tokens {
				seen.add(int(l))
			} else if i := int(p.owner[l]); i != best && (best < 0 || p.crawlers[i].before(&p.crawlers[best])) && p.crawlers[i].matches(ua) {
				best = i
			}
		}
	}
	a := p.rules.agent(&seen)
	if best >= 0 {
		a.Browser, a.Bot, a.Device = p.crawlers[best].name, p.crawlers[best].class, Other
		return a
	}
	a.Bot = match(p.rules.programs, &seen)
	if a.Bot == "" && a.Browser == "" && a.OS == "" && a.Device == Other && string(ua) != "-" {
		a.Bot = BotOther // every browser names itself, its system or its device
	}
	if a.Bot != "" {
		a.Browser, a.Device = "", Other
	}
	return a
}
