package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/internal/testdata"
)

// snippet is one fenced block of a page of documentation.
type snippet struct {
	page, lang, text string
	line             int
}

func snippets(t *testing.T) []snippet {
	t.Helper()
	root := testdata.Root(t)
	pages := []string{filepath.Join(root, "README.md")}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []snippet
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel(root, page)
		var open *snippet
		for i, line := range strings.Split(string(b), "\n") {
			fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
			switch {
			case isFence && open == nil:
				open = &snippet{page: rel, lang: fence, line: i + 1}
			case isFence:
				all = append(all, *open)
				open = nil
			case open != nil:
				open.text += line + "\n"
			}
		}
	}
	return all
}

// A block that begins with "# spate.yaml" is a configuration: it must be accepted as it stands.
func TestDocs_ConfigurationsAreAccepted(t *testing.T) {
	found := 0
	for _, s := range snippets(t) {
		if s.lang != "yaml" || !strings.HasPrefix(s.text, "# spate.yaml") {
			continue
		}
		found++
		cfg := DefaultConfig()
		if err := config.Read(strings.NewReader(s.text), nil, &cfg); err != nil {
			t.Errorf("%s:%d: %v", s.page, s.line, err)
		}
	}
	if found == 0 {
		t.Error("no configuration in the documentation")
	}
}

// Every spate command line in a sh block must name a command that exists, with flags it has.
func TestDocs_CommandLinesExist(t *testing.T) {
	found := 0
	for _, s := range snippets(t) {
		if s.lang != "sh" {
			continue
		}
		for i, line := range strings.Split(s.text, "\n") {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
			line = strings.TrimPrefix(strings.TrimPrefix(line, "$ "), "sudo ")
			words := strings.Fields(line)
			if len(words) == 0 || (words[0] != "spate" && !strings.HasSuffix(words[0], "bin/spate")) {
				continue
			}
			found++
			if err := checkCommandLine(words[1:]); err != nil {
				t.Errorf("%s:%d: %q: %v", s.page, s.line+i+1, line, err)
			}
		}
	}
	if found == 0 {
		t.Error("no command line in the documentation")
	}
}

func checkCommandLine(words []string) error {
	for i, w := range words { // what a shell does with the output is not ours
		if w == "|" || w == ">" || w == "&&" || w == "&" {
			words = words[:i]
			break
		}
	}
	cmd, rest, err := newRoot().Find(words)
	if err != nil {
		return err
	}
	return cmd.ParseFlags(rest)
}

// The reference of commands is printed from the commands themselves: SPATE_UPDATE=1 go test ./cmd/spate -run Docs.
func TestDocs_CommandReferenceIsCurrent(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Commands\n\nEvery command takes `--config FILE`. Exit codes: 0 it worked, 1 it did not, 2 the command line or the\nconfiguration is wrong, 3 the answer is no (a span is not complete, a file is damaged).\n")
	describe(&b, newRoot())
	path := filepath.Join(testdata.Root(t), "docs", "reference", "commands.md")
	checkGenerated(t, path, b.String())
}

func describe(b *strings.Builder, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		if sub.Runnable() {
			b.WriteString("\n## " + sub.CommandPath() + "\n\n" + sub.Short + ".\n")
			if sub.Long != "" {
				b.WriteString("\n" + sub.Long + "\n")
			}
			b.WriteString("\n    " + sub.UseLine() + "\n")
			if rows := flagRows(sub.LocalFlags()); rows != "" {
				b.WriteString("\n| flag | default | |\n| --- | --- | --- |\n" + rows)
			}
		}
		describe(b, sub)
	}
}

func flagRows(flags *pflag.FlagSet) string {
	var rows strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "config" {
			return
		}
		rows.WriteString("| `--" + f.Name + "` | " + strings.Trim(f.DefValue, "[]") + " | " + f.Usage + " |\n")
	})
	return rows.String()
}

// The reference of the configuration shows every key with its default and its environment variable.
func TestDocs_ConfigurationReferenceIsCurrent(t *testing.T) {
	var b strings.Builder
	b.WriteString(configurationIntro + "\n```yaml\n# spate.yaml\n")
	cfg := DefaultConfig()
	cfg.DataDir = "/var/lib/spate" // of root; other users have a folder in their home
	if err := config.Print(&b, &cfg); err != nil {
		t.Fatal(err)
	}
	b.WriteString("```\n")
	checkGenerated(t, filepath.Join(testdata.Root(t), "docs", "reference", "configuration.md"), b.String())
}

const configurationIntro = `# Configuration

One YAML file: ` + "`--config FILE`" + `, else ` + "`$SPATE_CONFIG`" + `, else ` + "`/etc/spate/spate.yaml`" + ` where it exists, else the defaults below. Only what
differs from the defaults needs to be in it. Unknown keys, wrong types and values out of range are errors that name the
path, the value and the rule; ` + "`spate config check`" + ` finds them, ` + "`spate config print`" + ` shows what is in force.

Sizes are written as ` + "`64MiB`" + ` or ` + "`10GB`" + `, durations as ` + "`200ms`, `5s`, `1h30m` or `30d`" + `. Every key can be overridden by an environment variable named after its
path: ` + "`edge.batch.max_events`" + ` by ` + "`SPATE_EDGE_BATCH_MAX_EVENTS`" + `; a list in YAML's flow form, ` + "`[a, b]`" + `.

` + "`data_dir` is `/var/lib/spate` for root and `~/.local/share/spate`" + ` for other users. Empty paths below lie under ` + "`data_dir`" + `. All defaults:
`

// checkGenerated compares a generated page with the one in the tree; SPATE_UPDATE=1 writes it instead.
func checkGenerated(t *testing.T, path, want string) {
	t.Helper()
	if os.Getenv("SPATE_UPDATE") == "1" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the program says now: run SPATE_UPDATE=1 go test ./cmd/spate -run Docs", path)
	}
}

// A link to a file must lead to one.
func TestDocs_LinksLeadSomewhere(t *testing.T) {
	root := testdata.Root(t)
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			b, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range link.FindAllStringSubmatch(string(b), -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
					t.Errorf("%s links to %s, which is not there", page, m[1])
				}
			}
		}
	}
}
