package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestSetClock_MovesTheClockOfOneProcess asks a child for its time before, during and after.
func TestSetClock_MovesTheClockOfOneProcess(t *testing.T) {
	if os.Getenv("SPATE_CHAOS_TIME") != "" {
		for {
			var line string
			if _, err := fmt.Scanln(&line); err != nil {
				os.Exit(0)
			}
			fmt.Println("now", time.Now().Unix())
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestSetClock_MovesTheClockOfOneProcess$")
	cmd.Env = append(os.Environ(), "SPATE_CHAOS_TIME=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	off := func() time.Duration {
		t.Helper()
		var unix int64
		if _, err := fmt.Fprintln(in, "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fscanf(out, "now %d\n", &unix); err != nil {
			t.Fatal(err)
		}
		return time.Until(time.Unix(unix, 0)).Round(time.Minute)
	}
	for _, by := range []time.Duration{0, time.Hour, -time.Hour, 0} {
		if err := setClock(cmd.Process.Pid, by); err != nil {
			t.Skip(err)
		}
		if got := off(); got != by {
			t.Errorf("clock set by %s is off by %s", by, got)
		}
	}
}
