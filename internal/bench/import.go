package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spate-io/spate/internal/buildinfo"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb"
	"github.com/spate-io/spate/store/schema"
)

// Peer is another program that reads the log.
type Peer struct {
	Name string
	// Command is for the shell; {} in it stands for the file, {dir} for an empty directory.
	Command string
}

// ImportOptions say what RunImport compares.
type ImportOptions struct {
	File string
	// Program is the spate binary that imports; Config the configuration file it is given, empty for none.
	Program, Config string
	Against         []Peer
	Rounds          int
	// Dir is where stores and reports of the programs lie while they are needed.
	Dir         string
	Progress    io.Writer
	StoreConfig chdb.Config // to count the bytes
}

// runner is one program with what its turns took.
type runner struct {
	name    string
	command func(dir string) *exec.Cmd
	keeps   bool // what it made in its last turn is looked at in the end

	seconds, cpu, memory []float64
	bytes                float64 // on disk for the whole file; not a number when unknown
}

// keptTurn is where the last turn of a runner that keeps lies.
const keptTurn = "kept"

// RunImport lets Spate and its peers read the same file in turns.
func RunImport(ctx context.Context, o ImportOptions) (*Report, error) {
	if o.Rounds < 1 {
		return nil, errors.New("rounds must be at least 1")
	}
	lines, size, err := countLines(o.File)
	if err != nil {
		return nil, err
	}
	tell := progress{o.Progress, time.Now()}
	tell.say("%s lines, %s MiB", number(float64(lines)), number(float64(size)/(1<<20)))
	list := []*runner{o.spate(ctx)}
	for _, p := range o.Against {
		list = append(list, o.peer(ctx, p))
	}
	for round := range o.Rounds {
		for _, r := range list {
			if err := o.turn(r); err != nil {
				return nil, fmt.Errorf("%s: %w", r.name, err)
			}
			tell.say("round %d: %s: %s s, %s MiB", round+1, r.name, number(r.seconds[round]), number(r.memory[round]/(1<<20)))
		}
	}
	// Now, not before: a child's peak memory is never below what its parent had when it was started.
	if list[0].bytes, err = o.mergedBytes(ctx, filepath.Join(o.Dir, keptTurn, "store")); err != nil {
		return nil, errors.Join(fmt.Errorf("count bytes: %w", err), os.RemoveAll(filepath.Join(o.Dir, keptTurn)))
	}
	if err := os.RemoveAll(filepath.Join(o.Dir, keptTurn)); err != nil {
		return nil, err
	}
	report := &Report{}
	report.set("spate", buildinfo.Version())
	report.set("machine", machine())
	report.set("file", fmt.Sprintf("%s, %s lines, %s MiB, read %d times by each", filepath.Base(o.File), number(float64(lines)), number(float64(size)/(1<<20)), o.Rounds))
	ours := list[0]
	for _, r := range list {
		report.add(r.name, "lines", float64(lines)/median(r.seconds), "lines/s")
		report.add(r.name, "processor time", median(r.cpu)/float64(lines)*1e6, "us/line")
		report.add(r.name, "peak memory", median(r.memory)/(1<<20), "MiB")
		if r.bytes > 0 {
			report.add(r.name, "on disk", r.bytes/float64(lines), "bytes/line")
		}
	}
	for _, r := range list[1:] {
		var ratios []float64
		for i := range r.seconds {
			ratios = append(ratios, r.seconds[i]/ours.seconds[i])
		}
		report.add("spate against "+r.name, "lines/s, median of the rounds", median(ratios), "times")
	}
	return report, nil
}

// spate imports into a data directory of its own, with all rollups.
func (o ImportOptions) spate(ctx context.Context) *runner {
	return &runner{
		name: "spate",
		command: func(dir string) *exec.Cmd {
			args := []string{"import", "--json", o.File}
			if o.Config != "" {
				args = append(args, "--config", o.Config)
			}
			cmd := exec.CommandContext(ctx, o.Program, args...)
			cmd.Env = append(os.Environ(), "SPATE_DATA_DIR="+dir, "SPATE_GATEWAY_LISTEN=127.0.0.1:0", "SPATE_BUS_EMBEDDED_LISTEN=127.0.0.1:0")
			return cmd
		},
		keeps: true,
	}
}

// mergedBytes gives the size of all tables of requests in a store, raw ones merged.
func (o ImportOptions) mergedBytes(ctx context.Context, path string) (float64, error) {
	cfg := o.StoreConfig
	cfg.Path = path
	db, err := chdb.Open(ctx, cfg, chdb.Deps{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	s := &Store{db: db}
	err = db.Exec(ctx, store.Query{SQL: "OPTIMIZE TABLE " + schema.HTTPRequests + " FINAL", Priority: store.Background})
	if err != nil {
		return 0, errors.Join(err, db.Close())
	}
	a, err := s.ask(ctx, "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table LIKE 'http_%'")
	if err != nil {
		return 0, errors.Join(err, db.Close())
	}
	n, err := strconv.ParseFloat(a[0], 64)
	return n, errors.Join(err, db.Close())
}

func (o ImportOptions) peer(ctx context.Context, p Peer) *runner {
	return &runner{name: p.Name, command: func(dir string) *exec.Cmd {
		return exec.CommandContext(ctx, "/bin/sh", "-c", strings.NewReplacer("{}", o.File, "{dir}", dir).Replace(p.Command))
	}}
}

// turn runs a program once.
func (o ImportOptions) turn(r *runner) error {
	dir := filepath.Join(o.Dir, "turn")
	if r.keeps {
		dir = filepath.Join(o.Dir, keptTurn)
	} else {
		defer os.RemoveAll(dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	cmd := r.command(dir)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %.500s", err, errOut.String())
	}
	seconds := time.Since(start).Seconds()
	said(out.Bytes(), "seconds", &seconds)
	said(out.Bytes(), "bytes", &r.bytes)
	usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	r.seconds = append(r.seconds, seconds)
	r.cpu = append(r.cpu, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	r.memory = append(r.memory, float64(usage.Maxrss)*1024)
	var summary struct{ Bad uint64 }
	if json.Unmarshal(out.Bytes(), &summary) == nil && summary.Bad > 0 && o.Progress != nil {
		fmt.Fprintf(o.Progress, "%s refused %d lines\n", r.name, summary.Bad)
	}
	return nil
}

// said looks for a line of a name and a number.
func said(out []byte, name string, value *float64) {
	for line := range bytes.Lines(out) {
		if f := bytes.Fields(line); len(f) == 2 && string(f[0]) == name {
			if v, err := strconv.ParseFloat(string(f[1]), 64); err == nil {
				*value = v
			}
		}
	}
}

func countLines(path string) (lines int, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	for {
		chunk, err := in.ReadSlice('\n')
		size += int64(len(chunk))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return lines, size, nil
		case err != nil:
			return 0, 0, err
		default:
			lines++
		}
	}
}
