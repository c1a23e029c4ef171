// Command spate is the whole of Spate: `spate up` runs every role in one process, the other subcommands run one role each
// or look after what a running Spate keeps.
//
// This package only wires: it composes the configuration of the parts, builds them in order and hands them to
// internal/lifecycle. Parts of different roles meet here and nowhere else.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/spate-io/spate/internal/buildinfo"
)

// Exit codes, for scripts.
const (
	exitFailure = 1 // it did not work; the message says why
	exitUsage   = 2 // the command line or the configuration is wrong
	exitNo      = 3 // the question was answered with no: a span is not complete, a file is damaged
)

// usageError marks an error of the command line or the configuration.
type usageError struct{ error }

// errNo is what a command returns when its answer is no; the answer itself is on standard output.
var errNo = errors.New("no")

// gcPercent lets the heap grow by less than Go's own 100: most of it is a few large buffers, which cost nothing to mark.
const gcPercent = 25

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(exitCode(err))
}

// run is main without the process: it may be called from a test.
func run(ctx context.Context, args []string, out, errOut io.Writer) error {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errNo) {
		fmt.Fprintf(errOut, "spate: %v\n", err)
	}
	return err
}

func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errNo):
		return exitNo
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailure
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "spate",
		Short: "The data platform behind an edge: every request, within seconds, kept, and counted once",
		Long: `Spate takes every request that crosses your web servers, keeps it, and shows it: per zone, by the minute, hour, day
and month, with uniques and latency percentiles that stay right after the raw events have expired.

Start with "spate up". Questions about the configuration: "spate config print" and "spate config check".`,
		Version:       buildinfo.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	var opts globalOptions
	root.PersistentFlags().StringVarP(&opts.configPath, "config", "c", "",
		"configuration file (default $SPATE_CONFIG, else /etc/spate/spate.yaml where it exists, else built-in defaults)")
	for _, add := range commands {
		root.AddCommand(add(&opts))
	}
	return root
}
