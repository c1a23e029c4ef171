package analytics

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store/schema"
)

// topParts says what an answer about the top of a dimension is made of: whole days and hours that have lists, and hours
// whose requests are counted one by one. Times are in seconds since 1970.
type topParts struct {
	days, hours, raw []uint32
	seen             TopTotal // requests and bytes of all parts
	floor            TopTotal // what a value that is in no list may have
}

// bucket is what a table says of an hour or day of one zone.
type bucket struct{ total, floor TopTotal }

// topParts decides, from what the rollups counted, which lists are complete. Days come before hours: one list leaves less out
// than twenty-four.
func (s *Service) topParts(ctx context.Context, zone string, w Window, o topOrder) (*topParts, error) {
	p := &topParts{}
	var partial map[uint32]bucket // days whose list saw less than the rollup
	levels := schema.TopLevels()
	open := spans{{w.Since, w.Until}}
	if days := whole(w, levels[1].Step); len(days) > 0 {
		counted, listed, err := s.buckets(ctx, zone, w, o, levels[1])
		if err != nil {
			return nil, err
		}
		partial = map[uint32]bucket{}
		for _, at := range days {
			have, want := listed[at], counted[at]
			switch {
			case want.total.Requests == 0 && have.total.Requests == 0:
			case have.total.Requests >= want.total.Requests:
				p.add(&p.days, at, have)
			case have.total.Requests > 0:
				partial[at] = have
				continue
			default:
				continue
			}
			open = open.without(at, levels[1].Step)
		}
	}
	if len(open) == 0 {
		return p, nil
	}
	return p, s.hourParts(ctx, zone, w, o, p, open, partial)
}

// hourParts covers what complete days have left open.
func (s *Service) hourParts(ctx context.Context, zone string, w Window, o topOrder, p *topParts, open spans, partial map[uint32]bucket) error {
	level := schema.TopLevels()[0]
	in := Window{Since: open[0].since, Until: open[len(open)-1].until, Delta: w.Delta}
	counted, listed, err := s.buckets(ctx, zone, in, o, level)
	if err != nil {
		return err
	}
	singles, err := s.singles(ctx, zone, in, listed, counted)
	if err != nil {
		return err
	}
	byDay := map[uint32]*topParts{}
	for _, sp := range open {
		for t := sp.since.Truncate(time.Hour); t.Before(sp.until); t = t.Add(time.Hour) {
			at := uint32(t.Unix())
			inside := !t.Before(w.Since) && !t.Add(time.Hour).After(w.Until)
			day := uint32(t.Truncate(24 * time.Hour).Unix())
			if byDay[day] == nil {
				byDay[day] = &topParts{}
			}
			d, list, one := byDay[day], listed[at], singles[at]
			switch {
			case inside && list.total.Requests > 0 && (list.total.Requests >= counted[at].total.Requests || list.total.Requests >= one.total.Requests):
				d.add(&d.hours, at, list)
			case one.total.Requests > 0:
				d.add(&d.raw, at, one)
			}
		}
	}
	for day, d := range byDay {
		if list, ok := partial[day]; ok && list.total.Requests > d.seen.Requests {
			p.add(&p.days, day, list)
			continue
		}
		p.hours, p.raw = append(p.hours, d.hours...), append(p.raw, d.raw...)
		p.seen, p.floor = p.seen.plus(d.seen), p.floor.plus(d.floor)
	}
	return nil
}

func (p *topParts) add(to *[]uint32, at uint32, b bucket) {
	*to = append(*to, at)
	p.seen, p.floor = p.seen.plus(b.total), p.floor.plus(b.floor)
}

func (t TopTotal) plus(o TopTotal) TopTotal {
	return TopTotal{t.Requests + o.Requests, t.Bytes + o.Bytes}
}

// less gives t without o, 0 where o is greater.
func (t TopTotal) less(o TopTotal) TopTotal {
	return TopTotal{t.Requests - min(t.Requests, o.Requests), t.Bytes - min(t.Bytes, o.Bytes)}
}

// span is a time from which, until which.
type span struct{ since, until time.Time }

type spans []span

// without takes out a step.
func (list spans) without(at uint32, step time.Duration) spans {
	since := time.Unix(int64(at), 0).UTC()
	until := since.Add(step)
	var out spans
	for _, s := range list {
		if !s.since.Before(until) || !since.Before(s.until) {
			out = append(out, s)
			continue
		}
		if s.since.Before(since) {
			out = append(out, span{s.since, since})
		}
		if until.Before(s.until) {
			out = append(out, span{until, s.until})
		}
	}
	return out
}

// whole gives the steps that lie in the window from beginning to end.
func whole(w Window, step time.Duration) []uint32 {
	var out []uint32
	t := w.Since.Truncate(step)
	if t.Before(w.Since) {
		t = t.Add(step)
	}
	for ; !t.Add(step).After(w.Until); t = t.Add(step) {
		out = append(out, uint32(t.Unix()))
	}
	return out
}

// buckets gives what the rollup and the lists of a level say of the steps that begin in the window.
func (s *Service) buckets(ctx context.Context, zone string, w Window, o topOrder, l schema.TopLevel) (counted, listed map[uint32]bucket, err error) {
	const none = "toUInt64(0)"
	counted, err = s.readBuckets(ctx, zone, w, statement{
		from: source{table: l.Rollup, zone: schema.ColZoneID, time: schema.ColTime},
		columns: []string{
			"toUInt32({time}) AS at", "toUInt64(sum(" + schema.ColRequests + ")) AS all_requests", "toUInt64(sum(" + schema.ColResponseBytes + ")) AS all_bytes",
			none + " AS floor_r", none + " AS floor_b",
		},
		group: "GROUP BY at",
	})
	if err != nil {
		return nil, nil, err
	}
	listed, err = s.readBuckets(ctx, zone, w, statement{
		from: source{table: l.Table, zone: schema.ColZoneID, time: schema.ColTime, how: "FINAL"},
		columns: []string{
			"toUInt32({time}) AS at", schema.ColTopRequests + " AS all_requests", schema.ColTopBytes + " AS all_bytes",
			schema.ColFloorRequests + " AS floor_r", schema.ColFloorBytes + " AS floor_b",
		},
		and: schema.ColDimension + " = {dimension:String}", params: map[string]string{"dimension": o.Name},
	})
	return counted, listed, err
}

// singles counts single requests of the hours of the window whose lists are not complete.
func (s *Service) singles(ctx context.Context, zone string, w Window, listed, counted map[uint32]bucket) (map[uint32]bucket, error) {
	var at []uint32
	for t := w.Since.Truncate(time.Hour); t.Before(w.Until); t = t.Add(time.Hour) {
		h := uint32(t.Unix())
		edge := t.Before(w.Since) || t.Add(time.Hour).After(w.Until)
		if n := counted[h].total.Requests; edge || n > listed[h].total.Requests {
			at = append(at, h)
		}
	}
	if len(at) == 0 {
		return nil, nil
	}
	return s.readBuckets(ctx, zone, w, statement{
		from: raw(),
		columns: []string{
			"toUInt32(toStartOfHour({time})) AS at", "toUInt64(count()) AS all_requests", "toUInt64(sum(EdgeResponseBytes)) AS all_bytes",
			"toUInt64(0) AS floor_r", "toUInt64(0) AS floor_b",
		},
		and: "toUInt32(toStartOfHour(EdgeStartTimestamp)) IN {hours:Array(UInt32)}", group: "GROUP BY at",
		params: map[string]string{"hours": numbers(at)},
	})
}

func (s *Service) readBuckets(ctx context.Context, zone string, w Window, st statement) (map[uint32]bucket, error) {
	var at proto.ColUInt32
	var allRequests, allBytes, requests, bytes proto.ColUInt64
	out := map[uint32]bucket{}
	err := s.run(ctx, "top", st.query(zone, w), proto.Results{
		{Name: "at", Data: &at}, {Name: "all_requests", Data: &allRequests}, {Name: "all_bytes", Data: &allBytes},
		{Name: "floor_r", Data: &requests}, {Name: "floor_b", Data: &bytes},
	}, func(n int) error {
		for i := range n {
			out[at.Row(i)] = bucket{TopTotal{allRequests.Row(i), allBytes.Row(i)}, TopTotal{requests.Row(i), bytes.Row(i)}}
		}
		return nil
	})
	return out, err
}

// numbers prints an array parameter.
func numbers(list []uint32) string {
	slices.Sort(list)
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = strconv.FormatUint(uint64(n), 10)
	}
	return "[" + strings.Join(texts, ",") + "]"
}

// statements gives what reads the parts: columns value, r, b, e (what a part has of a value) and fr, fb (what it would
// allow the value if it were not listed).
func (p *topParts) statements(o topOrder) []statement {
	var list []statement
	lists := func(table, param string, times []uint32) {
		if len(times) == 0 {
			return
		}
		list = append(list, statement{
			from: source{table, schema.ColZoneID, schema.ColTime, "FINAL ARRAY JOIN " + schema.ColListed + " AS v, " + schema.ColListedRequests + " AS vr, " +
				schema.ColListedBytes + " AS vb, " + schema.ColListedErrors + " AS ve"},
			columns: []string{"v AS value", "vr AS r", "vb AS b", "ve AS e", schema.ColFloorRequests + " AS fr", schema.ColFloorBytes + " AS fb"},
			and:     schema.ColDimension + " = {dimension:String} AND toUInt32(" + schema.ColTime + ") IN {" + param + ":Array(UInt32)}",
		})
	}
	lists(schema.TopDay, "days", p.days)
	lists(schema.TopHour, "hours", p.hours)
	if len(p.raw) > 0 {
		group, value := o.Listed()
		list = append(list, statement{
			from: raw(),
			columns: []string{
				value + " AS value", "toUInt64(count()) AS r", "toUInt64(sum(EdgeResponseBytes)) AS b",
				"toUInt64(countIf(EdgeResponseStatus >= 400)) AS e", "toUInt64(0) AS fr", "toUInt64(0) AS fb",
			},
			and:   "toUInt32(toStartOfHour(EdgeStartTimestamp)) IN {singles:Array(UInt32)}",
			group: "GROUP BY " + group,
		})
	}
	return list
}

// askParts adds the parts up.
func (s *Service) askParts(ctx context.Context, zone string, w Window, o topOrder, p *topParts, total TopTotal) (*Top, error) {
	missing := total.less(p.seen)
	bound := p.floor.plus(missing)
	out := &Top{Window: w, Dimension: o.Name, Rows: []TopRow{}, Total: total, ErrorBound: bound}
	parts := p.statements(o)
	if len(parts) == 0 {
		return out, nil
	}
	q := statement{
		columns: []string{
			"value", "toUInt64(sum(r)) AS requests", "toUInt64(sum(b)) AS bytes", "toUInt64(sum(e)) AS errors",
			"toUInt64(sum(fr)) AS known_requests", "toUInt64(sum(fb)) AS known_bytes",
		},
		group: "GROUP BY value ORDER BY " + o.order + " LIMIT {limit:UInt32}", memory: o.memory,
		params: map[string]string{
			"limit": strconv.Itoa(o.limit), "dimension": o.Name, "days": numbers(p.days), "hours": numbers(p.hours), "singles": numbers(p.raw),
		},
	}.union(parts, zone, w)
	q.Settings["do_not_merge_across_partitions_select_final"] = "1"
	var value proto.ColStr
	var requests, bytes, errors, knownRequests, knownBytes proto.ColUInt64
	err := s.run(ctx, "top", q, proto.Results{
		{Name: "value", Data: &value}, {Name: "requests", Data: &requests}, {Name: "bytes", Data: &bytes}, {Name: "errors", Data: &errors},
		{Name: "known_requests", Data: &knownRequests}, {Name: "known_bytes", Data: &knownBytes},
	}, func(n int) error {
		for i := range n {
			out.Rows = append(out.Rows, TopRow{
				Value: strings.Clone(value.Row(i)), Requests: requests.Row(i), Bytes: bytes.Row(i), Errors: errors.Row(i),
				ErrorBound: bound.less(TopTotal{knownRequests.Row(i), knownBytes.Row(i)}),
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
