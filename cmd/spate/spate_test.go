package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// spateRun runs a command line in this process and returns its exit code and what it printed.
func spateRun(t *testing.T, yaml string, args ...string) (code int, out, errOut string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spate.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	var o, e bytes.Buffer
	err := run(t.Context(), append(args, "--config", path), &o, &e)
	return exitCode(err), o.String(), e.String()
}

// The wiring of every role holds when all its parts can be built; nothing is started.
func TestRoles_CanBeBuilt(t *testing.T) {
	const edge = `
edge:
  destinations:
    - {name: hel, addresses: ["core.test:7443"], ca: ca.crt, certificate: edge.crt, key: edge.key}
`
	for _, r := range roles {
		for name, yaml := range map[string]string{
			"embedded": "data_dir: " + t.TempDir() + edge,
			"kafka":    "data_dir: " + t.TempDir() + "\nbus: {address: \"kafka://k1:9092,k2:9092\"}" + edge,
		} {
			t.Run(r.name+"_"+name, func(t *testing.T) {
				if code, _, errOut := spateRun(t, yaml, r.name, "--check"); code != 0 {
					t.Fatalf("exit code %d: %s", code, errOut)
				}
			})
		}
	}
}

func TestForward_NeedsSomewhereToShipTo(t *testing.T) {
	code, _, errOut := spateRun(t, "data_dir: "+t.TempDir(), "forward", "--check")
	if code != exitFailure || !strings.Contains(errOut, "every destination needs addresses") {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
}

func TestConfigCheck_NamesEveryProblem(t *testing.T) {
	code, _, errOut := spateRun(t, `
http: {listen: "0.0.0.0:80"}
bus: {where: embedded}
edge: {batch: {max_events: none}}
`, "config", "check")
	if code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	for _, want := range []string{"bus.where is not a known key", `edge.batch.max_events must be a whole number in range (line 4) (is "none")`} {
		if !strings.Contains(errOut, want) {
			t.Errorf("no %q in:\n%s", want, errOut)
		}
	}
	code, _, errOut = spateRun(t, `http: {listen: "0.0.0.0:80"}`, "config", "check")
	if code != exitUsage || !strings.Contains(errOut, "api.tokens must name at least one token") {
		t.Errorf("an open API on all addresses: exit code %d: %s", code, errOut)
	}
}

func TestConfigPrint_CanBeReadBack(t *testing.T) {
	code, printed, errOut := spateRun(t, "data_dir: "+t.TempDir(), "config", "print")
	if code != 0 {
		t.Fatal(errOut)
	}
	code, again, errOut := spateRun(t, printed, "config", "print")
	if code != 0 || again != printed {
		t.Fatalf("exit code %d: %s\nfirst:\n%s\nthen:\n%s", code, errOut, printed, again)
	}
}

func TestExitCodes(t *testing.T) {
	if code, _, _ := spateRun(t, "", "up", "--no-such-flag"); code != exitUsage {
		t.Errorf("unknown flag: exit code %d, want %d", code, exitUsage)
	}
	if code, _, _ := spateRun(t, "", "import", "/no/such/file.log", "--dry-run"); code != exitFailure {
		t.Errorf("missing file: exit code %d, want %d", code, exitFailure)
	}
}
