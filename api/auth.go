package api

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/spate-io/spate/internal/zone"
)

// caller is who asks: a token, or anybody when there are no tokens.
type caller struct {
	name   string
	all    bool
	zones  map[string]bool // ids and lower-case names
	scopes []string        // empty: all
}

// may says whether the caller may see zone z.
func (c *caller) may(z *zone.Zone) bool { return c.all || c.zones[z.ID] || c.zones[z.Name] }

// has says whether the caller has a scope; every caller has the empty one.
func (c *caller) has(scope string) bool {
	return scope == "" || len(c.scopes) == 0 || slices.Contains(c.scopes, scope)
}

// id names a caller towards clients.
func (c *caller) id() string {
	sum := sha256.Sum256([]byte("token:" + c.name))
	return hex.EncodeToString(sum[:16])
}

// tokens finds callers by the hash of what they present, so that the time it takes tells nothing about the secret.
type tokens struct {
	byHash map[[sha256.Size]byte]*caller
	open   *caller // not nil when there are no tokens
}

func newTokens(list []Token) *tokens {
	t := &tokens{byHash: map[[sha256.Size]byte]*caller{}}
	if len(list) == 0 {
		t.open = &caller{name: "everybody", all: true}
		return t
	}
	for _, c := range list {
		hash := sha256.Sum256([]byte(c.Token.Reveal()))
		if c.TokenSHA256 != "" {
			_, _ = hex.Decode(hash[:], []byte(c.TokenSHA256)) // validated with the configuration
		}
		who := &caller{name: c.Name, scopes: c.Scopes, zones: map[string]bool{}}
		for _, z := range c.Zones {
			who.all = who.all || z == AllZones
			who.zones[strings.ToLower(z)] = true
		}
		t.byHash[hash] = who
	}
	return t
}

func (t *tokens) find(secret string) *caller { return t.byHash[sha256.Sum256([]byte(secret))] }

// identify says who asks, by Authorization: Bearer TOKEN, X-Auth-Email and X-Auth-Key: TOKEN, or, for browsers, the
// password of basic authentication.
func (t *tokens) identify(r *http.Request) (*caller, *fault) {
	if t.open != nil {
		if !loopbackHost(r.Host) {
			return nil, errHost() // a page of another site that let its name point here
		}
		return t.open, nil
	}
	if _, password, ok := r.BasicAuth(); ok {
		if who := t.find(password); who != nil {
			return who, nil
		}
		return nil, errToken()
	}
	if values := r.Header.Values("Authorization"); len(values) > 0 {
		scheme, secret, _ := strings.Cut(values[0], " ")
		if len(values) > 1 || !strings.EqualFold(scheme, "bearer") || !validToken(secret) {
			return nil, errHeaders(6111, "Authorization")
		}
		if who := t.find(secret); who != nil {
			return who, nil
		}
		return nil, errToken()
	}
	key, email := r.Header.Get("X-Auth-Key"), r.Header.Get("X-Auth-Email")
	switch {
	case key == "" && email == "":
		return nil, errNoCredentials()
	case !strings.Contains(email, "@"):
		return nil, errHeaders(6102, "X-Auth-Email")
	case !validToken(key):
		return nil, errHeaders(6103, "X-Auth-Key")
	}
	if who := t.find(key); who != nil {
		return who, nil
	}
	return nil, errKey()
}

// loopbackHost says whether the Host header names this machine itself.
func loopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
