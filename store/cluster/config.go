package cluster

import (
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/spate-io/spate/internal/config"
)

// Config is the `store.cluster` section.
type Config struct {
	// Name is the cluster's, as in the servers' remote_servers; empty means that the store is no cluster.
	Name string `yaml:"name"`
	// Copies is how many replicas each shard has.
	Copies int `yaml:"copies"`
	// Shards are the servers, shard 1 first, in the order of the servers' remote_servers. Empty means that the servers
	// are asked.
	Shards []Shard `yaml:"shards"`
	// KeeperPath is where the replicated tables have their place in Keeper.
	KeeperPath string `yaml:"keeper_path"`
	// Quorum is how many replicas must have an insert before it counts as stored: 0 means more than half of three and more
	// copies, and one of fewer.
	Quorum int `yaml:"quorum"`
}

// Shard is one shard.
type Shard struct {
	// Replicas are host:port of the HTTP interfaces.
	Replicas []string `yaml:"replicas"`
}

// DefaultConfig is no cluster.
func DefaultConfig() Config {
	return Config{Copies: 3, Shards: []Shard{}, KeeperPath: "/clickhouse/tables"}
}

var (
	clusterName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
	keeperPath  = regexp.MustCompile(`^(/[A-Za-z0-9_.-]+)+$`)
)

// maxShards bounds the shards of a cluster.
const maxShards = 1000

// Validate adds what is wrong with the section to p.
func (c *Config) Validate(p *config.Problems) {
	p.Check(c.Name == "" || clusterName.MatchString(c.Name), "name", c.Name, "must be letters, digits, _, . and -")
	p.Check(c.Name != "" || len(c.Shards) == 0, "name", c.Name, "must be given with shards: what the servers' remote_servers calls the cluster")
	p.Check(c.Copies >= 1 && c.Copies <= 100, "copies", c.Copies, "must be 1 to 100")
	p.Check(len(c.Shards) <= maxShards, "shards", len(c.Shards), fmt.Sprintf("must be at most %d", maxShards))
	p.Check(keeperPath.MatchString(c.KeeperPath), "keeper_path", c.KeeperPath, "must be like /clickhouse/tables")
	p.Check(c.Quorum >= 0 && c.Quorum <= c.Copies, "quorum", c.Quorum, "must be 0 to copies")
	seen := map[string]bool{}
	for i, s := range c.Shards {
		path := fmt.Sprintf("shards[%d].replicas", i)
		p.Check(len(s.Replicas) == c.Copies, path, len(s.Replicas), fmt.Sprintf("must be as many as copies, %d", c.Copies))
		for _, r := range s.Replicas {
			host, _, err := net.SplitHostPort(r)
			p.Check(err == nil && host != "" && !strings.ContainsAny(r, "/@"), path, r, "must be host:port of the HTTP interface")
			p.Check(!seen[r], path, r, "is there twice")
			seen[r] = true
		}
	}
}

// quorum gives how many replicas must have an insert; 1 means that the engine does not wait for others.
func (c *Config) quorum() int {
	switch {
	case c.Quorum > 0:
		return c.Quorum
	case c.Copies >= 3:
		return c.Copies/2 + 1
	}
	return 1
}
