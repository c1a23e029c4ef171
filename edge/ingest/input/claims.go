package input

import (
	"fmt"
	"path/filepath"
)

// Claims gives a function that says why lines of a file are an input's business, for imports on the same machine, or "". An
// input and an import do not know how far the other has read.
func Claims(inputs []Config) func(path string) string {
	why := map[string]string{}
	for _, c := range inputs {
		if c.withDefaults().Type != TypeFile {
			continue
		}
		logs, err := filepath.Glob(c.Path)
		if err != nil || len(logs) == 0 {
			logs = []string{c.Path}
		}
		for _, l := range logs {
			why[real(l)] = fmt.Sprintf("an input of this machine follows it (path %s)", c.Path)
		}
		for _, l := range logs {
			for _, s := range siblings(l) {
				if why[real(s.path)] == "" {
					why[real(s.path)] = fmt.Sprintf("it was rotated from %s, which an input of this machine follows", l)
				}
			}
		}
	}
	return func(path string) string { return why[real(path)] }
}

// real gives one name to a file, however it is asked for.
func real(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return path
}
