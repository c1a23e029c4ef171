package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-io/spate/internal/bench"
)

func newBenchCommand(opts *globalOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine with Spate on it: ingest, size, dashboards, imports",
		Long: `Measure Spate on this machine, in a directory of its own: a Spate that runs and its data are left alone. The configuration
counts, so that settings can be compared. What is printed are ratios of things measured in turns wherever that is
possible; everything else depends on the machine and on what else it does.`,
	}
	cmd.AddCommand(newBenchStoreCommand(opts), newBenchImportCommand(opts), newBenchLogCommand())
	return cmd
}

// benchOutput are the flags that say where a benchmark works and how it reports.
type benchOutput struct {
	dir        string
	keep, json bool
}

func (b *benchOutput) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&b.dir, "dir", "", "directory to work in (default: a temporary one)")
	cmd.Flags().BoolVar(&b.keep, "keep", false, "leave what was made in the directory, for another run with --dir")
	cmd.Flags().BoolVar(&b.json, "json", false, "print the figures as JSON")
}

// run makes the directory, calls measure, prints the report, and removes the directory if it was made here.
func (b *benchOutput) run(cmd *cobra.Command, measure func(dir string, progress io.Writer) (*bench.Report, error)) error {
	dir := b.dir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "spate-bench-"); err != nil {
			return err
		}
		if b.keep {
			fmt.Fprintln(cmd.ErrOrStderr(), "directory", dir)
		} else {
			defer os.RemoveAll(dir)
		}
	}
	report, err := measure(dir, cmd.ErrOrStderr())
	if report == nil {
		return err
	}
	if b.json {
		return errors.Join(err, report.JSON(cmd.OutOrStdout()))
	}
	return errors.Join(err, report.Print(cmd.OutOrStdout()))
}

func newBenchStoreCommand(opts *globalOptions) *cobra.Command {
	var out benchOutput
	var o bench.StoreOptions
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Ingest against the engine's own rate, bytes per request, dashboards over a long history",
		Long: `Measure the embedded store. In turns: blocks that were built before, put into all tables, and the same requests from
records on the bus through the loader into all tables. Then bytes per stored request. Then a history is made, and the API
is asked for dashboards of zones drawn by their share of the traffic, and of the busiest one: first with nothing else going
on, then with requests coming in at half the rate that the first part found.

A history of 100 million requests takes about half an hour to make on two processors, and some 20 GB. With --keep and --dir
it is made once; --ingest 0 then repeats the questions alone.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := opts.load()
			if err != nil {
				return err
			}
			log := slog.New(levelAbove{cfg.Log.logger(cmd.ErrOrStderr()).Handler(), slog.LevelWarn})
			o.StoreConfig, o.Bus, o.Load, o.Enrich, o.API = cfg.Store.Embedded, cfg.Bus, cfg.Load, cfg.Enrich, cfg.API
			return out.run(cmd, func(dir string, progress io.Writer) (*bench.Report, error) {
				o.Dir, o.Progress = dir, progress
				return bench.RunStore(cmd.Context(), o, log)
			})
		},
	}
	out.flags(cmd)
	flags := cmd.Flags()
	flags.IntVar(&o.Events, "events", 10_000_000, "requests of the history; 0 asks for no dashboards")
	flags.IntVar(&o.Zones, "zones", 10_000, "zones that share the requests by Zipf's law")
	flags.IntVar(&o.Days, "days", 30, "days that the history spans")
	flags.IntVar(&o.Ingest, "ingest", 2_000_000, "requests to put in each way to compare rates; 0 leaves that and the sizes out")
	flags.StringVar(&o.Log, "log", "", "access log in any known format to make the requests from (default: invented requests)")
	flags.IntVar(&o.Callers, "callers", 4, "how many ask for dashboards at the same time")
	flags.DurationVar(&o.Each, "each", 8*time.Second, "how long each kind of question is asked")
	return cmd
}
