package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-io/spate/edge/ingest"
)

// importLedger is the file under the data directory that remembers what was imported.
const importLedger = "imports.ledger"

func newImportsCommand(opts *globalOptions) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "imports",
		Short: "List what was imported: file, span of time, lines, bad lines, when",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := opts.load()
			if err != nil {
				return err
			}
			entries, err := ingest.ReadLedger(filepath.Join(cfg.DataDir, importLedger))
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(entries)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "file\tformat\tfrom\tto\tlines\tbad\timported")
			for _, e := range entries {
				name := ""
				if len(e.Names) > 0 {
					name = e.Names[len(e.Names)-1]
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", name, e.Format, stamp(e.First), stamp(e.Last), e.Lines, e.Bad, stamp(e.Updated))
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
