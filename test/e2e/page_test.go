package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/spate-io/spate/internal/testdata"
)

// checkPage opens the dashboard in Chromium. What it asserts is in test/browser/run.mjs: the numbers on the page are those
// of the API. Screenshots go to SPATE_SCREENSHOTS, or to a folder of the test.
func checkPage(t *testing.T, s *spate) {
	var zones struct{ Result []struct{ ID, Name string } }
	if err := s.get("/client/v4/zones?name=alpha.test", &zones); err != nil {
		t.Fatal(err)
	}
	if len(zones.Result) != 1 {
		t.Fatalf("zones named alpha.test: %v", zones.Result)
	}
	dir := os.Getenv("SPATE_SCREENSHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	browser := filepath.Join(testdata.Root(t), "test", "browser")
	cmd := exec.Command("node", "run.mjs", "--base", s.base, "--zone", zones.Result[0].ID, "--out", dir)
	cmd.Dir = browser
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("browser run: %v\n%s", err, out)
	}
	t.Logf("%s", tail(out, 5))
	shots, _ := filepath.Glob(filepath.Join(dir, "*.png"))
	if len(shots) == 0 {
		t.Fatal("the browser run took no screenshot")
	}
}
