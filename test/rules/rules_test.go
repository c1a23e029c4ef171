// Package rules holds the house rules that a test can hold: what every package owes its readers, and which way imports
// may point. docs/explanation/internals.md says why.
package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spate-io/spate/internal/testdata"
)

const module = "github.com/spate-io/spate/"

// source is one Go file of the module.
type source struct {
	path string // relative to the root
	pkg  string // folder, relative to the root
	test bool
	ast  *ast.File
}

func sources(t *testing.T) []source {
	t.Helper()
	root := testdata.Root(t)
	var all []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch name := d.Name(); {
			case path != root && strings.HasPrefix(name, "."), name == "node_modules", name == "testdata" && filepath.Base(filepath.Dir(path)) != "internal", name == "var":
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		all = append(all, source{path: rel, pkg: filepath.Dir(rel), test: strings.HasSuffix(path, "_test.go"), ast: f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if _, seen := documented[s.pkg]; !seen {
			documented[s.pkg] = false
		}
		if s.ast.Doc != nil && len(strings.TrimSpace(s.ast.Doc.Text())) > 20 {
			documented[s.pkg] = true
		}
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}

// layers lists the folders in the order of an event's way. A package may import its own folder, folders before it, and
// internal; nothing may import cmd.
var layers = [][]string{
	{"event", "histogram", "clock"},
	{"edge"},
	{"bus"},
	{"store"},
	{"core"},
	{"analytics"},
	{"api"},
	{"web"},
	{"cmd"},
}

func layer(pkg string) (index int, known bool) {
	top, _, _ := strings.Cut(pkg, "/")
	for i, names := range layers {
		for _, name := range names {
			if name == top {
				return i, true
			}
		}
	}
	return 0, false
}

func TestImportsPointDownTheWayOfAnEvent(t *testing.T) {
	for _, s := range sources(t) {
		from, known := layer(s.pkg)
		if !known || s.test {
			continue
		}
		for _, imp := range s.ast.Imports {
			path, ours := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), module)
			if !ours {
				continue
			}
			if to, known := layer(path); known && to > from {
				t.Errorf("%s imports %s, which comes later on the way of an event", s.path, path)
			}
		}
	}
}

// roles are the packages that one subcommand runs; they meet in cmd/spate only.
var roles = []string{"edge/forward", "edge/producer", "core/gateway", "core/load", "core/aggregate", "api"}

func TestRolesDoNotImportRoles(t *testing.T) {
	// Inputs hand their chunks to edge/forward, whose Sink interface is that contract.
	allowed := map[string]string{"edge/producer": "edge/forward"}
	for _, s := range sources(t) {
		if s.test || !contains(roles, s.pkg) {
			continue
		}
		for _, imp := range s.ast.Imports {
			path := strings.TrimPrefix(strings.Trim(imp.Path.Value, `"`), module)
			if path != s.pkg && contains(roles, path) && allowed[s.pkg] != path {
				t.Errorf("%s imports the role %s", s.path, path)
			}
		}
	}
}

func TestNoGenericPackageNames(t *testing.T) {
	for _, s := range sources(t) {
		switch filepath.Base(s.pkg) {
		case "util", "utils", "common", "helpers", "base", "types", "misc":
			t.Errorf("%s: a package is named for what it is", s.pkg)
		}
	}
}

func TestReadmeIsShort(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(testdata.Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "\n"); n >= 200 {
		t.Errorf("README.md has %d lines; a newcomer reads fewer than 200", n)
	}
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}
