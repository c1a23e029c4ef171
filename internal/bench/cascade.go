package bench

import (
	"context"
	"fmt"
	"strings"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// hourFlow is the table through which a history's hours go while it is made.
const hourFlow = "bench_flow"

// split takes the rollups of hours off those of minutes and feeds them from hourFlow, which takes the same blocks as the
// flow table. A history comes in blocks of whole hours of a zone, so its hours can be put in once, and not as the sixty
// minutes that they consist of: the tables end up the same in a fraction of the time. join undoes it.
func (s *Store) split(ctx context.Context) error {
	flow, err := s.ask(ctx, "SELECT create_table_query FROM system.tables WHERE database = currentDatabase() AND name = '"+schema.HTTPFlow+"' FORMAT TSVRaw")
	if err != nil {
		return err
	}
	statements := []string{strings.Replace(strings.Join(flow, "\t"), schema.HTTPFlow, hourFlow, 1)}
	for _, t := range [][2]string{{schema.HTTPMinute, schema.HTTPHour}, {schema.ColoMinute, schema.ColoHour}} {
		view, err := s.ask(ctx, "SELECT create_table_query FROM system.tables WHERE database = currentDatabase() AND name = '"+t[0]+"_mv' FORMAT TSVRaw")
		if err != nil {
			return err
		}
		sql := strings.NewReplacer(t[0]+"_mv", "bench_"+t[1], t[0], t[1], schema.HTTPFlow, hourFlow).Replace(strings.Join(view, "\t"))
		statements = append(statements, sql, "DETACH TABLE "+t[1]+"_mv")
	}
	return s.execAll(ctx, statements)
}

// join makes the tables feed one another as they should.
func (s *Store) join(ctx context.Context) error {
	var statements []string
	for _, hour := range []string{schema.HTTPHour, schema.ColoHour} {
		statements = append(statements, "DROP TABLE IF EXISTS bench_"+hour, "ATTACH TABLE "+hour+"_mv")
	}
	return s.execAll(ctx, append(statements, "DROP TABLE IF EXISTS "+hourFlow))
}

func (s *Store) execAll(ctx context.Context, list []string) error {
	for _, sql := range list {
		if err := s.db.Exec(ctx, store.Query{SQL: sql, Priority: store.Background}); err != nil {
			return fmt.Errorf("%.60s: %w", sql, err)
		}
	}
	return nil
}
