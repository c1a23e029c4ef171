package tops

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

const (
	// rowsAtOnce is how many rows of a rollup are compared with lists at a time; so many zones are taken together. It
	// bounds the memory of the engine and of this process, however many zones there are. A zone is never divided.
	rowsAtOnce = 100_000
	// sharesAtOnce is how many zones' hours one statement is about at most: their names go into it as parameters.
	sharesAtOnce = 5000
	// areaAtOnce bounds zones times steps from the first to the last: so much of the raw table a statement has to look
	// through for what it is about. It does not bound those about few zones.
	areaAtOnce, fewZones = 4 * sharesAtOnce, 8
)

// share is an hour or day of one zone.
type share struct {
	zone     string
	at       uint32 // seconds since 1970
	requests uint64 // in the rollup
}

// place is the key of a share.
type place struct {
	zone string
	at   uint32
}

// span says what a look is about: what has been added to since a day, of the times from since until over.
type span struct {
	stored, since, over time.Time
}

// zones is a piece of all zones in their order: those behind after, up to upto.
type zones struct{ after, upto string }

// touched is the condition for rows of a rollup that a span is about.
const touched = "stored_on >= toDate({stored:UInt32}) AND time >= toDateTime({since:UInt32}, 'UTC') AND time < toDateTime({over:UInt32}, 'UTC')"

func (s span) params() map[string]string {
	seconds := func(t time.Time) string { return strconv.FormatInt(max(t.Unix(), 0), 10) }
	return map[string]string{"stored": seconds(s.stored), "since": seconds(s.since), "over": seconds(s.over)}
}

// pieces cuts the zones that have rows in the span into pieces of about rowsAtOnce rows.
func (m *Maker) pieces(ctx context.Context, l schema.TopLevel, s span) ([]zones, error) {
	settings := m.settings()
	settings["optimize_aggregation_in_order"] = "1" // zones come one after the other, so that none is kept
	q := store.Query{
		SQL:    "SELECT CAST(zone_id, 'String') AS zone, count() AS n FROM " + l.Rollup + " WHERE " + touched + " GROUP BY zone_id ORDER BY zone_id",
		Params: s.params(), Settings: settings, Priority: store.Background,
	}
	var name proto.ColStr
	var n proto.ColUInt64
	var list []zones
	var last string
	sum := uint64(0)
	_, err := m.db.Select(ctx, q, proto.Results{{Name: "zone", Data: &name}, {Name: "n", Data: &n}}, func(_ context.Context, rows int) error {
		for i := range rows {
			if sum > 0 && sum+n.Row(i) > m.rows {
				list, sum = append(list, zones{upto: last}), 0
			}
			last = strings.Clone(name.Row(i))
			sum += n.Row(i)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for zones: %w", err)
	}
	if sum > 0 {
		list = append(list, zones{upto: last})
	}
	for i := 1; i < len(list); i++ {
		list[i].after = list[i-1].upto
	}
	return list, nil
}

// missing gives what lacks lists in a piece of the zones, the newest first: the rollup has more requests than the lists.
func (m *Maker) missing(ctx context.Context, l schema.TopLevel, s span, z zones) ([]share, error) {
	const piece = "zone_id > {after:String} AND zone_id <= {upto:String}"
	these := piece + " AND (zone_id, time) IN (SELECT zone_id, time FROM " + l.Rollup + " WHERE " + piece + " AND " + touched + ")"
	sql := "SELECT CAST(zone_id, 'String') AS zone, toUInt32(time) AS at, toUInt64(sum(r)) AS n FROM (" +
		"SELECT zone_id, time, toUInt64(requests) AS r, toUInt64(0) AS l FROM " + l.Rollup + " WHERE " + these +
		" UNION ALL SELECT zone_id, time, toUInt64(0) AS r, requests AS l FROM " + l.Table + " WHERE dimension = {dimension:String} AND " + these +
		") GROUP BY zone_id, time HAVING n > max(l) AND n >= {least:UInt64} ORDER BY at DESC, zone"
	params := s.params()
	params["after"], params["upto"], params["dimension"] = store.Text(z.after), store.Text(z.upto), schema.TopSeen
	params["least"] = strconv.FormatUint(m.least(l), 10)
	var zone proto.ColStr
	var at proto.ColUInt32
	var n proto.ColUInt64
	var list []share
	_, err := m.db.Select(ctx, store.Query{SQL: sql, Params: params, Settings: m.settings(), Priority: store.Background},
		proto.Results{{Name: "zone", Data: &zone}, {Name: "at", Data: &at}, {Name: "n", Data: &n}}, func(_ context.Context, rows int) error {
			for i := range rows {
				list = append(list, share{strings.Clone(zone.Row(i)), at.Row(i), n.Row(i)})
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("look for zones without lists: %w", err)
	}
	return list, nil
}

// least is how many requests an hour or day of a zone must have to be given lists.
func (m *Maker) least(l schema.TopLevel) uint64 {
	if l.Step == time.Hour {
		return m.cfg.HourRequests
	}
	return 1
}

// batches cuts the list into pieces of which each is about a bounded number of requests, of zones' hours, and of what
// has to be looked through.
func batches(list []share, step time.Duration, requests uint64) [][]share {
	var out [][]share
	seen := map[string]bool{}
	from, sum := 0, uint64(0)
	var low, high uint32
	for i, s := range list {
		if i > from {
			names := len(seen)
			if !seen[s.zone] {
				names++
			}
			steps := int((max(high, s.at)-min(low, s.at))/uint32(step/time.Second)) + 1
			if sum+s.requests > requests || i-from == sharesAtOnce || names > fewZones && names*steps > areaAtOnce {
				out = append(out, list[from:i])
				from, sum = i, 0
				clear(seen)
			}
		}
		if i == from {
			low, high = s.at, s.at
		}
		low, high, sum, seen[s.zone] = min(low, s.at), max(high, s.at), sum+s.requests, true
	}
	if from < len(list) {
		out = append(out, list[from:])
	}
	return out
}

// statement gives what writes lists of a batch, by a statement of package schema.
func (m *Maker) statement(sql string, l schema.TopLevel, b []share) store.Query {
	var names, pairs []string
	first, last := b[0].at, b[0].at
	for _, s := range b {
		name := store.Quote(s.zone)
		names = append(names, name)
		pairs = append(pairs, fmt.Sprintf("(%s,%d)", name, s.at))
		first, last = min(first, s.at), max(last, s.at)
	}
	slices.SortFunc(names, cmp.Compare)
	names = slices.Compact(names)
	settings := m.settings()
	settings["max_insert_threads"] = "1"
	settings["max_partitions_per_insert_block"] = "0"
	return store.Query{
		SQL: sql, Settings: settings, Priority: store.Background,
		Params: map[string]string{
			"zones": "[" + strings.Join(names, ",") + "]", "pairs": "[" + strings.Join(pairs, ",") + "]",
			"since": strconv.FormatUint(uint64(first), 10), "until": strconv.FormatInt(int64(last)+int64(l.Step/time.Second), 10),
		},
	}
}

// settings keep the work in the background: one thread, bounded memory, and groups and sorting on disk when there are too many.
func (m *Maker) settings() map[string]string {
	return map[string]string{
		"max_threads": "1", "max_memory_usage": strconv.FormatUint(uint64(m.cfg.Memory), 10),
		"max_bytes_before_external_group_by": strconv.FormatUint(uint64(m.cfg.Memory)/3, 10),
		"max_bytes_before_external_sort":     strconv.FormatUint(uint64(m.cfg.Memory)/3, 10), "max_execution_time": "0",
	}
}
