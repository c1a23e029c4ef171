// Package nginx is the part of Spate that lives inside nginx: Lua files that record every request in the log phase and
// send it to the forwarder, and the configuration that a person includes. It also has Demo, a small web site served by a
// real nginx for `spate up`.
//
// Files holds what an installation needs, WriteTo puts it into a folder, Snippet adapts the configuration. The Lua code
// knows the message layout of package event and the protocol of package producer; tests of this package hold all three
// together with the real nginx. The package imports neither producer nor forward: what is between them is a socket.
package nginx

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed lua conf
var files embed.FS

// Files are the Lua modules under lua/ and the configuration under conf/.
func Files() fs.FS { return files }

// WriteTo copies the Lua files and the configuration below dir, replacing older ones; dir is made when it is missing.
// The value for lua_package_path is then dir/lua/?.lua.
func WriteTo(dir string) error { return copyTree(files, dir) }

func copyTree(from fs.FS, dir string) error {
	return fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, path)
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		b, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		return replace(to, b)
	})
}

// replace writes a file so that a reader sees the old or the new one, never half of it.
func replace(path string, b []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, b, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// Options are what differs from one installation to the next. Empty values leave what conf/spate.conf says.
type Options struct {
	LuaDir string // folder of the Lua files
	Socket string // of the forwarder
	Edge   string // name of this machine in events
	Colo   string // where it stands
	Buffer string // bytes that each worker keeps, like "8m"
}

// The places in conf/spate.conf that Snippet fills in.
const (
	luaDirPlace = "/usr/share/spate/nginx/"
	socketPlace = `socket = "/run/spate/nginx.sock",`
	edgePlace   = `-- edge = "web1", `
	coloPlace   = `-- colo = "HEL", `
	bufferPlace = `-- buffer = "8m", `
)

// Snippet is conf/spate.conf with the options filled in, to be put into the http block.
func Snippet(o Options) (string, error) {
	b, err := files.ReadFile("conf/spate.conf")
	if err != nil {
		return "", err
	}
	s := string(b)
	for _, r := range []struct{ place, key, value string }{
		{luaDirPlace, "", o.LuaDir}, {socketPlace, "socket", o.Socket}, {edgePlace, "edge", o.Edge},
		{coloPlace, "colo", o.Colo}, {bufferPlace, "buffer", o.Buffer},
	} {
		if r.value == "" {
			continue
		}
		if strings.ContainsAny(r.value, "\"'\\\n\r;{}$") {
			return "", fmt.Errorf("%q cannot stand in an nginx configuration", r.value)
		}
		with := fmt.Sprintf("%s = %q,", r.key, r.value)
		if r.key == "" {
			with = filepath.Clean(r.value) + "/"
		}
		if !strings.Contains(s, r.place) {
			return "", fmt.Errorf("conf/spate.conf lacks %q", r.place)
		}
		s = strings.Replace(s, r.place, with, 1)
	}
	return s, nil
}
