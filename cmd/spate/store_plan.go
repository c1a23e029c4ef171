package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spate-io/spate/store/clickhouse"
	"github.com/spate-io/spate/store/cluster"
)

// target gives what the store is to become, and how to reach it when it is one of servers.
func (c *storeConfig) target() (cluster.Target, clickhouse.Config, error) {
	t := cluster.Target{Cluster: c.Cluster, Database: "default", Retention: c.Retention}
	if c.Address == embedded {
		return t, clickhouse.Config{}, nil
	}
	server, err := clickhouse.ParseAddress(c.Address)
	t.Database = server.Database
	return t, server, err
}

func newPlanCommand(opts *globalOptions) *cobra.Command {
	var from uint32
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Print the statements that make the store's tables; nothing is run",
		Long: `Print the statements that "spate store apply" would run on an empty store, or on one of version --from: tables, views, rules of
retention; for a cluster all of them ON CLUSTER. No server is asked, unless store.cluster.shards is empty, or rules of retention name plans.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := opts.load()
			if err != nil {
				return err
			}
			t, server, err := cfg.Store.target()
			if err != nil {
				return err
			}
			if t.Cluster.Name != "" && len(t.Cluster.Shards) == 0 {
				if t.Cluster.Shards, err = cluster.Discover(cmd.Context(), t.Cluster, server, cluster.Deps{}); err != nil {
					return fmt.Errorf("store.cluster.shards is empty: %w", err)
				}
			}
			list, err := cluster.Plan(cmd.Context(), t, from, nil)
			if err != nil {
				return err
			}
			printStatements(cmd.OutOrStdout(), list)
			return nil
		},
	}
	cmd.Flags().Uint32Var(&from, "from", 0, "version of the tables that are there; 0 is none")
	return cmd
}

func printStatements(w io.Writer, list []string) {
	for _, sql := range list {
		fmt.Fprintf(w, "%s;\n\n", strings.TrimRight(sql, "; \n"))
	}
}

func newApplyCommand(opts *globalOptions) *cobra.Command {
	var o cluster.ApplyOptions
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Make or change the tables of a ClickHouse server or cluster",
		Long: `Look at every server, run what is missing of the statements of "spate store plan", and make on each live server of a cluster the tables
that it lacks. It may be cut off and run again, and be run while data comes in. Servers that are dead are told of; they run what they missed
when they are back, or when this is run again. A store that a newer version made is left alone.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := opts.load()
			if err != nil {
				return err
			}
			return applyStore(cmd.Context(), cfg, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "ask the servers, and print what would be run")
	return cmd
}

func applyStore(ctx context.Context, cfg *Config, o cluster.ApplyOptions, out, errOut io.Writer) error {
	if cfg.Store.Address == embedded {
		return errors.New("the embedded store is brought up to date by Spate itself when it starts; apply is for ClickHouse servers")
	}
	t, server, err := cfg.Store.target()
	if err != nil {
		return err
	}
	o.Deps.Logger = slog.New(levelAbove{cfg.Log.logger(errOut).Handler(), slog.LevelWarn})
	note := func(format string, args ...any) { fmt.Fprintf(errOut, format+"\n", args...) }
	a, err := cluster.Apply(ctx, t, server, o, note)
	if a != nil && o.DryRun && err == nil {
		printStatements(out, a.Statements)
		return nil
	}
	if a != nil {
		for _, r := range a.Repaired {
			fmt.Fprintf(out, "made        %s\n", r)
		}
		for _, s := range a.Absent {
			fmt.Fprintf(out, "absent      %s: run this again when it is back\n", s)
		}
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "version     %d, was %d\n", a.To, a.From)
	return nil
}
