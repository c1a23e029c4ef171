package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/spate-io/spate/edge/spool"
)

func newSpoolCommand(opts *globalOptions) *cobra.Command {
	cmd := &cobra.Command{Use: "spool", Short: "Look into the edge's spool, and mend it"}
	add := func(use, short string, args cobra.PositionalArgs, run func(cmd *cobra.Command, cfg *Config, args []string) error) {
		cmd.AddCommand(&cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := opts.load()
			if err != nil {
				return err
			}
			return run(cmd, cfg, args)
		}})
	}
	add("ls", "List segments, the place of each destination, and what was set aside, as JSON", cobra.NoArgs,
		func(cmd *cobra.Command, cfg *Config, _ []string) error {
			l, err := spool.List(cfg.Edge.Forward.Spool.Dir)
			if err != nil {
				return err
			}
			enc := json.NewEncoder(cmd.OutOrStdout())
			enc.SetIndent("", "  ")
			return enc.Encode(l)
		})
	add("verify", "Read every segment and check every batch in it", cobra.NoArgs,
		func(cmd *cobra.Command, cfg *Config, _ []string) error {
			return verifySpool(cmd.OutOrStdout(), cfg.Edge.Forward.Spool.Dir)
		})
	add("dump FILE", "Print a line for each record of a segment, or of a file that was set aside", cobra.ExactArgs(1),
		func(cmd *cobra.Command, _ *Config, args []string) error {
			return spool.Dump(args[0], func(r spool.RecordInfo) error { return printRecord(cmd.OutOrStdout(), r) })
		})
	add("rescue FILE...", "Put the good batches of files that were set aside back into the spool; the forwarder must be stopped", cobra.MinimumNArgs(1),
		func(cmd *cobra.Command, cfg *Config, args []string) error {
			return rescue(cmd.OutOrStdout(), cfg, args)
		})
	return cmd
}

func verifySpool(out io.Writer, dir string) error {
	reports, err := spool.Verify(dir)
	if err != nil {
		return err
	}
	good := true
	for i := range reports {
		r := &reports[i]
		fmt.Fprintf(out, "%s: %d batches, %d events, %d bytes damaged\n", r.File, r.Batches, r.Events, r.Damaged)
		for _, p := range r.Problems {
			if err := printRecord(out, p); err != nil {
				return err
			}
		}
		good = good && r.Good()
	}
	if !good {
		return errNo
	}
	fmt.Fprintln(out, "ok")
	return nil
}

func printRecord(out io.Writer, r spool.RecordInfo) error {
	_, err := fmt.Fprintf(out, "%d +%d %s", r.Offset, r.Length, r.Kind)
	if h := r.Header; err == nil && h != nil {
		_, err = fmt.Fprintf(out, " %s: %d events, %d dropped, %s, %d of %d bytes", h.Name, h.Events, h.Dropped, h.Codec, h.PackedLen, h.RawLen)
	}
	if err == nil && r.Problem != "" {
		_, err = fmt.Fprintf(out, ": %s", r.Problem)
	}
	if err == nil {
		_, err = fmt.Fprintln(out)
	}
	return err
}

func rescue(out io.Writer, cfg *Config, files []string) (err error) {
	var destinations []string
	for _, d := range cfg.Edge.Forward.Destinations {
		destinations = append(destinations, d.Name)
	}
	s, err := spool.Open(cfg.Edge.Forward.Spool, destinations, spool.Deps{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, f := range files {
		r, err := spool.Rescue(s, f)
		if err != nil {
			return fmt.Errorf("rescue %s: %w", f, err)
		}
		fmt.Fprintf(out, "%s: %d batches with %d events are back in the spool, %d could not be used\n", f, r.Batches, r.Events, r.Bad)
	}
	return nil
}
