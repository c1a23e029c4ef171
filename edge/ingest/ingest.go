// Package ingest imports access logs: it finds files, unpacks them, cuts them into chunks of lines, parses the chunks in
// parallel with package accesslog and hands the events to a forwarder. Each line is taken once, however often, under whatever
// name and in whatever compression its log is imported; docs/explanation/import.md says how.
//
// The main function is [Import]. What was imported is remembered in a [Ledger]. Inputs that run for ever (followed files,
// syslog, HTTP push) are in package ingest/input.
//
// The invariant: the position of a log moves forward in the ledger only when the events before it are durable in the
// forwarder's spool, and events are put only for content that the ledger already names. So an import may be killed at any
// moment and completed by running it again.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"time"

	"github.com/spate-io/spate/edge/accesslog"
	"github.com/spate-io/spate/edge/forward"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/event/notice"
)

// Options say what to import and how. The zero value of a field is its default.
type Options struct {
	Paths   []string       // files, globs, folders, "-" for Stdin
	Format  string         // name of a format or format string; empty: detected for each file
	Zone    *time.Location // of times that are logged without zone; UTC
	DryRun  bool           // parse only
	BadFile string         // where refused lines go
	MaxBad  int            // how many of them at most; 10,000
	Workers int            // parsers; one for each processor
	Gap     time.Duration  // spans without an event that are at least this long are reported; 1 h
	Force   bool           // import lines that were imported before once more
	Defaults
}

// Defaults are values for events of logs that do not have them.
type Defaults struct {
	Host     string // the site, when the log has no host
	Scheme   string // http or https
	EdgeName string
	ColoCode string
}

// Apply fills what is empty in e. The texts of e then alias those of d.
func (d *DefaultTexts) Apply(e *event.HTTP) {
	if len(e.ClientRequestHost) == 0 {
		e.ClientRequestHost = d.host
	}
	if len(e.ClientRequestScheme) == 0 {
		e.ClientRequestScheme = d.scheme
	}
	if len(e.EdgeName) == 0 {
		e.EdgeName = d.edge
	}
	if len(e.EdgeColoCode) == 0 {
		e.EdgeColoCode = d.colo
	}
}

// DefaultTexts is Defaults in the form that events have.
type DefaultTexts struct{ host, scheme, edge, colo []byte }

// Texts makes them. They are read only, and may be shared by goroutines.
func (d Defaults) Texts() *DefaultTexts {
	return &DefaultTexts{[]byte(d.Host), []byte(d.Scheme), []byte(d.EdgeName), []byte(d.ColoCode)}
}

// Deps are what an import needs. With DryRun, Sink and Ledger may be nil.
type Deps struct {
	Sink   forward.Sink
	Ledger Ledger
	// Wait returns when everything that was put has been acknowledged by the destinations. Nil: durable in the spool is enough.
	Wait func(ctx context.Context) error
	// Claimed says why a file is not to be imported, or ""; nil: every file is.
	Claimed  func(path string) string
	Stdin    io.Reader           // for "-"
	Tell     func(notice.Notice) // of refused lines; nil: nobody
	Progress io.Writer           // a bar or lines go here; nil: none
	Terminal bool                // Progress is a terminal
	Logger   *slog.Logger
}

// Import imports the logs and returns when all of them are durable downstream. Bad lines, and files that cannot be read or
// are no logs, do not stop it; they are in the summary. The summary is valid, for what was done, with an error too. A
// cancelled ctx stops it soon; running it again completes it.
func Import(ctx context.Context, o Options, d Deps) (*Summary, error) {
	if o.MaxBad <= 0 {
		o.MaxBad = 10000
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Gap <= 0 {
		o.Gap = time.Hour
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if !o.DryRun && (d.Sink == nil || d.Ledger == nil) {
		return nil, errors.New("import needs a sink and a ledger")
	}
	im := &importer{o: o, d: d, known: map[Sum][]*Entry{}, sum: newSummary(o), begun: time.Now()}
	if o.Format != "" {
		f, err := accesslog.Resolve(o.Format)
		if err != nil {
			return nil, fmt.Errorf("format: %w", err)
		}
		im.format = f
	}
	sources, err := expand(o.Paths)
	if err != nil {
		return nil, err
	}
	bad, err := openBadLog(o.BadFile, o.MaxBad)
	if err != nil {
		return nil, err
	}
	im.bad = bad
	err = im.run(ctx, sources)
	im.sum.finish(time.Since(im.begun), o.Gap)
	if cerr := bad.close(); err == nil {
		err = cerr
	}
	return im.sum, err
}

// run imports the files and waits for what they gave.
func (im *importer) run(ctx context.Context, sources []source) error {
	pool, stop := newPool(ctx, im.o)
	im.pool = pool
	defer stop()
	var total int64
	for _, s := range sources {
		total += s.size
	}
	im.progress = newProgress(im.d.Progress, im.d.Terminal, total)
	defer im.progress.close()
	for _, s := range sources {
		if err := im.file(ctx, s); err != nil {
			return errors.Join(err, im.settle(context.WithoutCancel(ctx), false))
		}
	}
	if im.o.DryRun {
		return nil
	}
	im.progress.phase("waiting for the store")
	if err := im.settle(ctx, true); err != nil {
		return err
	}
	if im.d.Wait != nil {
		if err := im.d.Wait(ctx); err != nil {
			return fmt.Errorf("wait for acknowledgement: %w", err)
		}
	}
	return nil
}
