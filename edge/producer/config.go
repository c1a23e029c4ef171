package producer

import (
	"fmt"
	"io/fs"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/config"
)

// longestPath is what fits into a unix socket address on Linux, less the suffix of the temporary name.
const longestPath = 107 - len(".new")

// Config says where workers connect.
type Config struct {
	// Socket is the path of the unix socket.
	Socket string `yaml:"socket"`
	// Mode is the permission of the socket, octal: "0660".
	Mode string `yaml:"mode"`
	// Group owns the socket, by name or number; the group that nginx workers run as. Empty: the group of this process.
	Group string `yaml:"group"`
	// MaxFrame is the largest frame taken from a worker.
	MaxFrame config.Size `yaml:"max_frame"`
	// MaxConnections is how many workers may be connected at once.
	MaxConnections int `yaml:"max_connections"`
	// Timeout is how long a worker may take for its hello, for the rest of a frame that it has begun, and to take an answer.
	Timeout config.Duration `yaml:"timeout"`
}

// DefaultConfig is for one machine with an nginx of a distribution.
func DefaultConfig() Config {
	return Config{
		Socket:         "/run/spate/nginx.sock",
		Mode:           "0660",
		MaxFrame:       1 << 20,
		MaxConnections: 1024,
		Timeout:        config.Duration(10 * time.Second),
	}
}

// Validate reports every value that cannot work.
func (c *Config) Validate(p *config.Problems) {
	p.Check(c.Socket != "" && len(c.Socket) <= longestPath, "socket", c.Socket,
		fmt.Sprintf("must be a path of 1 to %d bytes", longestPath))
	_, err := c.mode()
	p.Check(err == nil, "mode", c.Mode, "must be an octal permission like \"0660\"")
	_, err = c.gid()
	p.Check(err == nil, "group", c.Group, "must be a group of this machine")
	p.Check(c.MaxFrame >= event.MaxMessage+frameSize && c.MaxFrame <= 64<<20, "max_frame", c.MaxFrame,
		"must be between 257KiB and 64MiB")
	p.Check(c.MaxConnections > 0, "max_connections", c.MaxConnections, "must be positive")
	p.Check(c.Timeout > 0, "timeout", c.Timeout, "must be positive")
}

func (c *Config) check() error {
	var p config.Problems
	c.Validate(&p)
	return p.Err()
}

func (c *Config) mode() (fs.FileMode, error) {
	m, err := strconv.ParseUint(c.Mode, 8, 32)
	if err != nil || m > 0o777 {
		return 0, fmt.Errorf("mode %q is not an octal permission", c.Mode)
	}
	return fs.FileMode(m), nil
}

// gid is -1 when the group is to stay as it is.
func (c *Config) gid() (int, error) {
	if c.Group == "" {
		return -1, nil
	}
	if n, err := strconv.Atoi(c.Group); err == nil && n >= 0 {
		return n, nil
	}
	g, err := user.LookupGroup(c.Group)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(g.Gid)
}

// temporary is the name under which the socket is made before it takes its place.
func (c *Config) temporary() string { return filepath.Clean(c.Socket) + ".new" }
