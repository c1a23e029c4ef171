package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-io/spate/bus"
	"github.com/spate-io/spate/internal/anonymize"
	"github.com/spate-io/spate/store/chdb"
	"github.com/spate-io/spate/store/maintain"
	"github.com/spate-io/spate/store/schema"
)

// obey has an order carried out: by the process that has the embedded store open, else by this one, which opens the store
// for it.
func obey(ctx context.Context, cfg *Config, o *maintain.Order, errOut io.Writer) (*maintain.Answer, error) {
	note := func(format string, args ...any) { fmt.Fprintf(errOut, format+"\n", args...) }
	log := slog.New(levelAbove{cfg.Log.logger(errOut).Handler(), slog.LevelWarn})
	if o.Check != nil {
		o.Check.Retention = cfg.Store.Retention
	}
	if cfg.Store.Address != embedded {
		return obeyServer(ctx, cfg, o, note, log)
	}
	a, err := maintain.Call(ctx, cfg.Store.Embedded.Path, o, note)
	if !errors.Is(err, maintain.ErrNotRunning) {
		return a, err
	}
	db, err := chdb.Open(ctx, cfg.Store.Embedded, chdb.Deps{Logger: log})
	if errors.Is(err, chdb.ErrLocked) {
		return nil, fmt.Errorf("%w, which takes no orders: it is starting, stopping, or an older version", err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // what was asked for is done and on the disk
	if err := schema.Migrate(ctx, db); err != nil && (o.Check == nil || errors.Is(err, schema.ErrNewer)) {
		return nil, err
	}
	positions := func(ctx context.Context) (*maintain.Positions, error) { return stoppedPositions(ctx, cfg) }
	return maintain.Do(ctx, db, o, positions, note)
}

// stoppedPositions asks the bus while Spate is stopped: an embedded one is opened for it.
func stoppedPositions(ctx context.Context, cfg *Config) (*maintain.Positions, error) {
	deps := bus.Deps{}
	if cfg.Bus.Address == bus.Embedded {
		addr, stop, err := openBroker(ctx, cfg)
		if err != nil {
			return nil, err
		}
		defer stop()
		deps.Embedded = addr
	}
	return busPositions(ctx, cfg, deps)
}

// obeyServer does what can be done on a ClickHouse server.
func obeyServer(ctx context.Context, cfg *Config, o *maintain.Order, note maintain.Note, log *slog.Logger) (*maintain.Answer, error) {
	if o.Backup != nil {
		return nil, errors.New("the store is a ClickHouse server: back it up with its own BACKUP, on its own disks")
	}
	db, err := openDB(ctx, cfg.Store, log, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	var a maintain.Answer
	if o.Check != nil {
		a.Check, err = maintain.Check(ctx, db, *o.Check, note)
	} else {
		a.Erase, err = maintain.Erase(ctx, db, *o.Erase, note)
	}
	return &a, err
}

func newBackupCommand(opts *globalOptions) *cobra.Command {
	var o maintain.BackupOptions
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Back the embedded store up, while Spate runs or not",
		Long: `Write what is in the store at one moment into a directory, which holds any number of backups: a part that an earlier one has
is not copied again, so a daily backup costs what came since. Ingest and queries go on; inserts wait for milliseconds. A running Spate
does the work itself, so the directory must be one that it may write to.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := opts.load()
			if err != nil {
				return err
			}
			if o.Dir, err = filepath.Abs(args[0]); err != nil {
				return usageError{err}
			}
			began := time.Now()
			a, err := obey(cmd.Context(), cfg, &maintain.Order{Backup: &o}, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			b, out := a.Backup, cmd.OutOrStdout()
			fmt.Fprintf(out, "backup      %s in %s\n", b.Name, o.Dir)
			fmt.Fprintf(out, "requests    %s\n", grouped(b.Rows))
			fmt.Fprintf(out, "parts       %d, %s bytes; copied %d, %s bytes, in %s\n", b.Parts, grouped(uint64(b.Bytes)), b.CopiedParts, grouped(uint64(b.CopiedBytes)), time.Since(began).Round(time.Millisecond))
			fmt.Fprintf(out, "inserts     waited %s\n", b.Held.Round(time.Millisecond))
			for _, name := range b.Removed {
				fmt.Fprintf(out, "removed     %s\n", name)
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&o.Keep, "keep", 0, "leave so many backups in the directory, this one included, and remove older ones; 0 keeps all")
	return cmd
}

func newRestoreCommand(opts *globalOptions) *cobra.Command {
	var o maintain.RestoreOptions
	var list, noBus bool
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "Restore the embedded store from a backup; Spate must be stopped",
		Long: `Lay a backup out as the store that the configuration names, compare every file with its SHA-256, open it, bring its tables
up to date, and count them. Where the bus is still the one that the backup was taken beside, it is told that the loader stands
where it stood then: the next start loads what came since, each event once. A store that is there is refused.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := opts.load()
			if err != nil {
				return err
			}
			if cfg.Store.Address != embedded {
				return usageError{errors.New("store.address is a ClickHouse server: restore it with its own RESTORE")}
			}
			if o.Dir, err = filepath.Abs(args[0]); err != nil {
				return usageError{err}
			}
			if list {
				return listBackups(cmd.OutOrStdout(), o.Dir)
			}
			o.Path = cfg.Store.Embedded.Path
			return restore(cmd, cfg, o, noBus)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "backup", "", "which backup (default: the newest)")
	f.BoolVar(&o.Force, "force", false, "move a store that is there aside, to data.before-TIME beside the new one")
	f.BoolVar(&o.DryRun, "dry-run", false, "read the backup through, say what is wrong with it, and change nothing")
	f.BoolVar(&list, "list", false, "list the backups in the directory")
	f.BoolVar(&noBus, "no-bus", false, "leave the bus alone: the loader goes on where the bus says")
	return cmd
}

func listBackups(out io.Writer, dir string) error {
	names, err := maintain.List(dir)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "backup\trequests\tparts\tbytes\ttables of version")
	for _, name := range names {
		m, err := maintain.ReadManifest(dir, name)
		if err != nil {
			return err
		}
		var bytes int64
		for i := range m.Parts {
			bytes += m.Parts[i].Bytes()
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", m.Name, m.Rows[schema.HTTPRequests], len(m.Parts), bytes, m.Schema)
	}
	return w.Flush()
}

func restore(cmd *cobra.Command, cfg *Config, o maintain.RestoreOptions, noBus bool) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	m, err := maintain.ReadManifest(o.Dir, o.Name)
	if err != nil {
		return err
	}
	known, err := schema.Latest()
	if err != nil {
		return err
	}
	if m.Schema > known {
		return fmt.Errorf("%w: the backup's tables have version %d, this program knows up to %d; use the newer program", schema.ErrNewer, m.Schema, known)
	}
	note := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
	if m, err = maintain.Restore(ctx, o, note); err != nil {
		return err
	}
	fmt.Fprintf(out, "backup      %s of %s, %d parts\n", m.Name, m.Taken.Format(time.RFC3339), len(m.Parts))
	if o.DryRun {
		fmt.Fprintln(out, "dry run     every file has the contents it was written with; nothing was changed")
		return nil
	}
	if err := verifyRestored(ctx, cfg, m, out); err != nil {
		return err
	}
	if noBus {
		fmt.Fprintln(out, "bus         left alone: the loader goes on where the bus says")
		return nil
	}
	return rewindBus(ctx, cfg, m.Bus, out)
}

// verifyRestored opens the store and counts.
func verifyRestored(ctx context.Context, cfg *Config, m *maintain.Manifest, out io.Writer) error {
	log := slog.New(slog.DiscardHandler)
	db, err := chdb.Open(ctx, cfg.Store.Embedded, chdb.Deps{Logger: log})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // everything was written before
	rows, err := maintain.Rows(ctx, db)
	if err != nil {
		return err
	}
	var wrong []string
	for table, n := range m.Rows {
		if rows[table] != n {
			wrong = append(wrong, fmt.Sprintf("%s has %d rows, the backup %d", table, rows[table], n))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("restored, but %s", strings.Join(wrong, "; "))
	}
	fmt.Fprintf(out, "restored    %d tables, %s requests, all counts as in the backup\n", len(m.Rows), grouped(m.Rows[schema.HTTPRequests]))
	if err := schema.Migrate(ctx, db); err != nil {
		return fmt.Errorf("migrate store: %w", err)
	}
	return nil
}

func newCheckCommand(opts *globalOptions) *cobra.Command {
	var o maintain.CheckOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check every part of the store and every rollup, while Spate runs or not",
		Long: `Read every part of every table and compare it with its checksums, count every rollup against the table it is fed from, day
by day, and look for parts that the engine has set aside. The exit code is 3 when something is wrong; each finding is a line.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := opts.load()
			if err != nil {
				return err
			}
			a, err := obey(cmd.Context(), cfg, &maintain.Order{Check: &o}, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(a.Check)
			} else {
				printCheck(cmd.OutOrStdout(), a.Check)
			}
			if err == nil && len(a.Check.Findings) > 0 {
				err = errNo
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "do not read the parts, only compare the rollups")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printCheck(out io.Writer, c *maintain.CheckResult) {
	fmt.Fprintf(out, "store       version %d, %d tables, %s rows in %s bytes; %s bytes of disk are free\n", c.Schema, c.Tables, grouped(c.Rows), grouped(c.Bytes), grouped(c.FreeDisk))
	fmt.Fprintf(out, "read        %d parts\ncompared    %d days of rollups\n", c.Parts, c.Days)
	for _, f := range c.Findings {
		where := f.Table
		if f.Part != "" {
			where += " part " + f.Part
		}
		if where != "" {
			where += ": "
		}
		fmt.Fprintf(out, "wrong       %s%s\n", where, f.What)
	}
	if len(c.Findings) == 0 {
		fmt.Fprintln(out, "ok          nothing wrong was found")
	}
}

func newEraseCommand(opts *globalOptions) *cobra.Command {
	var o maintain.EraseOptions
	var yes bool
	cmd := &cobra.Command{
		Use:   "erase (--ip ADDRESS | --zone NAME|ID)",
		Short: "Erase one client address or one zone from every table",
		Long: `Erase one client address or one zone from every table, and count afterwards. Without --yes it counts and changes nothing. Of an address
go the single requests, its place in the sets of distinct addresses and in the lists of the most frequent ones; sums that name nobody stay.
It may be cut off and run again. docs/how-to/store.md says where copies may lie that it cannot reach.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (o.IP == "") == (o.Zone == "") {
				return usageError{errors.New("give --ip or --zone")}
			}
			cfg, err := opts.load()
			if err != nil {
				return err
			}
			o.DryRun = o.DryRun || !yes
			list, err := erase(cmd, cfg, o)
			if err != nil {
				return err
			}
			return printErased(cmd.OutOrStdout(), list, o.DryRun)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.IP, "ip", "", "client address")
	f.StringVar(&o.Zone, "zone", "", "name or id of a zone")
	f.BoolVar(&o.DryRun, "dry-run", false, "count what would go, also with --yes")
	f.BoolVar(&yes, "yes", false, "do it")
	return cmd
}

// erase erases, and what stands for the address where hashes of addresses are stored.
func erase(cmd *cobra.Command, cfg *Config, o maintain.EraseOptions) ([]maintain.Erased, error) {
	orders := []maintain.EraseOptions{o}
	mask, err := anonymize.New(cfg.Privacy)
	if err != nil {
		return nil, err
	}
	if addr, err := netip.ParseAddr(o.IP); err == nil && mask != nil {
		if mask.Hashes() {
			o.IP = mask.Address(addr).String()
			orders = append(orders, o)
		} else {
			fmt.Fprintf(cmd.ErrOrStderr(), "addresses are truncated: what is stored as %s names nobody and stays\n", mask.Address(addr))
		}
	}
	var list []maintain.Erased
	for i := range orders {
		a, err := obey(cmd.Context(), cfg, &maintain.Order{Erase: &orders[i]}, cmd.ErrOrStderr())
		if err != nil {
			return nil, err
		}
		list = append(list, a.Erase...)
	}
	return list, nil
}

func printErased(out io.Writer, list []maintain.Erased, dry bool) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "table\twhat\trows\tleft")
	var found, left uint64
	for _, e := range list {
		if e.Rows == 0 {
			continue
		}
		found, left = found+e.Rows, left+e.Left
		if dry {
			e.Left = e.Rows
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\n", e.Table, e.What, e.Rows, e.Left)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	switch {
	case found == 0:
		fmt.Fprintln(out, "nothing of it is in the store")
	case dry:
		fmt.Fprintln(out, "nothing was changed; --yes erases it")
	case left > 0:
		fmt.Fprintln(out, "requests came in meanwhile: run it again")
		return errNo
	default:
		fmt.Fprintln(out, "erased; copies may still lie in backups, in the spools of edges and on the bus until they expire")
	}
	return nil
}
