package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/spate-io/spate/bus"
	"github.com/spate-io/spate/edge/forward"
	"github.com/spate-io/spate/edge/ingest"
	"github.com/spate-io/spate/edge/ingest/input"
	"github.com/spate-io/spate/edge/wire"
	"github.com/spate-io/spate/internal/buildinfo"
	"github.com/spate-io/spate/internal/certs"
	"github.com/spate-io/spate/internal/lifecycle"
	"github.com/spate-io/spate/store/chdb"
)

// importFlags are the flags of `spate import`.
type importFlags struct {
	ingest.Options
	zone     string
	json     bool
	followed bool
}

func newImportCommand(opts *globalOptions) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Import access logs: files, globs, folders, or - for standard input; each line once",
		Long: `Import access logs, plain or compressed, in any of the known formats or in the format string of your server. Lines that
were imported before, under whatever name and in whatever compression, are passed over, so the same command may be run
again after more was logged, or after it was interrupted.

It sends to the Spate that runs on this configuration; where none runs, it opens the store itself for as long as it takes.
The exit code is 3 when a file was not imported, or not whole; refused lines do not change it.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Paths = args
			loc, err := time.LoadLocation(f.zone)
			if err != nil {
				return usageError{fmt.Errorf("--timezone: %w", err)}
			}
			f.Zone = loc
			return runImport(cmd, opts, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Format, "format", "", "name of a format, or the log_format or LogFormat string as it stands in the server's configuration (default: detected)")
	flags.StringVar(&f.Host, "host", "", "site that the requests were for, where the log does not say")
	flags.StringVar(&f.Scheme, "scheme", "", "http or https, where the log does not say")
	flags.StringVar(&f.EdgeName, "edge-name", "", "name of the server that wrote the log")
	flags.StringVar(&f.ColoCode, "colo", "", "code of the place where it stood")
	flags.StringVar(&f.zone, "timezone", "UTC", "time zone of times that are logged without one")
	flags.BoolVar(&f.DryRun, "dry-run", false, "parse only: report format, speed and bad lines")
	flags.StringVar(&f.BadFile, "bad", "", "write lines that are refused to this file, with their number and the reason")
	flags.IntVar(&f.MaxBad, "max-bad", 10_000, "how many refused lines to write at most")
	flags.IntVar(&f.Workers, "workers", 0, "parsers (default: one for each processor)")
	flags.DurationVar(&f.Gap, "gap", time.Hour, "report spans without a request that are at least this long")
	flags.BoolVar(&f.Force, "force", false, "import lines once more that were imported before: they will be counted twice")
	flags.BoolVar(&f.followed, "followed", false, "import also what an input of type file follows on this machine: what it reads too will be counted twice")
	flags.BoolVar(&f.json, "json", false, "print the summary as JSON")
	return cmd
}

func runImport(cmd *cobra.Command, opts *globalOptions, f importFlags) error {
	cfg, err := opts.load()
	if err != nil {
		return err
	}
	log := cfg.Log.logger(cmd.ErrOrStderr())
	deps := ingest.Deps{Stdin: os.Stdin, Progress: os.Stderr, Terminal: term.IsTerminal(int(os.Stderr.Fd())), Logger: log}
	if f.json {
		deps.Progress = nil
	}
	if !f.followed {
		deps.Claimed = input.Claims(cfg.Edge.Inputs)
	}
	var summary *ingest.Summary
	if f.DryRun {
		summary, err = ingest.Import(cmd.Context(), f.Options, deps)
	} else {
		summary, err = importInto(cmd.Context(), cfg, log, f.Options, deps)
	}
	if summary == nil {
		return err
	}
	if err == nil && slices.ContainsFunc(summary.Files, func(r ingest.FileResult) bool { return r.Error != "" }) {
		err = errNo
	}
	if f.json {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		return errors.Join(err, enc.Encode(summary))
	}
	summary.Print(cmd.OutOrStdout())
	if !f.DryRun && summary.First != nil {
		fmt.Fprintf(cmd.OutOrStdout(), "dashboard   http://%s/?from=%s&to=%s\n", cfg.HTTP.Listen,
			summary.First.UTC().Format(time.RFC3339), summary.Last.UTC().Add(time.Second).Format(time.RFC3339))
	}
	return err
}

// importInto sends to the gateway that runs on this configuration, or runs the core for as long as the import takes. A
// Spate that is just starting holds the store before its gateway answers: that is waited for.
func importInto(ctx context.Context, cfg *Config, log *slog.Logger, o ingest.Options, deps ingest.Deps) (*ingest.Summary, error) {
	const patience = 30 * time.Second
	for began := time.Now(); ; {
		summary, err := importOnce(ctx, cfg, log, o, deps)
		if summary != nil || !errors.Is(err, chdb.ErrLocked) || time.Since(began) > patience {
			return summary, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func importOnce(ctx context.Context, cfg *Config, log *slog.Logger, o ingest.Options, deps ingest.Deps) (*ingest.Summary, error) {
	if err := makeDir(cfg.DataDir); err != nil {
		return nil, err
	}
	ledger, err := ingest.OpenLedger(filepath.Join(cfg.DataDir, importLedger))
	if err != nil {
		return nil, err
	}
	defer func() { _ = ledger.Close() }() // every write was synced when it was made
	quiet := slog.New(levelAbove{log.Handler(), slog.LevelWarn})
	b := newBuilder(cfg, quiet)
	parts, dest, err := b.importParts(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.prepare(); err != nil {
		return nil, err
	}
	fw, err := b.importForwarder(dest)
	if err != nil {
		return nil, err
	}
	group := lifecycle.New(quiet, lifecycle.Options{}, append(parts, lifecycle.Named{Name: "import", Part: fw})...)
	deps.Ledger, deps.Sink, deps.Tell = ledger, fw, fw.Tell
	deps.Wait = func(ctx context.Context) error {
		if err := fw.Delivered(ctx); err != nil {
			return err
		}
		return awaitLoaded(ctx, cfg, b.busDeps("import"))
	}

	var summary *ingest.Summary
	var importErr error
	running, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	err = group.Run(running, nil, func() {
		go func() {
			defer close(done)
			defer stop()
			summary, importErr = ingest.Import(ctx, o, deps)
		}()
		<-done
	})
	return summary, errors.Join(importErr, err)
}

// importParts returns what has to run beside the import and where it sends: nothing and the address of a running gateway, or
// the parts of the core and a pipe.
func (b *builder) importParts(ctx context.Context) ([]lifecycle.Named, forward.Destination, error) {
	cfg := b.cfg
	files := certs.EdgeFiles(cfg.CertsDir, importEdge)
	if reachable(ctx, cfg.Gateway.Listen, files, b.log) {
		return nil, forward.Destination{
			Name: "gateway", Addresses: []string{cfg.Gateway.Listen}, CA: files.CA, Certificate: files.Certificate, Key: files.Key,
		}, nil
	}
	var parts []lifecycle.Named
	for _, name := range []partName{partStore, partBroker, partZones, partBus, partLedger, partLoader, partGateway} {
		p, err := b.part(name)
		if err != nil {
			return nil, forward.Destination{}, fmt.Errorf("%s: %w", name, err)
		}
		if p != nil {
			parts = append(parts, lifecycle.Named{Name: string(name), Part: p})
		}
	}
	return parts, forward.Destination{Name: "gateway"}, nil
}

// reachable says whether a gateway that accepts our certificate listens at addr.
func reachable(ctx context.Context, addr string, files certs.Files, log *slog.Logger) bool {
	conf, err := certs.NewClient(files, log).Config()
	if err != nil {
		return false // no certificates: nothing has run on this configuration yet
	}
	if conf.ServerName, _, err = net.SplitHostPort(addr); err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := (&tls.Dialer{Config: conf}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// importForwarder is an edge of its own, with its own spool, so that an import that was killed is completed by the next one.
func (b *builder) importForwarder(dest forward.Destination) (*forward.Forwarder, error) {
	cfg := b.cfg.Edge.Forward
	cfg.Edge = importEdge
	cfg.Spool.Dir = filepath.Join(b.cfg.DataDir, "import-spool")
	cfg.Destinations = []forward.Destination{dest}
	deps := forward.Deps{Logger: b.component("import"), Registerer: b.reg, Software: "spate-import/" + buildinfo.Version()}
	if len(dest.Addresses) == 0 {
		deps.Dial = map[string]wire.Dialer{dest.Name: wire.InProcess(func(c net.Conn) {
			defer c.Close()
			_ = b.gateway.ServeConn(context.Background(), c, importEdge) // the forwarder reports the same from its side
		})}
	}
	return forward.New(cfg, deps)
}

// awaitLoaded waits until the loader has stored all that is on the bus now, so that the numbers are there when the import
// says that it is done.
func awaitLoaded(ctx context.Context, cfg *Config, deps bus.Deps) error {
	var target []bus.PartitionLag
	for {
		lag, err := bus.ReadLag(ctx, cfg.Bus, deps, cfg.Load.Group, cfg.Bus.RequestsTopic())
		if err != nil {
			return fmt.Errorf("wait until everything is stored: %w", err)
		}
		if target == nil {
			target = lag
		}
		if loaded(target, lag) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func loaded(target, now []bus.PartitionLag) bool {
	for i := range target {
		empty := target[i].End == target[i].Start
		if !empty && (i >= len(now) || now[i].Committed < target[i].End) {
			return false
		}
	}
	return true
}

// levelAbove lets only what is at or above its level through: an import is no place for the start messages of a server.
type levelAbove struct {
	slog.Handler
	level slog.Level
}

// Enabled implements slog.Handler.
func (h levelAbove) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}

// WithAttrs implements slog.Handler.
func (h levelAbove) WithAttrs(a []slog.Attr) slog.Handler {
	return levelAbove{h.Handler.WithAttrs(a), h.level}
}

// WithGroup implements slog.Handler.
func (h levelAbove) WithGroup(name string) slog.Handler {
	return levelAbove{h.Handler.WithGroup(name), h.level}
}
