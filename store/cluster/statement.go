package cluster

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spate-io/spate/store"
)

// rewriter turns the statements for one server into those for a cluster. A sharded table NAME becomes a replicated table
// NAME_local on each server and a distributed table NAME over all of them, so that queries stay as they are; views read and
// write the local tables. Names get the database, so that a statement means the same wherever it is run.
type rewriter struct{ cluster, database, keeper string }

var (
	createTable  = regexp.MustCompile(`(?s)^CREATE TABLE (IF NOT EXISTS )?(\w+) \(\s?(.*)\) ENGINE = (\w+)(?:\(([^()]*)\))?(\s.*)?$`)
	createView   = regexp.MustCompile(`(?s)^CREATE MATERIALIZED VIEW (IF NOT EXISTS )?(\w+) TO (\w+) AS\s+(SELECT\s.*)$`)
	insertInto   = regexp.MustCompile(`^INSERT INTO \w+\b`)
	fromTable    = regexp.MustCompile(`\bFROM (\w+)\b`)
	alterTable   = regexp.MustCompile("(?s)^ALTER TABLE `?(\\w+)`? (.*)$")
	alterColumn  = regexp.MustCompile(`^(ADD|DROP|MODIFY|RENAME|COMMENT) COLUMN\b`)
	modifyQuery  = regexp.MustCompile(`(?s)^MODIFY QUERY\s`)
	dropThing    = regexp.MustCompile("^(DROP|TRUNCATE) (TABLE|VIEW) (IF EXISTS )?`?(\\w+)`?( SYNC)?$")
	dedupSetting = regexp.MustCompile(`\bnon_replicated_deduplication_window = (\d+)`)
)

// tokenDays is for how long a table remembers the tokens of inserts: a loader that comes back later than that with an insert
// that was half done stores it twice. The engine's own is an hour.
const tokenDays = 30

// dedup gives the setting of a table that remembers tokens in its replicated form.
func dedup(s string) string {
	return dedupSetting.ReplaceAllString(s, fmt.Sprintf("replicated_deduplication_window = $1, replicated_deduplication_window_seconds = %d", tokenDays*86400))
}

// statement gives what is run on a cluster in place of a statement for one server. One that it does not understand is an
// error: run on one server alone it would leave the servers unequal. Statements that concern rows, not tables, stay as they
// are, but for the order to wait for all shards.
func (w *rewriter) statement(sql string) ([]string, error) {
	sql = strings.TrimSuffix(strings.TrimSpace(withoutComments(sql)), ";")
	word, _, _ := strings.Cut(sql, " ")
	switch strings.ToUpper(word) {
	case "CREATE":
		if m := createTable.FindStringSubmatch(sql); m != nil {
			return w.table(m)
		}
		if m := createView.FindStringSubmatch(sql); m != nil {
			return []string{w.view(m)}, nil
		}
	case "ALTER":
		if m := alterTable.FindStringSubmatch(sql); m != nil {
			return w.alter(m[1], m[2]), nil
		}
	case "DROP", "TRUNCATE":
		if m := dropThing.FindStringSubmatch(sql); m != nil {
			return w.drop(m), nil
		}
	case "INSERT":
		return []string{insertInto.ReplaceAllStringFunc(sql, func(s string) string {
			return "INSERT INTO " + w.name(strings.TrimPrefix(s, "INSERT INTO "))
		})}, nil
	case "SELECT", "WITH", "EXPLAIN", "SHOW", "DESCRIBE", "KILL":
		return []string{sql}, nil
	}
	if sql == "" {
		return nil, errors.New("no statement")
	}
	return nil, fmt.Errorf("no form for a cluster is known of %.80q", sql)
}

// withoutComments removes the lines before a statement that are comments.
func withoutComments(sql string) string {
	for {
		sql = strings.TrimSpace(sql)
		if !strings.HasPrefix(sql, "--") {
			return sql
		}
		_, sql, _ = strings.Cut(sql, "\n")
	}
}

func (w *rewriter) on() string { return " ON CLUSTER " + store.Ident(w.cluster) }

// name gives a table's name with its database.
func (w *rewriter) name(table string) string {
	return store.Ident(w.database) + "." + store.Ident(table)
}

// createDatabase makes the database on all servers. Its kind gives tables an id that is the same on all of them, which the
// tokens of inserts through views are made with.
func (w *rewriter) createDatabase() string {
	return "CREATE DATABASE IF NOT EXISTS " + store.Ident(w.database) + w.on() + " ENGINE = Atomic"
}

// table gives the statements for CREATE TABLE; m is what createTable matched.
func (w *rewriter) table(m []string) ([]string, error) {
	exists, name, columns, engine, args, rest := m[1], m[2], m[3], m[4], m[5], m[6]
	at := placeOf(name)
	create := "CREATE TABLE " + exists + w.name(local(name)) + w.on() + " (\n" + columns + ") ENGINE = "
	if engine == "Null" {
		return []string{create + "Null" + rest}, nil
	}
	if !strings.HasSuffix(engine, "MergeTree") || strings.HasPrefix(engine, "Replicated") {
		return nil, fmt.Errorf("table %s: no form for a cluster is known of engine %s", name, engine)
	}
	path, replica := w.keeper+"/{shard}/"+w.database+"/"+local(name), "{replica}"
	if at.column == "" {
		path, replica = w.keeper+"/all/"+w.database+"/"+name, "{shard}-{replica}"
	}
	all := []string{store.Quote(path), store.Quote(replica)}
	if args != "" {
		all = append(all, args)
	}
	out := []string{create + "Replicated" + engine + "(" + strings.Join(all, ", ") + ")" + dedup(rest)}
	if at.column != "" && !at.passing {
		out = append(out, "CREATE TABLE "+exists+w.name(name)+w.on()+" AS "+w.name(local(name))+" ENGINE = Distributed("+
			strings.Join([]string{store.Quote(w.cluster), store.Quote(w.database), store.Quote(local(name)), at.key()}, ", ")+")")
	}
	return out, nil
}

// view gives the statement for CREATE MATERIALIZED VIEW: from local tables to a local table.
func (w *rewriter) view(m []string) string {
	return "CREATE MATERIALIZED VIEW " + m[1] + w.name(m[2]) + w.on() + " TO " + w.name(local(m[3])) + " AS\n" + w.localise(m[4])
}

// localise makes a view's query read local tables.
func (w *rewriter) localise(query string) string {
	return fromTable.ReplaceAllStringFunc(query, func(s string) string {
		return "FROM " + w.name(local(strings.TrimPrefix(s, "FROM ")))
	})
}

// alter gives the statements for ALTER TABLE. Columns change in the distributed table too: after the local ones when it
// could not answer earlier, before them when it could not answer later.
func (w *rewriter) alter(table, what string) []string {
	what = dedup(what)
	if base, isView := strings.CutSuffix(table, "_mv"); isView && modifyQuery.MatchString(what) && placeOf(base).column != "" {
		return []string{"ALTER TABLE " + w.name(table) + w.on() + " " + w.localise(what)}
	}
	here := "ALTER TABLE " + w.name(local(table)) + w.on() + " " + what
	kind := alterColumn.FindStringSubmatch(what)
	if kind == nil || local(table) == table || placeOf(table).passing {
		return []string{here}
	}
	over := "ALTER TABLE " + w.name(table) + w.on() + " " + withoutCodec(what)
	if kind[1] == "DROP" {
		return []string{over, here}
	}
	return []string{here, over}
}

var codec = regexp.MustCompile(`\s+CODEC\((?:[^()]|\([^()]*\))*\)`)

// withoutCodec takes out how a column is packed, which a distributed table has no say in.
func withoutCodec(what string) string { return codec.ReplaceAllString(what, "") }

// drop gives the statements for DROP and TRUNCATE; m is what dropThing matched.
func (w *rewriter) drop(m []string) []string {
	verb, what, exists, table, sync := m[1], m[2], m[3], m[4], m[5]
	if what == "VIEW" || strings.HasSuffix(table, "_mv") || local(table) == table {
		return []string{verb + " " + what + " " + exists + w.name(table) + w.on() + sync}
	}
	here := verb + " " + what + " " + exists + w.name(local(table)) + w.on() + sync
	if verb == "TRUNCATE" || placeOf(table).passing {
		return []string{here}
	}
	return []string{verb + " " + what + " " + exists + w.name(table) + w.on() + sync, here}
}
