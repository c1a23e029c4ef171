package nginx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// ErrNotInstalled says that nginx or its Lua module is missing on this machine.
var ErrNotInstalled = errors.New("nginx with its Lua module is not installed; on Debian and Ubuntu: " +
	"apt-get install nginx libnginx-mod-http-lua")

// Build is what an nginx binary says of itself.
type Build struct {
	Path    string   // of the binary
	Version string   // like "nginx/1.22.1" or "openresty/1.25.3.1"
	Modules []string // files for load_module, in order; none when Lua is built in
}

// modulesPath finds where an nginx looks for its modules.
var modulesPath = regexp.MustCompile(`--modules-path=(\S+)`)

// Probe asks the nginx binary (a path, or a name to be looked up) what it is and finds its Lua module. Errors match
// ErrNotInstalled when something has to be installed.
func Probe(ctx context.Context, binary string) (Build, error) {
	path, err := lookup(binary)
	if err != nil {
		return Build{}, fmt.Errorf("find %s: %w (%w)", binary, ErrNotInstalled, err)
	}
	out, err := exec.CommandContext(ctx, path, "-V").CombinedOutput()
	if err != nil {
		return Build{}, fmt.Errorf("ask %s for its build: %w", path, err)
	}
	b := Build{Path: path}
	if _, v, ok := strings.Cut(string(out), "version: "); ok {
		b.Version, _, _ = strings.Cut(v, "\n")
	}
	if strings.Contains(string(out), "lua-nginx-module") || strings.Contains(string(out), "/ngx_lua-") {
		return b, nil
	}
	dir := "/usr/lib/nginx/modules"
	if m := modulesPath.FindStringSubmatch(string(out)); m != nil {
		dir = m[1]
	}
	for _, name := range []string{"ndk_http_module.so", "ngx_http_lua_module.so"} {
		file := filepath.Join(dir, name)
		if _, err := os.Stat(file); err != nil {
			return b, fmt.Errorf("find module %s: %w", file, ErrNotInstalled)
		}
		b.Modules = append(b.Modules, file)
	}
	return b, nil
}

// lookup also finds nginx for users whose PATH lacks the sbin folders.
func lookup(binary string) (string, error) {
	path, err := exec.LookPath(binary)
	if err == nil || strings.ContainsRune(binary, filepath.Separator) {
		return path, err
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/local/openresty/nginx/sbin"} {
		if p, err := exec.LookPath(filepath.Join(dir, binary)); err == nil {
			return p, nil
		}
	}
	return "", err
}

// LoadModules are the load_module lines for the top of a configuration.
func (b Build) LoadModules() string {
	var s strings.Builder
	for _, m := range b.Modules {
		fmt.Fprintf(&s, "load_module %s;\n", m)
	}
	return s.String()
}
