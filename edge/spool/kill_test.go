package spool

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SPATE_TEST_SPOOL_CHILD"); dir != "" {
		appendForever(dir)
	}
	os.Exit(m.Run())
}

// appendForever appends batches and says on standard output up to which they are durable.
func appendForever(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	cfg := small(dir)
	cfg.WhenFull, cfg.SegmentBytes, cfg.MaxBytes = FullBlock, 64<<10, 256<<20
	s, err := Open(cfg, []string{"a"}, Deps{})
	fail(err)
	p, _ := s.Position(stream(1))
	var t testing.B
	for n := p + 1; ; n++ {
		_, err := s.Append([]Origin{{stream(1), n}}, testBatch(&t, n, int(n%900)))
		fail(err)
		if n%4 == 0 {
			fail(s.Sync())
			fmt.Println(n)
		}
	}
}

func TestSpool_SurvivesKill(t *testing.T) {
	dir := t.TempDir()
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	durable := uint64(0)
	for round := range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), "SPATE_TEST_SPOOL_CHILD="+dir)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		killed := time.AfterFunc(time.Duration(30+round*7)*time.Millisecond, func() { _ = cmd.Process.Kill() })
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if n, err := strconv.ParseUint(sc.Text(), 10, 64); err == nil {
				durable = n
			}
		}
		killed.Stop()
		if err := cmd.Wait(); err == nil || stderr.Len() > 0 {
			t.Fatalf("child was not killed: %v %s", err, stderr.String())
		}
	}
	cfg := small(dir)
	cfg.MaxBytes = 256 << 20
	s := mustOpen(t, cfg, Deps{}, "a")
	p, _ := s.Position(stream(1))
	if p < durable || durable == 0 {
		t.Fatalf("position %d, and %d were reported durable", p, durable)
	}
	got, _ := read(t, s.Cursor("a"))
	want(t, got, 1, p)
	if len(s.Damages()) != 0 {
		t.Fatalf("damages %+v", s.Damages())
	}
	t.Logf("%d batches through %d kills", p, rounds)
}
