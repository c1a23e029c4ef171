package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spate-io/spate/store"
)

// quorumTimeout is how long an insert waits for other replicas.
const quorumTimeout = 20 * time.Second

// Insert implements [store.DB]. The pieces go to their shards at the same time; an insert of which a shard did not take its
// piece has failed, and is brought to its end by repeating it with the same block and token.
func (db *DB) Insert(ctx context.Context, in store.Insert) error {
	in.Settings = db.insertSettings(in.Settings, in.Token)
	at := placeOf(in.Table)
	if at.column == "" {
		return db.all.Insert(ctx, in)
	}
	began := time.Now()
	blocks, err := Cut(in.Block, at.column, len(db.shards))
	if err != nil {
		return fmt.Errorf("insert into %s: %w", in.Table, err)
	}
	db.metrics.cut.Observe(time.Since(began).Seconds())
	return db.insertPieces(ctx, in, blocks)
}

func (db *DB) insertSettings(given map[string]string, token string) map[string]string {
	m := map[string]string{}
	if quorum := db.cfg.quorum(); quorum > 1 {
		m["insert_quorum"] = strconv.Itoa(quorum)
		m["insert_quorum_parallel"] = "1"
		m["insert_quorum_timeout"] = strconv.FormatInt(quorumTimeout.Milliseconds(), 10)
	}
	if token == "" {
		m["insert_deduplicate"] = "0" // replicated tables take equal rows for a repetition
	}
	maps.Copy(m, given)
	return m
}

func (db *DB) insertPieces(ctx context.Context, in store.Insert, blocks [][]byte) error {
	name := in.Table + "\x00" + in.Token
	in.Table = local(in.Table)
	errs := make([]error, len(blocks))
	var wg sync.WaitGroup
	sent := 0
	for i, block := range blocks {
		if block == nil {
			continue
		}
		sent++
		if in.Token != "" && db.done.has(name, i) {
			db.metrics.pieces.WithLabelValues("known").Inc()
			continue
		}
		wg.Go(func() {
			piece := in
			piece.Block = block
			errs[i] = db.shards[i].Insert(ctx, piece)
			if errs[i] == nil && in.Token != "" {
				db.done.add(name, i)
			}
		})
	}
	wg.Wait()
	return db.outcome(ctx, name, sent, errs)
}

// outcome makes one error of those of the shards.
func (db *DB) outcome(ctx context.Context, name string, sent int, errs []error) error {
	var failed []error
	for i, err := range errs {
		if err != nil {
			failed = append(failed, fmt.Errorf("shard %d: %w", i+1, err))
		}
	}
	db.metrics.pieces.WithLabelValues("stored").Add(float64(sent - len(failed)))
	db.metrics.pieces.WithLabelValues("failed").Add(float64(len(failed)))
	if len(failed) == 0 {
		db.done.forget(name)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := errors.Join(failed...)
	if sent == 1 || len(failed) == sent && sameRefusal(failed) {
		return err
	}
	return &PartlyError{Failed: len(failed), Pieces: sent, text: err.Error()}
}

// PartlyError says that some shards have their piece of an insert, or may have it, and others do not. It does not unwrap to
// what the engine said: a block that one shard refuses and another has stored is not wrong in itself, and must be repeated as
// it is, never cut otherwise.
type PartlyError struct {
	// Failed of Pieces are not known to be stored.
	Failed, Pieces int
	text           string
}

// It is retriable as a net.Error is.
var _ net.Error = (*PartlyError)(nil)

// Error names the shards.
func (e *PartlyError) Error() string {
	return fmt.Sprintf("insert is not complete, %d of %d shards failed: %s", e.Failed, e.Pieces, e.text)
}

// Timeout implements [net.Error].
func (*PartlyError) Timeout() bool { return true }

// Temporary implements [net.Error].
func (*PartlyError) Temporary() bool { return true }

// sameRefusal says that all shards refused their piece with the same words of the engine.
func sameRefusal(errs []error) bool {
	first := 0
	for _, err := range errs {
		var e *store.Error
		if !errors.As(err, &e) || first != 0 && e.Code != first {
			return false
		}
		first = e.Code
	}
	return true
}

// maxProgress bounds the inserts that are remembered as half done.
const maxProgress = 4096

// progress remembers which shards have their piece of inserts that are not complete, so that repeating one does not depend
// on the shard still knowing its token.
type progress struct {
	mu    sync.Mutex
	known map[string][]int
	order []string
}

func newProgress() *progress { return &progress{known: map[string][]int{}} }

func (p *progress) has(name string, shard int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.known[name], shard)
}

func (p *progress) add(name string, shard int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.known[name]; !ok {
		if len(p.order) >= maxProgress {
			delete(p.known, p.order[0])
			p.order = p.order[1:]
		}
		p.order = append(p.order, name)
	}
	p.known[name] = append(p.known[name], shard)
}

func (p *progress) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, name)
	if i := slices.Index(p.order, name); i >= 0 {
		p.order = slices.Delete(p.order, i, i+1)
	}
}
