package clickhouse

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/store"
)

// ClusterConfig is the `store.cluster` section.
type ClusterConfig struct {
	// Name is the cluster's, as in the servers' remote_servers; empty means a single server.
	Name string `yaml:"name"`
	// Copies and Shards are what the servers' configuration must have; [Cluster.Check] compares.
	Copies int `yaml:"copies"`
	Shards int `yaml:"shards"`
}

// DefaultClusterConfig is a single server.
func DefaultClusterConfig() ClusterConfig { return ClusterConfig{Copies: 3, Shards: 1} }

// Validate adds what is wrong with the section to p.
func (c *ClusterConfig) Validate(p *config.Problems) {
	p.Check(c.Name == "" || clusterName.MatchString(c.Name), "name", c.Name, "must be letters, digits, _ and -")
	p.Check(c.Copies >= 1 && c.Copies <= 100, "copies", c.Copies, "must be 1 to 100")
	p.Check(c.Shards >= 1 && c.Shards <= 10_000, "shards", c.Shards, "must be 1 to 10000")
}

var clusterName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Placement says where the rows of a table are.
type Placement struct {
	// Key is the expression that sends a row to its shard; empty means that every server has all rows.
	Key string
	// Passing tables hold no rows: there is one on each server, and nothing is read from it.
	Passing bool
}

// PlaceByZone is the placement of Spate's tables: what belongs to a zone is on the shard of the zone, so that a view finds
// all it needs there and a zone's question is answered by one shard; all else is small and everywhere.
func PlaceByZone(table string) Placement {
	switch {
	case strings.HasSuffix(table, "_flow"):
		return Placement{Key: "cityHash64(zone_id)", Passing: true}
	case table == "http_requests":
		return Placement{Key: "cityHash64(ZoneID)"}
	case strings.HasPrefix(table, "http_"):
		return Placement{Key: "cityHash64(zone_id)"}
	}
	return Placement{}
}

// Cluster turns the statements for one server into those for a cluster. A sharded table NAME becomes a replicated table
// NAME_local on each server and a distributed table NAME over all of them, so that queries and inserts stay as they are;
// views read and write the local tables. Servers need the macros {shard} and {replica}.
type Cluster struct {
	cfg   ClusterConfig
	place func(table string) Placement
}

// NewCluster makes one; place says where tables are, usually [PlaceByZone].
func NewCluster(cfg ClusterConfig, place func(table string) Placement) *Cluster {
	return &Cluster{cfg: cfg, place: place}
}

const localSuffix = "_local"

var (
	createTable  = regexp.MustCompile(`(?s)^CREATE TABLE (IF NOT EXISTS )?(\w+) \(\s?(.*)\) ENGINE = (\w+)(?:\(([^()]*)\))?(\s.*)?$`)
	createView   = regexp.MustCompile(`(?s)^CREATE MATERIALIZED VIEW (IF NOT EXISTS )?(\w+) TO (\w+) AS\s+(SELECT\s.*)$`)
	fromTable    = regexp.MustCompile(`\bFROM (\w+)\b`)
	alterTable   = regexp.MustCompile(`(?s)^ALTER TABLE (\w+) (.*)$`)
	alterColumn  = regexp.MustCompile(`^(ADD|DROP|MODIFY|RENAME|COMMENT) COLUMN\b`)
	modifyQuery  = regexp.MustCompile(`(?s)^MODIFY QUERY\s`)
	dropThing    = regexp.MustCompile(`^(DROP|TRUNCATE) (TABLE|VIEW) (IF EXISTS )?(\w+)( SYNC)?$`)
	dedupSetting = regexp.MustCompile(`\bnon_replicated_deduplication_window\b`)
)

// Statements gives the statements of a cluster for those of one server, in an order in which they can be run. A statement
// it does not understand is an error: run on one server alone it would leave the servers unequal.
func (c *Cluster) Statements(list []string) ([]string, error) {
	var out []string
	for i, sql := range list {
		more, err := c.Statement(sql)
		if err != nil {
			return nil, fmt.Errorf("statement %d: %w", i+1, err)
		}
		out = append(out, more...)
	}
	return out, nil
}

// Statement is [Cluster.Statements] for one. Statements that concern rows, not tables, stay as they are.
func (c *Cluster) Statement(sql string) ([]string, error) {
	sql = strings.TrimSuffix(strings.TrimSpace(sql), ";")
	word, _, _ := strings.Cut(sql, " ")
	switch strings.ToUpper(word) {
	case "CREATE":
		if m := createTable.FindStringSubmatch(sql); m != nil {
			return c.table(m)
		}
		if m := createView.FindStringSubmatch(sql); m != nil {
			return []string{c.view(m)}, nil
		}
	case "ALTER":
		if m := alterTable.FindStringSubmatch(sql); m != nil {
			return c.alter(m[1], m[2]), nil
		}
	case "DROP", "TRUNCATE":
		if m := dropThing.FindStringSubmatch(sql); m != nil {
			return c.drop(m), nil
		}
	case "INSERT", "SELECT", "WITH", "OPTIMIZE", "SYSTEM", "KILL":
		return []string{sql}, nil
	}
	return nil, fmt.Errorf("no form for a cluster is known of %.80q", sql)
}

func (c *Cluster) on() string { return " ON CLUSTER " + store.Ident(c.cfg.Name) }

// local gives the name that a table has on each server.
func (c *Cluster) local(table string) string {
	if c.place(table).Key != "" {
		return table + localSuffix
	}
	return table
}

// table gives the statements for CREATE TABLE; m is what createTable matched.
func (c *Cluster) table(m []string) ([]string, error) {
	exists, name, columns, engine, args, rest := m[1], m[2], m[3], m[4], m[5], m[6]
	place := c.place(name)
	local := c.local(name)
	create := "CREATE TABLE " + exists + local + c.on() + " (\n" + columns + ") ENGINE = "
	if engine == "Null" {
		return []string{create + "Null" + rest}, nil
	}
	if !strings.HasSuffix(engine, "MergeTree") || strings.HasPrefix(engine, "Replicated") {
		return nil, fmt.Errorf("table %s: no form for a cluster is known of engine %s", name, engine)
	}
	path, replica := "/clickhouse/tables/{shard}/{database}/"+local, "{replica}"
	if place.Key == "" {
		path, replica = "/clickhouse/tables/all/{database}/"+local, "{shard}-{replica}"
	}
	all := []string{store.Quote(path), store.Quote(replica)}
	if args != "" {
		all = append(all, args)
	}
	rest = dedupSetting.ReplaceAllString(rest, "replicated_deduplication_window")
	out := []string{create + "Replicated" + engine + "(" + strings.Join(all, ", ") + ")" + rest}
	if place.Key != "" && !place.Passing {
		out = append(out, "CREATE TABLE "+exists+name+c.on()+" AS "+local+
			" ENGINE = Distributed("+store.Quote(c.cfg.Name)+", currentDatabase(), "+store.Quote(local)+", "+place.Key+")")
	}
	return out, nil
}

// view gives the statement for CREATE MATERIALIZED VIEW: from local tables to a local table.
func (c *Cluster) view(m []string) string {
	return "CREATE MATERIALIZED VIEW " + m[1] + m[2] + c.on() + " TO " + c.local(m[3]) + " AS\n" + c.localise(m[4])
}

// localise makes a view's query read local tables.
func (c *Cluster) localise(query string) string {
	return fromTable.ReplaceAllStringFunc(query, func(s string) string {
		return "FROM " + c.local(strings.TrimPrefix(s, "FROM "))
	})
}

// alter gives the statements for ALTER TABLE. Columns change in the distributed table too: after the local ones when it
// could not answer earlier, before them when it could not answer later.
func (c *Cluster) alter(name, what string) []string {
	place := c.place(name)
	what = dedupSetting.ReplaceAllString(what, "replicated_deduplication_window")
	if base, isView := strings.CutSuffix(name, "_mv"); isView && modifyQuery.MatchString(what) && c.place(base).Key != "" {
		return []string{"ALTER TABLE " + name + c.on() + " " + c.localise(what)}
	}
	local := "ALTER TABLE " + c.local(name) + c.on() + " " + what
	kind := alterColumn.FindStringSubmatch(what)
	if kind == nil || place.Key == "" || place.Passing {
		return []string{local}
	}
	over := "ALTER TABLE " + name + c.on() + " " + what
	if kind[1] == "DROP" {
		return []string{over, local}
	}
	return []string{local, over}
}

// drop gives the statements for DROP and TRUNCATE; m is what dropThing matched.
func (c *Cluster) drop(m []string) []string {
	verb, what, exists, name, sync := m[1], m[2], m[3], m[4], m[5]
	place := c.place(name)
	if what == "VIEW" || strings.HasSuffix(name, "_mv") || place.Key == "" {
		return []string{verb + " " + what + " " + exists + name + c.on() + sync}
	}
	local := verb + " " + what + " " + exists + c.local(name) + c.on() + sync
	if verb == "TRUNCATE" || place.Passing {
		return []string{local}
	}
	return []string{verb + " " + what + " " + exists + name + c.on() + sync, local}
}

// Check compares the servers' configuration with this one's.
func (c *Cluster) Check(ctx context.Context, db store.DB) error {
	var shards, copies proto.ColUInt64
	found, least := uint64(0), uint64(0)
	_, err := db.Select(ctx, store.Query{
		SQL:    "SELECT count() AS shards, min(n) AS copies FROM (SELECT count() AS n FROM system.clusters WHERE cluster = {name:String} GROUP BY shard_num)",
		Params: map[string]string{"name": store.Text(c.cfg.Name)},
	}, proto.Results{{Name: "shards", Data: &shards}, {Name: "copies", Data: &copies}}, func(context.Context, int) error {
		found, least = shards.Row(0), copies.Row(0)
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("read clusters: %w", err)
	case found == 0:
		return fmt.Errorf("the servers know no cluster %q", c.cfg.Name)
	case found != uint64(c.cfg.Shards) || least < uint64(c.cfg.Copies):
		return fmt.Errorf("cluster %q has %d shards with at least %d copies, configured are %d and %d", c.cfg.Name, found, least, c.cfg.Shards, c.cfg.Copies)
	}
	return nil
}

// On gives db with every statement of Exec in the cluster's form. Closing it closes db.
func (c *Cluster) On(db store.DB) store.DB { return &clustered{DB: db, c: c} }

type clustered struct {
	store.DB
	c *Cluster
}

// Exec implements [store.DB].
func (d *clustered) Exec(ctx context.Context, q store.Query) error {
	list, err := d.c.Statement(q.SQL)
	if err != nil {
		return err
	}
	for _, sql := range list {
		q.SQL = sql
		if err := d.DB.Exec(ctx, q); err != nil {
			return err
		}
	}
	return nil
}
