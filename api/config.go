package api

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/spate-io/spate/analytics"
	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/internal/zone"
)

// Config is the section "api".
type Config struct {
	// Tokens are who may ask. Without any, everybody who reaches the listener may, which is allowed on loopback only.
	Tokens []Token `yaml:"tokens"`
	// MaxConcurrent bounds the questions answered at once, MaxPerToken those of one token; more of them wait a moment and
	// are then refused with 429.
	MaxConcurrent int `yaml:"max_concurrent"`
	MaxPerToken   int `yaml:"max_per_token"`
	// MaxStreams bounds the open live streams.
	MaxStreams int `yaml:"max_streams"`
	// QueryTimeout ends a question that takes longer.
	QueryTimeout config.Duration `yaml:"query_timeout"`
	// Heartbeat is how often a live stream with nothing to say shows that it is alive.
	Heartbeat config.Duration `yaml:"heartbeat"`
	// Analytics is about how questions are answered.
	Analytics analytics.Config `yaml:"analytics"`
}

// Token lets its bearer ask about zones.
type Token struct {
	Name        string        `yaml:"name"`
	Token       config.Secret `yaml:"token"`        // the token itself, at least 16 characters
	TokenSHA256 string        `yaml:"token_sha256"` // or the SHA-256 of the token in hexadecimal
	Zones       ZoneList      `yaml:"zones"`        // ids or names of zones, or all
	Scopes      []string      `yaml:"scopes"`       // of zones, analytics, system; all three when empty
}

// ZoneList is a list of ids or names of zones. In YAML the word all stands for [all].
type ZoneList []string

// AllZones in a ZoneList stands for every zone.
const AllZones = "all"

// UnmarshalYAML reads a list, or one word.
func (l *ZoneList) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*l = ZoneList{n.Value}
		return nil
	}
	var list []string
	if err := n.Decode(&list); err != nil {
		return fmt.Errorf("must be all or a list of zones: %w", err)
	}
	*l = list
	return nil
}

// The scopes that a token can have.
const (
	ScopeZones     = "zones"     // list zones
	ScopeAnalytics = "analytics" // ask about their traffic
	ScopeSystem    = "system"    // see the state of the system
)

// DefaultConfig has no tokens and moderate limits.
func DefaultConfig() Config {
	return Config{
		MaxConcurrent: 64, MaxPerToken: 32, MaxStreams: 1000,
		QueryTimeout: config.Duration(15 * time.Second), Heartbeat: config.Duration(15 * time.Second),
		Analytics: analytics.DefaultConfig(),
	}
}

var (
	tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._@-]{0,63}$`)
	sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Validate adds what is wrong to p.
func (c *Config) Validate(p *config.Problems) {
	p.Check(c.MaxConcurrent >= 1 && c.MaxConcurrent <= 10_000, "max_concurrent", c.MaxConcurrent, "must be 1 to 10000")
	p.Check(c.MaxPerToken >= 1 && c.MaxPerToken <= 10_000, "max_per_token", c.MaxPerToken, "must be 1 to 10000")
	p.Check(c.MaxStreams >= 0 && c.MaxStreams <= 100_000, "max_streams", c.MaxStreams, "must be 0 to 100000")
	p.Check(c.QueryTimeout.D() >= 100*time.Millisecond && c.QueryTimeout.D() <= time.Hour, "query_timeout", c.QueryTimeout, "must be 100ms to 1h")
	p.Check(c.Heartbeat.D() >= time.Second, "heartbeat", c.Heartbeat, "must be at least 1s")
	p.Under("analytics", c.Analytics.Validate)
	names := map[string]bool{}
	for i := range c.Tokens {
		t := &c.Tokens[i]
		p.Under(fmt.Sprintf("tokens[%d]", i), t.validate)
		p.Check(!names[t.Name], fmt.Sprintf("tokens[%d].name", i), t.Name, "must differ from those of the other tokens")
		names[t.Name] = true
	}
}

// CheckExposure adds a problem when everybody could ask and the listener is reachable from other machines. Whoever
// knows the listener's address calls it, with paths as Validate's.
func (c *Config) CheckExposure(p *config.Problems, loopback bool) {
	if len(c.Tokens) == 0 && !loopback {
		p.Add("tokens", nil, "must name at least one token when http.listen is not a loopback address")
	}
}

func (t *Token) validate(p *config.Problems) {
	p.Check(tokenName.MatchString(t.Name), "name", t.Name, "must be 1 to 64 letters, digits, spaces and ._@-")
	secret := t.Token.Reveal()
	p.Check((secret == "") != (t.TokenSHA256 == ""), "token", nil, "or token_sha256 must be there, not both")
	p.Check(secret == "" || validToken(secret) && len(secret) >= 16, "token", nil, "must have at least 16 of A-Z a-z 0-9 - . _ ~ + / =")
	p.Check(t.TokenSHA256 == "" || sha256Hex.MatchString(t.TokenSHA256), "token_sha256", t.TokenSHA256, "must be 64 lower-case hexadecimal digits")
	p.Check(len(t.Zones) > 0, "zones", nil, "must be all, or a list of ids or names")
	for i, z := range t.Zones {
		ok := z == AllZones && len(t.Zones) == 1 || zone.ValidID(z) || zone.ValidHost(strings.ToLower(z)) && z != AllZones
		p.Check(ok, fmt.Sprintf("zones[%d]", i), z, "must be the id or name of a zone, or all alone")
	}
	for i, s := range t.Scopes {
		ok := slices.Contains([]string{ScopeZones, ScopeAnalytics, ScopeSystem}, s)
		p.Check(ok, fmt.Sprintf("scopes[%d]", i), s, "must be zones, analytics or system")
	}
}

// validToken says whether s can stand in an Authorization header as a bearer token.
func validToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~+/=", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}
