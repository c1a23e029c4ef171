package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spate-io/spate/store"
)

// account is a user with what the server keeps about it.
type account struct {
	User
	password, token []byte        // SHA-256; nil means none
	slots           chan struct{} // bounds the user's statements; nil means no bound
}

// accounts are all users by name.
type accounts struct {
	byName map[string]*account
	open   bool // no users are configured: everybody on this machine is "default"
}

func newAccounts(cfg *Config) *accounts {
	a := &accounts{byName: map[string]*account{}}
	users := cfg.Users
	if len(users) == 0 {
		a.open = true
		users = []User{{Name: "default"}}
	}
	for _, u := range users {
		acc := &account{User: u}
		acc.password, acc.token = u.sums()
		if u.MaxQueries > 0 {
			acc.slots = make(chan struct{}, u.MaxQueries)
		}
		a.byName[u.Name] = acc
	}
	return a
}

// authenticate finds who a request is from: X-ClickHouse-User and -Key, a bearer token, Basic, or user and password in the
// URL, in that order. Giving them in two ways is an error, as in ClickHouse.
func (a *accounts) authenticate(r *http.Request, q url.Values) (*account, error) {
	if a.open {
		if err := sameMachine(r); err != nil {
			return nil, err
		}
	}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return a.byToken(bearer)
	}
	name, password := r.Header.Get("X-ClickHouse-User"), r.Header.Get("X-ClickHouse-Key")
	ways := 0
	if name != "" || password != "" {
		ways++
	}
	if n, p, ok := r.BasicAuth(); ok {
		ways++
		name, password = n, p
	}
	if q.Has("user") || q.Has("password") {
		ways++
		name, password = q.Get("user"), q.Get("password")
	}
	if ways > 1 {
		return nil, &store.Error{Code: codeAuth, Name: "AUTHENTICATION_FAILED", Message: "Invalid authentication: it is not allowed to use several methods at once"}
	}
	if name == "" {
		name = "default"
	}
	return a.byPassword(name, password, ways > 0)
}

func (a *accounts) byPassword(name, password string, given bool) (*account, error) {
	acc := a.byName[name]
	sum := sha256.Sum256([]byte(password))
	want := make([]byte, sha256.Size) // compared with even when there is no such user
	if acc != nil && acc.password != nil {
		want = acc.password
	}
	same := subtle.ConstantTimeCompare(sum[:], want) == 1
	switch {
	case acc != nil && acc.password == nil && acc.token == nil && password == "":
		return acc, nil
	case acc != nil && acc.password != nil && same:
		return acc, nil
	case !given:
		return nil, &store.Error{Code: codeNoCredentials, Name: "REQUIRED_PASSWORD", Message: "user and password are required"}
	}
	return nil, &store.Error{Code: codeAuth, Name: "AUTHENTICATION_FAILED",
		Message: name + ": Authentication failed: password is incorrect, or there is no user with such name"}
}

func (a *accounts) byToken(bearer string) (*account, error) {
	sum := sha256.Sum256([]byte(bearer))
	var found *account
	for _, acc := range a.byName {
		if acc.token != nil && subtle.ConstantTimeCompare(sum[:], acc.token) == 1 {
			found = acc
		}
	}
	if found == nil {
		return nil, &store.Error{Code: codeAuth, Name: "AUTHENTICATION_FAILED", Message: "Authentication failed: token is incorrect"}
	}
	return found, nil
}

// sameMachine refuses what a web page in a browser of this machine can send to a listener without passwords.
func sameMachine(r *http.Request) error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	foreign := false
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		foreign = err != nil || u.Host != r.Host
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		foreign = true
	}
	if !isLoopback(host) || foreign {
		return &store.Error{Code: codeAuth, Name: "AUTHENTICATION_FAILED", Message: "without users, requests must come from this machine and not from another site"}
	}
	return nil
}
