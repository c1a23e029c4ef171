package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"regexp"

	"github.com/spate-io/spate/internal/config"
)

// Config is the `store.serve` section: the store behind ClickHouse's HTTP interface.
type Config struct {
	// Listen is host:port, port 0 for a free one; empty switches the server off.
	Listen string `yaml:"listen"`
	// Users are who may come in. Without any, the listener must be on loopback and everybody there is the user "default".
	Users []User `yaml:"users"`
	// MaxQueries is how many statements may run at a time, of all users.
	MaxQueries int `yaml:"max_queries"`
	// MaxQuerySize is the longest statement, data of an INSERT not counted.
	MaxQuerySize config.Size `yaml:"max_query_size"`
	// BufferSize is how much of an answer is held back so that an error in it still gets its status code.
	BufferSize config.Size `yaml:"buffer_size"`
	// MaxHeldResult bounds answers in formats that cannot be put together from pieces, such as JSON or Parquet, which are
	// held in memory.
	MaxHeldResult config.Size `yaml:"max_held_result"`
	// MaxSpill bounds the temporary file of one answer for which the client asked to wait (wait_end_of_query=1).
	MaxSpill config.Size `yaml:"max_spill"`
	// MaxSessions is how many sessions are kept, SessionTimeout how long one may be idle at most.
	MaxSessions    int             `yaml:"max_sessions"`
	SessionTimeout config.Duration `yaml:"session_timeout"`
	// ReadTimeout is for a request's headers, IdleTimeout for a connection between requests, DrainTimeout for statements
	// under way when stopping.
	ReadTimeout  config.Duration `yaml:"read_timeout"`
	IdleTimeout  config.Duration `yaml:"idle_timeout"`
	DrainTimeout config.Duration `yaml:"drain_timeout"`
}

// User is one account.
type User struct {
	Name string `yaml:"name"`
	// One of Password, PasswordSHA256 (64 hex) and TokenSHA256 (64 hex, of a bearer token), or none for no password.
	Password       config.Secret `yaml:"password"`
	PasswordSHA256 string        `yaml:"password_sha256"`
	TokenSHA256    string        `yaml:"token_sha256"`
	// Readonly is as ClickHouse's setting: 0 all, 1 only read, 2 only read and change settings.
	Readonly int `yaml:"readonly"`
	// Admin may run SYSTEM, BACKUP, RESTORE, ATTACH and DETACH, and end other users' queries.
	Admin bool `yaml:"admin"`
	// Outside may use what reaches past the store: file(), url(), s3(), remote() and so on, with the rights of this process.
	Outside bool `yaml:"outside"`
	// Limits of each statement; 0 means the engine's own.
	MaxExecutionTime config.Duration `yaml:"max_execution_time"`
	MaxMemory        config.Size     `yaml:"max_memory"`
	MaxThreads       int             `yaml:"max_threads"`
	MaxRowsToRead    uint64          `yaml:"max_rows_to_read"`
	MaxResultRows    uint64          `yaml:"max_result_rows"`
	// MaxQueries is how many statements of the user may run at a time; 0 means the server's own bound.
	MaxQueries int `yaml:"max_queries"`
}

// DefaultConfig is a server that is off.
func DefaultConfig() Config {
	return Config{
		MaxQueries:     64,
		MaxQuerySize:   256 * config.KiB,
		BufferSize:     256 * config.KiB,
		MaxHeldResult:  64 * config.MiB,
		MaxSpill:       1 << 30,
		MaxSessions:    1000,
		SessionTimeout: config.Duration(3600e9),
		ReadTimeout:    config.Duration(10e9),
		IdleTimeout:    config.Duration(30e9),
		DrainTimeout:   config.Duration(5e9),
	}
}

var hexSHA256 = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

// Validate adds what is wrong with the section to p.
func (c *Config) Validate(p *config.Problems) {
	if c.Listen != "" {
		_, _, err := net.SplitHostPort(c.Listen)
		p.Check(err == nil, "listen", c.Listen, "must be host:port or empty")
		p.Check(len(c.Users) > 0 || c.loopback(), "users", "", "must have at least one user when listen is not a loopback address")
	}
	p.Check(c.MaxQueries >= 1, "max_queries", c.MaxQueries, "must be at least 1")
	p.Check(c.MaxQuerySize >= 1024 && c.MaxQuerySize <= 64*config.MiB, "max_query_size", c.MaxQuerySize, "must be between 1KiB and 64MiB")
	p.Check(c.BufferSize >= 1024 && c.BufferSize <= 64*config.MiB, "buffer_size", c.BufferSize, "must be between 1KiB and 64MiB")
	p.Check(c.MaxHeldResult >= 1024, "max_held_result", c.MaxHeldResult, "must be at least 1KiB")
	p.Check(c.MaxSpill >= 0, "max_spill", c.MaxSpill, "must not be negative")
	p.Check(c.MaxSessions >= 0, "max_sessions", c.MaxSessions, "must not be negative")
	p.Check(c.SessionTimeout > 0, "session_timeout", c.SessionTimeout, "must be above 0")
	p.Check(c.ReadTimeout > 0, "read_timeout", c.ReadTimeout, "must be above 0")
	p.Check(c.IdleTimeout > 0, "idle_timeout", c.IdleTimeout, "must be above 0")
	p.Check(c.DrainTimeout >= 0, "drain_timeout", c.DrainTimeout, "must not be negative")
	seen := map[string]bool{}
	for i := range c.Users {
		u := &c.Users[i]
		p.Under(fmt.Sprintf("users[%d]", i), u.validate)
		p.Check(!seen[u.Name], fmt.Sprintf("users[%d].name", i), u.Name, "must not occur twice")
		seen[u.Name] = true
	}
}

func (u *User) validate(p *config.Problems) {
	p.Check(u.Name != "", "name", u.Name, "must not be empty")
	p.Check(u.Readonly >= 0 && u.Readonly <= 2, "readonly", u.Readonly, "must be 0, 1 or 2")
	p.Check(u.PasswordSHA256 == "" || hexSHA256.MatchString(u.PasswordSHA256), "password_sha256", "***", "must be 64 hexadecimal digits")
	p.Check(u.TokenSHA256 == "" || hexSHA256.MatchString(u.TokenSHA256), "token_sha256", "***", "must be 64 hexadecimal digits")
	p.Check(u.Password == "" || u.PasswordSHA256 == "", "password", u.Password, "must not be given together with password_sha256")
	p.Check(u.MaxExecutionTime >= 0, "max_execution_time", u.MaxExecutionTime, "must not be negative")
	p.Check(u.MaxMemory >= 0, "max_memory", u.MaxMemory, "must not be negative")
	p.Check(u.MaxThreads >= 0, "max_threads", u.MaxThreads, "must not be negative")
	p.Check(u.MaxQueries >= 0, "max_queries", u.MaxQueries, "must not be negative")
}

// loopback says whether only this machine can reach the listener.
func (c *Config) loopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	return err == nil && isLoopback(host)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// sums gives the hashes that a password and a token must have; nil means none.
func (u *User) sums() (password, token []byte) {
	switch {
	case u.Password != "":
		s := sha256.Sum256([]byte(u.Password.Reveal()))
		password = s[:]
	case u.PasswordSHA256 != "":
		password, _ = hex.DecodeString(u.PasswordSHA256) // Validate has refused what is not hex
	}
	if u.TokenSHA256 != "" {
		token, _ = hex.DecodeString(u.TokenSHA256)
	}
	return password, token
}
