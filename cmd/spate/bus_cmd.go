package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spate-io/spate/bus"
)

func newBusCommand(opts *globalOptions) *cobra.Command {
	cmd := &cobra.Command{Use: "bus", Short: "The log between gateway and loader"}
	var asJSON bool
	lag := &cobra.Command{
		Use:   "lag",
		Short: "Show how far the loader is behind, in messages and in seconds; works while it is dead, too",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := opts.load()
			if err != nil {
				return err
			}
			rows, err := bus.ReadLag(cmd.Context(), cfg.Bus, bus.Deps{}, cfg.Load.Group, cfg.Bus.RequestsTopic())
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(rows)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "topic\tpartition\tend\tcommitted\tmessages\tseconds\tlost")
			for _, r := range rows {
				fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%.1f\t%d\n", r.Topic, r.Partition, r.End, r.Committed, r.Messages, r.Seconds, r.Lost)
			}
			return w.Flush()
		},
	}
	lag.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(lag)
	return cmd
}
