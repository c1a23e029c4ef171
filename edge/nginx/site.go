package nginx

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed demo
var demo embed.FS

// demoTemplate is the configuration of the demo site.
const demoTemplate = "demo/nginx.conf.tmpl"

// AccessLog is the name of the demo's access log in its folder: one JSON object a line, for comparison with what Spate
// counts. Every recorded request is in it, and no other.
const AccessLog = "logs/access.log"

// render makes the demo's nginx.conf.
func render(c Config, b Build, owner string) (string, error) {
	snippet, err := Snippet(Options{
		LuaDir: filepath.Join(c.Dir, "spate", "lua"), Socket: c.Socket, Edge: c.Edge, Colo: c.Colo,
	})
	if err != nil {
		return "", err
	}
	text, err := demo.ReadFile(demoTemplate)
	if err != nil {
		return "", err
	}
	t, err := template.New("nginx.conf").Parse(string(text))
	if err != nil {
		return "", err
	}
	workers := "auto"
	if c.Workers > 0 {
		workers = fmt.Sprint(c.Workers)
	}
	var s strings.Builder
	err = t.Execute(&s, map[string]string{
		"LoadModules": b.LoadModules(), "User": owner, "Workers": workers, "Snippet": snippet, "Listen": c.Listen,
		"Log": filepath.Join(c.Dir, "spate", "conf", "spate_log.conf"),
	})
	return s.String(), err
}

// writeSite puts everything that the demo's nginx needs into its folder.
func writeSite(c Config, b Build) error {
	for _, dir := range []string{"logs", "tmp"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, dir), 0o755); err != nil {
			return err
		}
	}
	if err := WriteTo(filepath.Join(c.Dir, "spate")); err != nil {
		return err
	}
	site, err := fs.Sub(demo, "demo/site")
	if err != nil {
		return err
	}
	if err := copyTree(site, filepath.Join(c.Dir, "site")); err != nil {
		return err
	}
	owner, err := owner()
	if err != nil {
		return err
	}
	conf, err := render(c, b, owner)
	if err != nil {
		return err
	}
	return replace(filepath.Join(c.Dir, "nginx.conf"), []byte(conf))
}

// owner is who nginx workers are to run as when this process is root, else nothing: then they are who we are.
func owner() (string, error) {
	if os.Geteuid() != 0 {
		return "", nil
	}
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	g, err := user.LookupGroupId(u.Gid)
	if err != nil {
		return "", err
	}
	return u.Username + " " + g.Name, nil
}
