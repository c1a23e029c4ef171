package enrich

import (
	"os"
	"path/filepath"

	"github.com/spate-io/spate/internal/config"
)

// Config says where the databases are and how much is kept in memory.
type Config struct {
	// CountryDB is an mmdb file with countries. Empty takes the table that is built in.
	CountryDB string `yaml:"country_db"`
	// ASNDB is an mmdb file with autonomous systems, or a table that `make geo` made. Empty takes the table asn.db from the places
	// where it is installed, if it is there; "none" takes none.
	ASNDB string `yaml:"asn_db"`
	// UserAgentCache is the memory for user agents that were seen, in bytes for each worker.
	UserAgentCache config.Size `yaml:"user_agent_cache"`
	// AddressCache is the memory for addresses that were seen, in bytes for each worker.
	AddressCache config.Size `yaml:"address_cache"`
}

// DefaultConfig returns the configuration that holds where nothing is said.
func DefaultConfig() Config {
	return Config{UserAgentCache: 16 << 20, AddressCache: 16 << 20}
}

// Validate adds what is wrong with c to p.
func (c *Config) Validate(p *config.Problems) {
	p.Check(c.UserAgentCache >= 64<<10, "user_agent_cache", c.UserAgentCache, "at least 64KiB")
	p.Check(c.AddressCache >= 64<<10, "address_cache", c.AddressCache, "at least 64KiB")
	exists := func(path, key string) {
		if path == "" || path == none {
			return
		}
		_, err := os.Stat(path)
		p.Check(err == nil, key, path, "a file that can be read")
	}
	exists(c.CountryDB, "country_db")
	exists(c.ASNDB, "asn_db")
}

// none is the name of no database.
const none = "none"

// findASN returns the path of an installed asn.db, or nothing: beside the binary, in .cache/geo of this folder or one
// above, in the system's folders.
func findASN() string {
	const name = "asn.db"
	var places []string
	if exe, err := os.Executable(); err == nil {
		dir := filepath.Dir(exe)
		places = append(places, filepath.Join(dir, "..", "share", "spate", name), filepath.Join(dir, name))
	}
	if dir, err := os.Getwd(); err == nil {
		for ; ; dir = filepath.Dir(dir) {
			places = append(places, filepath.Join(dir, ".cache", "geo", name))
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	places = append(places, "/usr/share/spate/"+name, "/usr/local/share/spate/"+name)
	for _, p := range places {
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
			return p
		}
	}
	return ""
}
