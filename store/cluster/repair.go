package cluster

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/clickhouse"
)

// made is a table as one server has it.
type made struct{ name, engine, create string }

// repair makes on each live server the tables that it lacks, as another one has them, ids included, and looks for views whose
// ids differ.
func (db *DB) repair(ctx context.Context, a *Applied, note Note) error {
	tables := map[string][]made{}
	var order []string
	err := db.eachServer(ctx, func(_ int, addr string, one *clickhouse.DB) error {
		list, err := db.tablesOf(ctx, one)
		var e *store.Error
		if err != nil && !errors.As(err, &e) {
			return nil //nolint:nilerr // it is dead, and was told of
		}
		tables[addr] = list
		order = append(order, addr)
		return err
	})
	if err != nil {
		return err
	}
	best := ""
	for _, addr := range order {
		if best == "" || len(tables[addr]) > len(tables[best]) {
			best = addr
		}
	}
	var wrong []error
	err = db.eachServer(ctx, func(_ int, addr string, one *clickhouse.DB) error {
		if _, alive := tables[addr]; !alive {
			return nil
		}
		has := map[string]made{}
		for _, t := range tables[addr] {
			has[t.name] = t
		}
		for _, t := range tables[best] {
			own, ok := has[t.name]
			if !ok {
				note("%s lacks %s: making it", addr, t.name)
				if err := one.Exec(ctx, store.Query{SQL: t.again(), Priority: store.Background}); err != nil {
					return fmt.Errorf("make %s: %w", t.name, err)
				}
				a.Repaired = append(a.Repaired, addr+" "+t.name)
				continue
			}
			switch {
			case t.engine == "MaterializedView" && own.id() != t.id():
				wrong = append(wrong, fmt.Errorf("%s: view %s has another id than on %s: where the token of an insert is made with it, one that is repeated on another replica counts twice; "+
					"drop the view there with SYNC and apply again", addr, t.name, best))
			case !strings.HasPrefix(t.engine, "Replicated") && own.text() != t.text():
				wrong = append(wrong, fmt.Errorf("%s: %s is not what it is on %s; find out which is right, drop the other, which holds no rows, with SYNC, and apply again", addr, t.name, best))
			}
		}
		return nil
	})
	return errors.Join(append([]error{err}, wrong...)...)
}

var uuid = regexp.MustCompile(` UUID '[0-9a-f-]+'`)

// id is the table's own.
func (t made) id() string { return uuid.FindString(t.create) }

// text is what two servers' tables have in common; replicated ones keep that up themselves.
func (t made) text() string { return uuid.ReplaceAllString(t.create, "") }

// again gives the statement that makes the table on another server.
func (t made) again() string {
	for _, what := range []string{"CREATE TABLE ", "CREATE MATERIALIZED VIEW "} {
		if rest, ok := strings.CutPrefix(t.create, what); ok {
			return what + "IF NOT EXISTS " + rest
		}
	}
	return t.create
}

// tablesOf gives the tables of a server, those that others read or write first.
func (db *DB) tablesOf(ctx context.Context, one *clickhouse.DB) ([]made, error) {
	rows, err := texts(ctx, one, `SELECT name, engine, create_table_query FROM system.tables
WHERE database = {database:String} AND name NOT LIKE '.inner%' ORDER BY engine = 'MaterializedView', engine = 'Distributed', name
SETTINGS show_table_uuid_in_table_create_query_if_not_nil = 1`, map[string]string{"database": store.Text(db.server.Database)})
	if err != nil {
		return nil, err
	}
	list := make([]made, 0, len(rows))
	for _, r := range rows {
		list = append(list, made{r[0], r[1], r[2]})
	}
	return list, nil
}

// oneLine is the beginning of a statement for people.
func oneLine(sql string) string {
	s := strings.Join(strings.Fields(sql), " ")
	if len(s) > 120 {
		s = s[:117] + "..."
	}
	return s
}
