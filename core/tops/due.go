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
	// timesAtOnce is for how many hours or days together it is asked which zones lack lists.
	timesAtOnce = 48
	// sharesAtOnce is how many zones' hours one statement is about at most: their names go into it as parameters.
	sharesAtOnce = 1000
)

// due is an hour or day of which some zone lacks lists.
type due struct {
	at      uint32 // seconds since 1970
	counted uint64 // requests of all zones in the rollup
}

// share is the part of an hour or day that belongs to one zone.
type share struct {
	zone     string
	at       uint32
	requests uint64
}

// marker is the dimension whose lists are written last.
func marker() string {
	all := schema.TopDimensions()
	return all[len(all)-1].Name
}

// due gives the times, newest first, that are over, to which something was added since the day of stored, and of which the
// rollup has more requests than the lists.
func (m *Maker) due(ctx context.Context, l schema.TopLevel, stored, over time.Time) ([]due, error) {
	touched := "SELECT time FROM " + l.Rollup + " WHERE stored_on >= toDate({stored:UInt32}) AND time < toDateTime({over:UInt32}, 'UTC') GROUP BY time"
	params := map[string]string{
		"stored": strconv.FormatInt(max(stored.Unix(), 0), 10), "over": strconv.FormatInt(over.Unix(), 10), "dimension": marker(),
	}
	counted, err := m.numbers(ctx, "SELECT toUInt32(time) AS at, toUInt64(sum(requests)) AS n FROM "+l.Rollup+" WHERE time IN ("+touched+") GROUP BY time", params)
	if err != nil {
		return nil, fmt.Errorf("count the rollup: %w", err)
	}
	listed, err := m.numbers(ctx, "SELECT toUInt32(time) AS at, toUInt64(sum(most)) AS n FROM (SELECT zone_id, time, max(requests) AS most FROM "+l.Table+
		" WHERE dimension = {dimension:String} AND time IN ("+touched+") GROUP BY zone_id, time) GROUP BY time", params)
	if err != nil {
		return nil, fmt.Errorf("count the lists: %w", err)
	}
	before := m.tried[l.Table]
	tried := make(map[uint32]uint64, len(before))
	var list []due
	for at, n := range counted {
		if t, ok := before[at]; ok {
			tried[at] = t
		}
		if n > listed[at] && tried[at] != n {
			list = append(list, due{at, n})
		}
	}
	m.tried[l.Table] = tried // forgets what is no longer looked at
	slices.SortFunc(list, func(a, b due) int { return cmp.Compare(b.at, a.at) })
	return list, nil
}

func (m *Maker) numbers(ctx context.Context, sql string, params map[string]string) (map[uint32]uint64, error) {
	var at proto.ColUInt32
	var n proto.ColUInt64
	out := map[uint32]uint64{}
	_, err := m.db.Select(ctx, store.Query{SQL: sql, Params: params, Settings: m.settings(), Priority: store.Background},
		proto.Results{{Name: "at", Data: &at}, {Name: "n", Data: &n}}, func(_ context.Context, rows int) error {
			for i := range rows {
				out[at.Row(i)] = n.Row(i)
			}
			return nil
		})
	return out, err
}

// missing gives the zones that lack lists of the times, by time and zone.
func (m *Maker) missing(ctx context.Context, l schema.TopLevel, times []due) ([]share, error) {
	var in strings.Builder
	for i, t := range times {
		if i > 0 {
			in.WriteByte(',')
		}
		in.WriteString(strconv.FormatUint(uint64(t.at), 10))
	}
	const these = " toUInt32(time) IN {times:Array(UInt32)} "
	sql := "SELECT zone, at, n FROM (SELECT CAST(zone_id, 'String') AS zone, toUInt32(time) AS at, toUInt64(sum(requests)) AS n FROM " + l.Rollup + " WHERE" + these + "GROUP BY zone, at) AS r" +
		" LEFT JOIN (SELECT CAST(zone_id, 'String') AS zone, toUInt32(time) AS at, max(requests) AS most FROM " + l.Table + " WHERE dimension = {dimension:String} AND" + these + "GROUP BY zone, at) AS d" +
		" USING (zone, at) WHERE n > most ORDER BY at DESC, zone"
	var zone proto.ColStr
	var at proto.ColUInt32
	var n proto.ColUInt64
	var list []share
	_, err := m.db.Select(ctx, store.Query{
		SQL: sql, Params: map[string]string{"times": "[" + in.String() + "]", "dimension": marker()}, Settings: m.settings(), Priority: store.Background,
	}, proto.Results{{Name: "zone", Data: &zone}, {Name: "at", Data: &at}, {Name: "n", Data: &n}}, func(_ context.Context, rows int) error {
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

// batches cuts the list into pieces of which each is about a bounded number of requests and of zones' hours.
func batches(list []share, requests uint64) [][]share {
	var out [][]share
	from, sum := 0, uint64(0)
	for i := range list {
		if i > from && (sum+list[i].requests > requests || i-from == sharesAtOnce) {
			out = append(out, list[from:i])
			from, sum = i, 0
		}
		sum += list[i].requests
	}
	if from < len(list) {
		out = append(out, list[from:])
	}
	return out
}

// statement gives what writes the lists of a dimension for a batch.
func (m *Maker) statement(l schema.TopLevel, d schema.TopDimension, b []share) store.Query {
	var zones, pairs strings.Builder
	seen := map[string]bool{}
	first, last := b[0].at, b[0].at
	for i, s := range b {
		name := store.Quote(s.zone)
		if !seen[s.zone] {
			if len(seen) > 0 {
				zones.WriteByte(',')
			}
			zones.WriteString(name)
			seen[s.zone] = true
		}
		if i > 0 {
			pairs.WriteByte(',')
		}
		fmt.Fprintf(&pairs, "(%s,%d)", name, s.at)
		first, last = min(first, s.at), max(last, s.at)
	}
	settings := m.settings()
	settings["max_insert_threads"] = "1"
	settings["max_partitions_per_insert_block"] = "0"
	return store.Query{
		SQL: l.FillTop(d, m.cfg.Values), Settings: settings, Priority: store.Background,
		Params: map[string]string{
			"zones": "[" + zones.String() + "]", "pairs": "[" + pairs.String() + "]",
			"since": strconv.FormatUint(uint64(first), 10), "until": strconv.FormatInt(int64(last)+int64(l.Step/time.Second), 10),
		},
	}
}

// settings keep the work in the background: one thread, bounded memory, and groups on disk when there are too many.
func (m *Maker) settings() map[string]string {
	return map[string]string{
		"max_threads": "1", "max_memory_usage": strconv.FormatUint(uint64(m.cfg.Memory), 10),
		"max_bytes_before_external_group_by": strconv.FormatUint(uint64(m.cfg.Memory)/3, 10), "max_execution_time": "0",
	}
}
