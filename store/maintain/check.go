package maintain

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb"
	"github.com/spate-io/spate/store/schema"
)

// CheckOptions say what a check looks at.
type CheckOptions struct {
	// Quick leaves out reading every part.
	Quick bool `json:"quick"`
	// Retention is what the store is configured to keep: what is older may be in a rollup alone.
	Retention schema.Retention `json:"retention"`
}

// Finding is one thing that is wrong.
type Finding struct {
	Table string `json:"table,omitempty"`
	Part  string `json:"part,omitempty"`
	What  string `json:"what"`
}

// CheckResult is what a check saw.
type CheckResult struct {
	Schema   uint32    `json:"schema"`
	Tables   int       `json:"tables"`
	Parts    int       `json:"parts"`
	Rows     uint64    `json:"rows"`
	Bytes    uint64    `json:"bytes"`
	FreeDisk uint64    `json:"free_disk"` // bytes
	Days     int       `json:"days"`      // of rollups that were compared
	Findings []Finding `json:"findings"`
}

// holder is what an embedded store has to compare tables as of one moment.
type holder interface {
	Hold(ctx context.Context) (release func(), err error)
}

// Check reads every part and compares it with its checksums, compares each rollup with the table it is fed from, and looks
// for what does not belong. It changes nothing; ingest may go on. Faults are findings; an error is that it could not look.
func Check(ctx context.Context, db store.DB, o CheckOptions, note Note) (*CheckResult, error) {
	r := &CheckResult{Findings: []Finding{}}
	var err error
	if r.Schema, err = schema.Version(ctx, db); err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	if known, err := schema.Latest(); err != nil {
		return nil, err
	} else if r.Schema != known {
		r.find("", "", "the tables have version %d, this program has %d", r.Schema, known)
	}
	list, err := tables(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	r.Tables = len(list)
	if err := r.sizes(ctx, db); err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	if !o.Quick {
		if err := r.read(ctx, db, list, note); err != nil {
			return nil, fmt.Errorf("check %w", err)
		}
	}
	note("comparing rollups")
	for _, l := range schema.Levels(o.Retention) {
		if err := r.compare(ctx, db, l); err != nil {
			return nil, fmt.Errorf("check %s against %s: %w", l.Table, l.From, err)
		}
	}
	if err := r.strays(ctx, db); err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	return r, nil
}

func (r *CheckResult) find(table, part, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Table: table, Part: part, What: fmt.Sprintf(format, args...)})
}

func (r *CheckResult) sizes(ctx context.Context, db store.DB) error {
	var err error
	if r.Rows, err = number(ctx, db, "SELECT sum(rows) FROM "+system(db, "parts")+" AND active", nil); err != nil {
		return err
	}
	if r.Bytes, err = number(ctx, db, "SELECT sum(bytes_on_disk) FROM "+system(db, "parts")+" AND active", nil); err != nil {
		return err
	}
	r.FreeDisk, err = number(ctx, db, "SELECT min(unreserved_space) FROM system.disks", nil)
	if e, ok := db.(Engine); ok {
		var st unix.Statfs_t
		if err = unix.Statfs(e.Path(), &st); err != nil {
			return fmt.Errorf("free disk: %w", err)
		}
		r.FreeDisk = st.Bavail * uint64(st.Bsize)
	}
	if err == nil && r.FreeDisk < max(r.Bytes/10, 256<<20) {
		r.find("", "", "only %d MiB of disk are free: merges need room", r.FreeDisk>>20)
	}
	return err
}

// read compares the parts of all tables with their checksums, on every server.
func (r *CheckResult) read(ctx context.Context, db store.DB, list []table, note Note) error {
	if many, ok := db.(Servers); ok {
		return many.Each(ctx, func(addr string, one store.DB) error {
			note("reading %s", addr)
			return r.read(ctx, one, list, note)
		})
	}
	for _, t := range list {
		note("reading %s", t.name)
		if err := r.parts(ctx, db, t.name); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// parts compares all parts of a table with their checksums.
func (r *CheckResult) parts(ctx context.Context, db store.DB, table string) error {
	rows, err := texts(ctx, db, "CHECK TABLE "+store.Ident(table)+" SETTINGS check_query_single_value_result = 0", nil)
	var e *store.Error
	if errors.As(err, &e) && !e.Retriable() { // some damage ends the reading of the table
		r.find(table, "", "%s", oneLine(e.Error()))
		return nil
	}
	if err != nil {
		return err
	}
	for _, row := range rows {
		if len(row) < 3 {
			return fmt.Errorf("the engine answers in a form that is not known here: %v", row)
		}
		r.Parts++
		if row[1] != "1" && row[1] != "true" {
			r.find(table, row[0], "%s", oneLine(row[2]))
		}
	}
	return nil
}

// oneLine cuts the engine's stack traces off.
func oneLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

// settleTries is how often a difference is looked at again before it is one: an insert reaches a table and its rollups in
// two steps.
const settleTries = 8

// compare counts a rollup against the table it is fed from, by day, or by month where the rollup knows no days.
func (r *CheckResult) compare(ctx context.Context, db store.DB, l schema.Level) error {
	days, err := differing(ctx, db, l, "")
	if err != nil {
		return err
	}
	r.Days += days.compared
	for try := 0; len(days.list) > 0 && try < settleTries; try++ {
		if days, err = again(ctx, db, l, days.list); err != nil {
			return err
		}
	}
	for _, d := range days.list {
		r.find(l.Table, "", "%s: %s requests, %s has %s", d[0], d[2], l.From, d[1])
	}
	return nil
}

// again compares some days with no insert under way, after a moment in which inserts may go on.
func again(ctx context.Context, db store.DB, l schema.Level, days [][]string) (differences, error) {
	select {
	case <-ctx.Done():
		return differences{}, ctx.Err()
	case <-time.After(150 * time.Millisecond):
	}
	if h, ok := db.(holder); ok {
		wait, cancel := context.WithTimeout(ctx, holdTimeout)
		defer cancel()
		release, err := h.Hold(wait)
		if err != nil {
			return differences{}, err
		}
		defer release()
	}
	quoted := make([]string, len(days))
	for i, d := range days {
		quoted[i] = store.Quote(d[0])
	}
	return differing(ctx, db, l, strings.Join(quoted, ", "))
}

// differences are days on which a rollup and its source do not agree: day, requests in the source, requests in the rollup.
type differences struct {
	list     [][]string
	compared int
}

// differing compares; days is a list of quoted days, or empty for all.
func differing(ctx context.Context, db store.DB, l schema.Level, days string) (differences, error) {
	only := func(expr string) string {
		if days == "" {
			return ""
		}
		return " WHERE " + expr + " IN (" + days + ")"
	}
	source := "SELECT " + l.FromDay + " AS d, toInt64(" + l.FromCount + ") AS n FROM " + store.Ident(l.From) + only("toString(d)") + " GROUP BY d"
	if l.From == schema.HTTPRequests {
		source += " UNION ALL SELECT day AS d, toInt64(sum(requests)) AS n FROM " + schema.Erasures + only("toString(d)") + " GROUP BY d"
	}
	// What is older than the source keeps may be in the rollup alone, never the other way round.
	sql := "SELECT toString(d), toString(sum(a)), toString(sum(b)) FROM (SELECT d, n AS a, 0 AS b FROM (" + source + ") UNION ALL SELECT " +
		l.Day + " AS d, 0 AS a, toInt64(sum(requests)) AS b FROM " + store.Ident(l.Table) + only("toString(d)") + " GROUP BY d) GROUP BY d HAVING "
	wrong := "(sum(a) > sum(b) OR sum(a) < sum(b) AND d >= toDate({since:String}))"
	params := map[string]string{"since": l.Since.Format(time.DateOnly)}
	rows, err := texts(ctx, db, sql+wrong+" ORDER BY d LIMIT 100", params)
	if err != nil || days != "" {
		return differences{list: rows}, err
	}
	n, err := number(ctx, db, "SELECT uniqExact(d) FROM ("+source+")", nil)
	return differences{list: rows, compared: int(n)}, err
}

// strays looks for parts that the engine set aside and for what backups and restores left.
func (r *CheckResult) strays(ctx context.Context, db store.DB) error {
	rows, err := texts(ctx, db, "SELECT table, name, coalesce(reason, '') FROM "+system(db, "detached_parts"), nil)
	if err != nil {
		return fmt.Errorf("list parts set aside: %w", err)
	}
	for _, row := range rows {
		r.find(row[0], row[1], "the engine set the part aside: %s", strings.TrimSpace(row[2]))
	}
	rows, err = texts(ctx, db, "SELECT table, command, latest_fail_reason FROM "+system(db, "mutations")+" AND NOT is_done AND latest_fail_reason != ''", nil)
	if err != nil {
		return fmt.Errorf("list changes: %w", err)
	}
	for _, row := range rows {
		r.find(row[0], "", "a change of stored rows fails: %s: %s", row[1], oneLine(row[2]))
	}
	e, ok := db.(Engine)
	if !ok {
		return nil
	}
	data := chdb.DataDir(e.Path())
	for _, pattern := range []string{data + ".restoring", data + ".before-*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, f := range found {
			r.find("", "", "%s is left from a restore: delete it when you no longer need it", f)
		}
	}
	return nil
}
