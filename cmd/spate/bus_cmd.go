package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-io/spate/bus"
)

func newBusCommand(opts *globalOptions) *cobra.Command {
	cmd := &cobra.Command{Use: "bus", Short: "The log between gateway and loader"}
	var asJSON bool
	var wait time.Duration
	lag := &cobra.Command{
		Use:   "lag",
		Short: "Show how far the loader is behind, in messages and in seconds; works while it is dead, too",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := opts.load()
			if err != nil {
				return err
			}
			rows, err := readLag(cmd.Context(), cfg, wait, cmd.ErrOrStderr())
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
	lag.Flags().DurationVar(&wait, "wait", 20*time.Second, "try again for so long while brokers do not answer")
	lag.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(lag)
	return cmd
}

// readLag tries until all partitions have answered or the wait is over: while a broker is being replaced those that it led
// have nobody to ask.
func readLag(ctx context.Context, cfg *Config, wait time.Duration, note io.Writer) ([]bus.PartitionLag, error) {
	deadline := time.Now().Add(wait)
	for first := true; ; first = false {
		rows, err := bus.ReadLag(ctx, cfg.Bus, bus.Deps{}, cfg.Load.Group, cfg.Bus.RequestsTopic())
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return rows, err
		}
		if first {
			fmt.Fprintf(note, "not all brokers answer, trying again for %s: %v\n", wait, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}
