// Package move copies what is in one store into another and proves that both have the same: every table, cut into pieces
// of an hour, a day or a month, each compared by its number of rows and a checksum of all columns. It may be cut off at any
// moment and run again, and the source may take in events meanwhile: what differs is copied anew, whatever the reason was
// (late events, rows that were erased, a copy that was cut off, damage in the target).
//
// Run does it all. Rows are put together in a table of their own and then attached to the one where they belong, because
// an insert there would be counted again by the views that feed the coarser rollups. The target must not be in use: what it
// has and this package did not put there, for which it keeps the table "moves" in the target, ends a move before it has
// changed anything. docs/adr/0009 says how a running Spate goes over to the target.
package move

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// Source is a store as a move reads it. Every store.DB is one, and so is maintain.Reader.
type Source interface {
	// Stream is as in store.DB; a call whose error is retriable is made again.
	Stream(ctx context.Context, q store.Query, w io.Writer) (store.Stats, error)
}

// Note is told how work goes on, a line at a time without a line's end, by one goroutine at a time.
type Note func(format string, args ...any)

// Options say how to move.
type Options struct {
	// Verify compares and changes nothing; DryRun says what would be copied and changes nothing.
	Verify, DryRun bool
	// Quick compares only what was added to the source, or was not yet equal, since the last comparison of this target.
	Quick bool
	// Overwrite deletes what the target has and the source has not, wherever it came from.
	Overwrite bool
	// Rate bounds the bytes that are read to be copied, per second; 0 is no bound.
	Rate int64
	// Retention is what the target keeps.
	Retention schema.Retention
	// BatchRows is about how many rows are put together before they are attached to their table, ChunkBytes how many bytes
	// are sent at once; 0 means the defaults.
	BatchRows  uint64
	ChunkBytes int
	// Sharded says that the sources are one server of each shard of a cluster, which is all of it.
	Sharded bool
	// Passes is how often what differs is copied, 0 for the default. More than one is of use while the source takes in
	// events.
	Passes int
	// Note is told how it goes on; nil: nobody.
	Note Note
}

// oneAtATime gives a note that any number of goroutines may call; of nil too.
func (n Note) oneAtATime() Note {
	if n == nil {
		return func(string, ...any) {}
	}
	var mu sync.Mutex
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		n(format, args...)
	}
}

const (
	defaultBatchRows  = 1_000_000
	defaultChunkBytes = 16 << 20
	defaultPasses     = 3
	// reportPieces is how many differing pieces of a table are named in a result.
	reportPieces = 20
)

// ErrForeign is part of the error of a move whose target has rows that no move put there.
var ErrForeign = errors.New("the target has rows that no move put there")

// Target is the store that is moved to.
type Target struct {
	// DB is the store as a whole: rules and tables for all servers are made there.
	DB store.DB
	// Servers are one server of each shard of a cluster, shard 1 first, each with the tables NAME_local; empty is a store that is one server.
	// They must be the same ones during a run: a copy is put together on a server and attached there.
	Servers []store.DB
}

// mover moves to one server.
type mover struct {
	srcs   []Source
	all    store.DB // the target as a whole
	dst    store.DB // the server of it
	shard  int      // which one, of so many
	shards int
	o      Options
	run    string // a name that no other run has
	today  time.Time
	bucket *rate.Limiter

	tables   []*table
	elements bool              // both engines can take a set of uniq apart
	claims   map[string]claims // by table
	state    map[string]map[string]*partition
	results  map[string]*TableResult
	staged   map[string]bool
	kept     bool // the target keeps rows as long as it is to
	inserts  int
	bytes    uint64
	said     time.Time
	ending   bool // nothing is tried again
}

// Run makes the target have what the source has: one server, or one of each shard of a cluster. The result is there also with an
// error that came late. What was copied stays when it is cut off; the next run goes on from there.
func Run(ctx context.Context, sources []Source, to Target, o Options) (*Result, error) {
	o.Note = o.Note.oneAtATime()
	if o.BatchRows == 0 {
		o.BatchRows = defaultBatchRows
	}
	if o.ChunkBytes == 0 {
		o.ChunkBytes = defaultChunkBytes
	}
	if o.Passes == 0 {
		o.Passes = defaultPasses
	}
	began := time.Now()
	var bucket *rate.Limiter
	if o.Rate > 0 {
		bucket = newBucket(o.Rate)
	}
	servers := to.Servers
	if len(servers) == 0 {
		servers = []store.DB{to.DB}
	}
	movers := make([]*mover, len(servers))
	for i, dst := range servers {
		movers[i] = &mover{
			srcs: sources, all: to.DB, dst: dst, shard: i, shards: len(servers), o: o, run: rand.Text(), today: began.UTC(), bucket: bucket,
			claims: map[string]claims{}, state: map[string]map[string]*partition{}, results: map[string]*TableResult{}, staged: map[string]bool{},
		}
	}
	err := each(movers, func(m *mover) error { return m.prepare(ctx) })
	if err == nil && len(movers) > 1 { // nothing is changed on one when another has rows of somebody else
		err = each(movers, func(m *mover) error { _, err := m.look(ctx); return err })
	}
	if err == nil {
		err = each(movers, func(m *mover) error { return m.passes(ctx) })
	}
	r := &Result{Equal: err == nil}
	for _, m := range movers {
		if !o.Verify && !o.DryRun {
			err = m.tidy(ctx, err)
		}
		r.add(m.result())
	}
	r.Elapsed = time.Since(began)
	return r, err
}

func each(movers []*mover, fn func(*mover) error) error {
	for i, m := range movers {
		if err := fn(m); err != nil && len(movers) > 1 {
			return fmt.Errorf("shard %d: %w", i+1, err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// tidyTimeout bounds how long a run that was cut off takes to leave nothing behind; what it leaves, the next one removes.
const tidyTimeout = 10 * time.Second

// tidy removes the tables beside the others at the end of a run with that error.
func (m *mover) tidy(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && store.Retriable(err) {
		return err // the target is away
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
	defer cancel()
	m.ending = true
	if terr := m.dropStaging(ctx); err == nil {
		err = terr
	}
	return err
}

// newBucket lets so many bytes a second through.
func newBucket(bytes int64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(bytes), int(min(bytes, 4<<20)))
}

// prepare looks at both stores and makes the target's tables.
func (m *mover) prepare(ctx context.Context) error {
	var err error
	if m.tables, err = describe(ctx, m.srcs[0]); err != nil {
		return fmt.Errorf("read the source: %w", err)
	}
	for _, t := range m.tables {
		if t.local && !m.o.Sharded {
			return fmt.Errorf("the source is one server of a cluster, it has %s: name the cluster, as store.cluster in the configuration", t.onServer())
		}
	}
	reads := m.o.Verify || m.o.DryRun
	if !reads {
		if err := m.dropStaging(ctx); err != nil { // of a run that was cut off
			return err
		}
		if m.shards == 1 && m.all == m.dst { // the tables of a cluster are made by its own command
			if err := schema.Migrate(ctx, m.dst); err != nil {
				return fmt.Errorf("make the tables of the target: %w", err)
			}
		}
		if err := m.all.Exec(ctx, store.Query{SQL: createMoves, Priority: store.Background}); err != nil {
			return fmt.Errorf("create %s: %w", movesTable, err)
		}
		if err := m.openClaims(ctx); err != nil {
			return err
		}
	}
	if !reads { // as far as the target knows zones: once they are copied, again
		if err := m.o.Retention.Apply(ctx, m.all); err != nil {
			return fmt.Errorf("set retention of the target: %w", err)
		}
	}
	if err := m.sameTables(ctx, !reads); err != nil {
		return err
	}
	if err := m.loadClaims(ctx); err != nil {
		return err
	}
	const probe = "SELECT reinterpret(unhex('0100000002000000'), 'Array(UInt32)')"
	m.elements = true
	for _, s := range append([]Source{m.dst}, m.srcs...) {
		var e *store.Error
		if _, err := m.ask(ctx, s, probe); errors.As(err, &e) && !e.Retriable() {
			m.elements = false
		} else if err != nil {
			return err
		}
	}
	for _, t := range m.tables {
		m.results[t.name] = &TableResult{Table: t.name}
		if m.state[t.name] == nil {
			m.state[t.name] = map[string]*partition{}
		}
	}
	return nil
}

// sameTables compares how tables are made; the target may lack some unless all must be there.
func (m *mover) sameTables(ctx context.Context, all bool) error {
	others, err := describe(ctx, m.dst)
	if err != nil && all {
		return fmt.Errorf("read the target: %w", err)
	}
	byName := map[string]*table{}
	for _, t := range others {
		byName[t.name] = t
	}
	if m.shard > 0 { // what is on all servers went to the first
		m.tables = slices.DeleteFunc(m.tables, func(t *table) bool { return byName[t.name] != nil && !byName[t.name].local })
	}
	for _, t := range m.tables {
		other := byName[t.name]
		if other == nil {
			if all {
				return fmt.Errorf("the target has no table %s, or not as one that can be moved to: are both stores of the same version?", t.name)
			}
			continue
		}
		if err := t.same(other); err != nil {
			return fmt.Errorf("%w: bring both to the same version first", err)
		}
		if other.local && m.shards == 1 && m.all == m.dst {
			return fmt.Errorf("the target is one server of a cluster, it has %s: name the cluster, as store.cluster in the target's configuration", other.onServer())
		}
		if t.dueTo != other.due && t.to != nil { // other rows count than were compared
			for _, p := range m.state[t.name] {
				p.known = false
			}
		}
		t.dueTo = other.due
		to := *t
		to.local, to.engine = other.local, other.engine
		t.to = &to
	}
	return nil
}

// passes compares and copies until nothing differs or the source is faster.
func (m *mover) passes(ctx context.Context) error {
	for pass := 0; ; pass++ {
		work, err := m.look(ctx)
		if err != nil || len(work) == 0 || m.o.Verify || m.o.DryRun || pass == m.o.Passes {
			return err
		}
		for _, t := range m.tables {
			if t.step != whole { // zones are there by now
				if err := m.keep(ctx); err != nil {
					return err
				}
			}
			if err := m.copy(ctx, t, work[t.name]); err != nil {
				return fmt.Errorf("copy %s: %w", t.name, err)
			}
		}
	}
}

// look compares all tables and gives what differs, by table. What no move put there is an error.
func (m *mover) look(ctx context.Context) (map[string][]diff, error) {
	work := map[string][]diff{}
	for _, t := range m.tables {
		list, err := m.compare(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("compare %s: %w", t.name, err)
		}
		if len(list) > 0 {
			work[t.name] = list
		}
	}
	if m.o.Verify || m.o.DryRun {
		return work, nil
	}
	return work, m.foreign(work)
}

// foreign gives an error when pieces that are to be copied have something in the target that no move put there.
func (m *mover) foreign(work map[string][]diff) error {
	if m.o.Overwrite {
		return nil
	}
	var found []string
	for _, t := range m.tables {
		for _, d := range work[t.name] {
			if !m.claims[t.name].covers(d) {
				found = append(found, fmt.Sprintf("%s of %s", t.label(d.piece), t.name))
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	more := ""
	if n := len(found) - 3; n > 0 {
		found, more = found[:3], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("%w: %s%s. If Spate has stored into the target already, the source is no longer what it was: do not move again. Else empty the target, or give --overwrite",
		ErrForeign, strings.Join(found, ", "), more)
}

// say tells how it goes on, every few seconds.
func (m *mover) say(format string, args ...any) {
	if time.Since(m.said) > 3*time.Second {
		m.said = time.Now()
		m.o.Note(format, args...)
	}
}
