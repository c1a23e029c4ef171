package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/spate-io/spate/bus"
	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/store/chdb"
	"github.com/spate-io/spate/store/clickhouse"
	"github.com/spate-io/spate/store/cluster"
	"github.com/spate-io/spate/store/maintain"
	"github.com/spate-io/spate/store/move"
	"github.com/spate-io/spate/store/schema"
)

// moveCommand is what the command line of `store move` says.
type moveCommand struct {
	from, to, toConfig, rate string
	o                        move.Options
	asJSON                   bool
}

func newMoveCommand(opts *globalOptions) *cobra.Command {
	var c moveCommand
	cmd := &cobra.Command{
		Use:   "move (--to ADDRESS | --to-config FILE)",
		Short: "Copy the store into another one and compare both, while Spate runs or not",
		Long: `Copy every table of the store into another store, in pieces of an hour, a day or a month, and compare each by its number of rows
and a checksum of all columns. It may be cut off and run again, as often as you like, while events come in: what differs is copied anew.
The exit code is 3 as long as something differs. The target must not be in use yet.

An address is clickhouse://user:password@host:port/database, or a path: the data of an embedded store that no process has open. With --to-config the
target is the store of another configuration file, so that its password is not on the command line. docs/how-to/move.md says how to go over.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd, opts) },
	}
	f := cmd.Flags()
	f.StringVar(&c.to, "to", "", "address or path of the target")
	f.StringVar(&c.toConfig, "to-config", "", "configuration file whose store is the target")
	f.StringVar(&c.from, "from", "", "address or path of the source (default: the store of the configuration)")
	f.BoolVar(&c.o.Verify, "verify", false, "only compare")
	f.BoolVar(&c.o.DryRun, "dry-run", false, "say what would be copied, and change nothing")
	f.BoolVar(&c.o.Quick, "quick", false, "compare only what was added to the source, or was not yet equal, since the last run")
	f.BoolVar(&c.o.Overwrite, "overwrite", false, "delete what the target has and the source has not, also when no move put it there")
	f.StringVar(&c.rate, "rate", "", "read at most so much a second, for example 20MiB")
	f.BoolVar(&c.asJSON, "json", false, "print JSON")
	return cmd
}

func (c *moveCommand) run(cmd *cobra.Command, opts *globalOptions) error {
	ctx, errOut := cmd.Context(), cmd.ErrOrStderr()
	cfg, err := opts.load()
	if err != nil {
		return err
	}
	target, err := c.check(cfg)
	if err != nil {
		return err
	}
	log := slog.New(levelAbove{cfg.Log.logger(errOut).Handler(), slog.LevelWarn})
	src, running, err := openSource(ctx, cfg, c.from, log)
	if err != nil {
		return fmt.Errorf("open the source: %w", err)
	}
	defer func() { _ = src.Close() }() // it was only read
	dst, err := openTarget(ctx, target, src, log)
	if err != nil {
		return fmt.Errorf("open the target: %w", err)
	}
	c.o.Retention, c.o.Sharded = target.Retention, src.sharded
	c.o.Note = func(format string, args ...any) { fmt.Fprintf(errOut, format+"\n", args...) }
	r, err := move.Run(ctx, src.list, dst.Target, c.o)
	if cerr := dst.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close the target: %w", cerr)
	}
	if err != nil {
		if ctx.Err() != nil {
			return errors.New("cut off; run it again to go on")
		}
		return err
	}
	var l loaders
	if c.from == "" && !running {
		l = askLoaders(ctx, cfg)
	}
	l.spate = running
	if err := c.print(cmd.OutOrStdout(), r, &l); err != nil {
		return err
	}
	if !r.Equal && !c.o.DryRun || len(l.unfinished) > 0 {
		return errNo
	}
	return nil
}

// check reads the flags and gives the target.
func (c *moveCommand) check(cfg *Config) (storeConfig, error) {
	target := cfg.Store
	if (c.to == "") == (c.toConfig == "") {
		return target, usageError{errors.New("give --to or --to-config")}
	}
	if c.o.Verify && (c.o.DryRun || c.o.Quick || c.o.Overwrite) {
		return target, usageError{errors.New("--verify compares everything and changes nothing: it goes with no other of these flags")}
	}
	if c.rate != "" {
		size, err := config.ParseSize(c.rate)
		if err != nil || size <= 0 {
			return target, usageError{fmt.Errorf("--rate %s: must be a size such as 20MiB", c.rate)}
		}
		c.o.Rate = int64(size)
	}
	if c.to != "" {
		return target, target.at(c.to)
	}
	other := globalOptions{configPath: c.toConfig}
	next, err := other.load()
	if err != nil {
		return target, err
	}
	return next.Store, nil
}

// at makes the section name another store: the address of a server, or the path of an embedded store.
func (c *storeConfig) at(where string) error {
	c.Cluster = cluster.DefaultConfig()
	if clickhouse.IsAddress(where) {
		c.Address = where
		if _, err := clickhouse.ParseAddress(where); err != nil {
			return usageError{err}
		}
		return nil
	}
	path, err := filepath.Abs(where)
	if err != nil {
		return usageError{err}
	}
	c.Address, c.Embedded.Path = embedded, path
	return nil
}

// closers are closed together.
type closers []io.Closer

// Close implements io.Closer.
func (c closers) Close() error {
	var errs []error
	for _, one := range c {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// moveSource is what is moved: one server, or one of each shard.
type moveSource struct {
	list    []move.Source
	sharded bool
	closers
}

// moveTarget is where it is moved to.
type moveTarget struct {
	move.Target
	closers
}

// openSource opens what is moved. running says that a process of Spate has it open.
func openSource(ctx context.Context, cfg *Config, from string, log *slog.Logger) (src *moveSource, running bool, err error) {
	sc := cfg.Store
	if from != "" {
		if err := sc.at(from); err != nil {
			return nil, false, err
		}
	}
	if sc.Address != embedded {
		t, err := openServers(ctx, sc, log)
		if err != nil {
			return nil, false, err
		}
		src = &moveSource{closers: t.closers}
		for _, db := range t.Servers {
			src.list = append(src.list, db)
		}
		src.sharded = len(src.list) > 0
		if !src.sharded {
			src.list = []move.Source{t.DB}
		}
		return src, false, nil
	}
	r, err := maintain.DialReader(ctx, sc.Embedded.Path)
	if err == nil {
		return &moveSource{list: []move.Source{r}, closers: closers{r}}, true, nil
	}
	if !errors.Is(err, maintain.ErrNotRunning) {
		return nil, false, err
	}
	if _, err := os.Stat(chdb.DataDir(sc.Embedded.Path)); err != nil {
		return nil, false, fmt.Errorf("there is no store: %w", err)
	}
	db, err := chdb.Open(ctx, sc.Embedded, chdb.Deps{Logger: log})
	if errors.Is(err, chdb.ErrLocked) {
		return nil, false, fmt.Errorf("%w, which does not answer: it is starting, stopping, or an older version", err)
	}
	if err != nil {
		return nil, false, err
	}
	if err := schema.Migrate(ctx, db); err != nil {
		return nil, false, errors.Join(err, db.Close())
	}
	return &moveSource{list: []move.Source{db}, closers: closers{db}}, false, nil
}

// openServers opens a server, or of a cluster one server of each shard: a move puts rows together on one and attaches them there, so it
// must be the same from beginning to end.
func openServers(ctx context.Context, sc storeConfig, log *slog.Logger) (*moveTarget, error) {
	db, err := openDB(ctx, sc, log, nil)
	if err != nil {
		return nil, err
	}
	t := &moveTarget{move.Target{DB: db}, closers{db}}
	many, ok := db.(*cluster.DB)
	if !ok {
		return t, nil
	}
	if err := many.CheckVersion(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	server, err := clickhouse.ParseAddress(sc.Address)
	if err == nil && len(sc.Cluster.Shards) == 0 {
		sc.Cluster.Shards, err = cluster.Discover(ctx, sc.Cluster, server, cluster.Deps{Logger: log})
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	for i, s := range sc.Cluster.Shards {
		one, err := openOneOf(ctx, server, s.Replicas, log)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("shard %d: %w", i+1, err), t.Close())
		}
		t.Servers = append(t.Servers, one)
		t.closers = append(t.closers, one)
	}
	return t, nil
}

// openOneOf opens the first server that answers, and no other later.
func openOneOf(ctx context.Context, server clickhouse.Config, replicas []string, log *slog.Logger) (*clickhouse.DB, error) {
	var errs []error
	for _, addr := range replicas {
		server.Addresses = []string{addr}
		db, err := clickhouse.Open(ctx, server, clickhouse.Deps{Logger: log})
		if err == nil {
			return db, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// openTarget opens where it is moved to. One process has room for one embedded engine.
func openTarget(ctx context.Context, sc storeConfig, src *moveSource, log *slog.Logger) (*moveTarget, error) {
	if sc.Address == embedded {
		if _, ok := src.list[0].(*chdb.DB); ok {
			return nil, errors.New("source and target are both embedded stores that no process has open: let `spate store serve` open one of them")
		}
		if r, err := maintain.DialReader(ctx, sc.Embedded.Path); err == nil {
			return nil, errors.Join(errors.New("a process has it open: a target must not be in use"), r.Close())
		}
	}
	return openServers(ctx, sc, log)
}

// loaders is what is known of those that could still write into the source.
type loaders struct {
	spate      bool    // a process of Spate has the source open
	members    int     // of the loaders' group on the bus
	unfinished []int32 // partitions with an insert of which nobody knows whether it is in the store
	err        error   // the bus was not asked, and why
}

var errNoBus = errors.New("there is no bus yet")

// askLoaders asks the bus whether loaders run and whether they have ended well.
func askLoaders(ctx context.Context, cfg *Config) loaders {
	var l loaders
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	deps := bus.Deps{}
	if cfg.Bus.Address == bus.Embedded {
		if _, err := os.Stat(cfg.Bus.Embedded.Dir); err != nil {
			return loaders{err: errNoBus}
		}
		addr, stop, err := openBroker(ctx, cfg)
		if err != nil {
			return loaders{err: err}
		}
		defer stop()
		deps.Embedded = addr
	}
	p, err := busPositions(ctx, cfg, deps)
	if err != nil {
		return loaders{err: err}
	}
	for partition, at := range p.At {
		if at.Metadata != "" {
			l.unfinished = append(l.unfinished, partition)
		}
	}
	l.members, l.err = groupMembers(ctx, cfg, deps)
	return l
}

func groupMembers(ctx context.Context, cfg *Config, deps bus.Deps) (int, error) {
	cl, err := bus.NewClient(cfg.Bus, deps)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	groups, err := kadm.NewClient(cl).DescribeGroups(ctx, cfg.Load.Group)
	if err != nil {
		return 0, err
	}
	return len(groups[cfg.Load.Group].Members), nil
}

// printPieces is how many differing pieces of a table are named; JSON has more.
const printPieces = 3

func (c *moveCommand) print(out io.Writer, r *move.Result, l *loaders) error {
	if c.asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "table\trows\tpartitions\tpieces\tcopied\treplaced\tdiffering")
	for _, t := range r.Tables {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", t.Table, t.Rows, t.Partitions, t.Pieces, t.Copied, t.Replaced, t.Differing)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, t := range r.Tables {
		some := t.Differ[:min(len(t.Differ), printPieces)]
		for _, d := range some {
			what := fmt.Sprintf("%s rows in the source, %s in the target", grouped(d.SourceRows), grouped(d.TargetRows))
			if d.SourceRows == d.TargetRows {
				what = fmt.Sprintf("%s rows in both, and not the same", grouped(d.SourceRows))
			}
			fmt.Fprintf(out, "differs     %s %s: %s\n", t.Table, d.Piece, what)
		}
		if more := t.Differing - len(some); more > 0 {
			fmt.Fprintf(out, "differs     %s: %d more pieces\n", t.Table, more)
		}
	}
	if !c.o.Verify && !c.o.DryRun {
		fmt.Fprintf(out, "copied      %s rows, %s bytes in %s\n", grouped(r.CopiedRows), grouped(r.CopiedBytes), r.Elapsed.Round(time.Millisecond))
	}
	c.next(out, r, l)
	return nil
}

// next says what the operator has to do now.
func (c *moveCommand) next(out io.Writer, r *move.Result, l *loaders) {
	if r.Equal {
		fmt.Fprintln(out, "equal       every piece of every table")
	}
	for _, p := range l.unfinished {
		fmt.Fprintf(out, "unfinished  the loader began an insert of partition %d of the bus and nobody knows its end: start Spate on the source, stop it, and run this again\n", p)
	}
	switch {
	case c.o.DryRun:
		fmt.Fprintln(out, "dry run     nothing was changed")
	case c.from != "" || len(l.unfinished) > 0:
	case l.spate:
		fmt.Fprintln(out, "next        Spate runs: what it stores from now on is not in the target. Stop it, and run this again with --quick")
	case l.members > 0:
		fmt.Fprintf(out, "next        %d loaders run: what they store from now on is not in the target. Stop all that writes into the source, and run this again with --quick\n", l.members)
	case !r.Equal:
		fmt.Fprintln(out, "next        run it again")
	case l.err != nil && !errors.Is(l.err, errNoBus):
		fmt.Fprintf(out, "next        the bus could not be asked whether loaders have stopped (%v): see to it, and start Spate on the target\n", l.err)
	default:
		fmt.Fprintln(out, "next        nothing writes into the source: start Spate on the target")
	}
}
