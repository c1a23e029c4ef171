package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spate-io/spate/internal/bench"
)

func newBenchImportCommand(opts *globalOptions) *cobra.Command {
	var out benchOutput
	var o bench.ImportOptions
	var against []string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import a log into an empty store, in turns with other programs that read it",
		Long: `Import a log into a store that is made for it, with all rollups, as "spate import" does where no Spate runs, and measure
time, processor time, peak memory and the bytes on disk. Other programs can take turns with it: each --against gives a name
and a command for the shell, in which {} stands for the file and {dir} for an empty directory. Such a command may print
lines "seconds N" and "bytes N" to say what of its time counts and what it left on disk; without them it is the whole time.`,
		Example: `  spate bench import access.log --against "goaccess=goaccess {} --log-format=COMBINED --no-progress -o {dir}/report.json"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := opts.load()
			if err != nil {
				return err
			}
			if o.Program, err = os.Executable(); err != nil {
				return err
			}
			for _, a := range against {
				name, command, ok := strings.Cut(a, "=")
				if !ok || name == "" || command == "" {
					return usageError{fmt.Errorf("--against %q: must be NAME=COMMAND", a)}
				}
				o.Against = append(o.Against, bench.Peer{Name: name, Command: command})
			}
			o.File, o.StoreConfig, o.Config = args[0], cfg.Store.Embedded, opts.configPath
			return out.run(cmd, func(dir string, progress io.Writer) (*bench.Report, error) {
				o.Dir, o.Progress = dir, progress
				return bench.RunImport(cmd.Context(), o)
			})
		},
	}
	out.flags(cmd)
	cmd.Flags().IntVar(&o.Rounds, "rounds", 3, "how often each takes its turn; the median counts")
	cmd.Flags().StringArrayVar(&against, "against", nil, "NAME=COMMAND of a program to compare with; may be given several times")
	return cmd
}

func newBenchLogCommand() *cobra.Command {
	var from string
	var lines int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Write a long log made of a real one, its times moved on with each repetition",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return bench.LogAsJSON(from, cmd.OutOrStdout())
			}
			return bench.LengthenLog(from, lines, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "log in common or combined format, plain or compressed")
	cmd.Flags().IntVar(&lines, "lines", 4_000_000, "lines to write")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write the log once, its lines parsed to JSON, for programs that take no other form")
	_ = cmd.MarkFlagRequired("from") // the flag is there
	return cmd
}
