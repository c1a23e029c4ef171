package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// Target is what a store is to become.
type Target struct {
	// Cluster is the cluster; one without a name means a single server, for which statements stay as they are.
	Cluster Config
	// Database is where the tables are.
	Database string
	// Retention is how long rows are kept.
	Retention schema.Retention
}

// Plan gives the statements that make a store, of a version as it is now, what t says: from nothing with version 0. With db,
// which may be nil, what is there is read from it. Nothing is changed.
//
// [Apply] runs the same statements, since both record what the migrations and the rules of retention do.
func Plan(ctx context.Context, t Target, version uint32, db store.DB) ([]string, error) {
	rec := &recorder{db: db, version: version}
	var first []string
	if t.Cluster.Name != "" {
		w := t.rewriter()
		rec.rewrite = w
		if version == 0 {
			first = append(first, w.createDatabase())
			layout, err := layoutStatements(w, max(1, len(t.Cluster.Shards)))
			if err != nil {
				return nil, err
			}
			first = append(first, layout...)
		}
	}
	if err := schema.Migrate(ctx, rec); err != nil {
		return nil, err
	}
	if err := t.Retention.Apply(ctx, rec); err != nil {
		return nil, err
	}
	return append(first, rec.list...), nil
}

func (t Target) rewriter() *rewriter {
	return &rewriter{cluster: t.Cluster.Name, database: t.Database, keeper: t.Cluster.KeeperPath}
}

// recorder is a store that writes down what it should run.
type recorder struct {
	db      store.DB // read from; may be nil
	rewrite *rewriter
	version uint32
	list    []string
}

var _ store.DB = (*recorder)(nil)

// Exec implements [store.DB].
func (r *recorder) Exec(_ context.Context, q store.Query) error {
	if r.rewrite == nil {
		r.list = append(r.list, withoutComments(q.SQL))
		return nil
	}
	list, err := r.rewrite.statement(q.SQL)
	r.list = append(r.list, list...)
	return err
}

// Stream implements [store.DB].
func (r *recorder) Stream(context.Context, store.Query, io.Writer) (store.Stats, error) {
	return store.Stats{}, errRecorder
}

// Insert implements [store.DB].
func (r *recorder) Insert(context.Context, store.Insert) error { return errRecorder }

// Close implements [store.DB].
func (r *recorder) Close() error { return nil }

var errRecorder = errors.New("a plan neither streams nor inserts")

// Select implements [store.DB]: it knows the version; all else is as in the store, or not there.
func (r *recorder) Select(ctx context.Context, q store.Query, results proto.Results, onBlock func(context.Context, int) error) (store.Stats, error) {
	if len(results) == 1 && results[0].Name == "v" {
		v, ok := results[0].Data.(*proto.ColUInt32)
		if !ok {
			return store.Stats{}, fmt.Errorf("plan: unexpected question %q", q.SQL)
		}
		v.Append(r.version)
		return store.Stats{}, onBlock(ctx, 1)
	}
	if r.db == nil {
		return store.Stats{}, nil
	}
	stats, err := r.db.Select(ctx, q, results, onBlock)
	if store.IsCode(err, store.CodeUnknownTable) || store.IsCode(err, store.CodeUnknownDatabase) {
		return stats, nil
	}
	return stats, err
}
