// Package buildinfo says which build this is.
package buildinfo

import "runtime/debug"

// version is set by the linker in release builds.
var version = ""

// Version returns the release, or the commit the binary was built from, or "dev".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "dev-" + s.Value[:12]
		}
	}
	return "dev"
}
