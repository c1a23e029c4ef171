package analytics

import (
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

// Backlog is what is on the bus and not in the store yet.
type Backlog struct {
	// Known is false while nobody could read it; the rest means nothing then.
	Known bool `json:"known"`
	// Messages is the number of batches, Seconds the age of the oldest one, 0 when there is none.
	Messages int64   `json:"messages"`
	Seconds  float64 `json:"seconds"`
	// Lost is the number of batches that the bus gave up before they were stored.
	Lost int64 `json:"lost"`
}

// Delivery is the answer to whether a span is complete.
type Delivery struct {
	Window Window `json:"-"`
	// Settled is the time up to which the answer is meant: the end of the span, or a little before now.
	Settled time.Time `json:"settled"`
	// Complete says that everything the span has is in the store once; Reasons say why not.
	Complete bool           `json:"complete"`
	Reasons  []string       `json:"reasons"`
	Backlog  Backlog        `json:"backlog"`
	Totals   DeliveryCounts `json:"totals"`
	Edges    []EdgeDelivery `json:"edges"` // by name; the empty name: batches that do not say whose they are
	// Notices are what edges had to tell during the span, the latest first.
	Notices []Notices `json:"notices"`
}

// DeliveryCounts are what became of events. Rows add up, but OldestMs, the largest one.
type DeliveryCounts struct {
	Accepted   uint64 `json:"accepted"`   // events that the edge has; at least those stored
	Stored     uint64 `json:"stored"`     // events
	Pending    uint64 `json:"pending"`    // events accepted and not stored yet, as far as the store knows
	Batches    uint64 `json:"batches"`    // stored
	Bytes      uint64 `json:"bytes"`      // of stored batches, as shipped
	Duplicates uint64 `json:"duplicates"` // batches that came again and were dropped
	Dropped    uint64 `json:"dropped"`    // events that sources gave up before they were in a batch
	Refused    uint64 `json:"refused"`    // batches set aside
	Late       uint64 `json:"late"`       // events stored late
	OldestMs   uint64 `json:"oldest_ms"`  // greatest age of a batch when stored
	Missing    uint64 `json:"missing"`    // batches that never came, though later ones did
}

// EdgeDelivery is one edge.
type EdgeDelivery struct {
	Edge    string           `json:"edge"`
	Totals  DeliveryCounts   `json:"totals"`
	Minutes []DeliveryMinute `json:"minutes"` // ascending, only those with something in them
	Gaps    []Gap            `json:"gaps"`    // ascending
}

// DeliveryMinute is one minute of an edge; a batch is counted in the minute of its first event.
type DeliveryMinute struct {
	Minute time.Time `json:"minute"`
	DeliveryCounts
}

// Gap says that batches of one epoch of an edge are missing within a block of sequence numbers.
type Gap struct {
	Epoch   string    `json:"epoch"` // decimal: too large for numbers of JSON
	From    uint64    `json:"from"`  // first and last number of the block that could be there
	To      uint64    `json:"to"`
	Missing uint64    `json:"missing"`
	Since   time.Time `json:"since"` // minutes of the events on both sides
	Until   time.Time `json:"until"`
}

// deliveryDays bounds a span: the answer has every minute.
const deliveryDays = 31

// Delivery answers what became of events in a range, to whole minutes. backlog is what the bus holds now.
func (s *Service) Delivery(ctx context.Context, r Range, backlog Backlog) (*Delivery, error) {
	now := s.now().UTC()
	w, err := r.minutes(now)
	if err != nil {
		return nil, err
	}
	return shared(ctx, &s.sharing, w.key("delivery", "", backlog), s.cfg.ShareFor.D(), func(ctx context.Context) (*Delivery, error) {
		d := &Delivery{Window: w, Settled: earlier(w.Until, now.Add(-s.cfg.Settle.D())), Backlog: backlog, Reasons: []string{}, Edges: []EdgeDelivery{}}
		edges := map[string]*EdgeDelivery{}
		err := s.askLedger(ctx, w, edges)
		if err != nil {
			return nil, err
		}
		if err := s.askGaps(ctx, w, now.Add(-s.cfg.Settle.D()), edges); err != nil {
			return nil, err
		}
		if d.Notices, err = s.askNotices(ctx, w); err != nil {
			return nil, err
		}
		for _, e := range edges {
			e.sum(d.Settled.Add(-time.Minute))
			d.Totals.add(&e.Totals)
			d.Edges = append(d.Edges, *e)
		}
		slices.SortFunc(d.Edges, func(a, b EdgeDelivery) int { return strings.Compare(a.Edge, b.Edge) })
		d.judge(now)
		return d, nil
	})
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// minutes resolves a range to whole minutes.
func (r Range) minutes(now time.Time) (Window, error) {
	if r.Since == "" {
		r.Since = "-60"
	}
	w, err := r.bounds(now)
	if err != nil {
		return w, err
	}
	if w.Until.Sub(w.Since) > deliveryDays*24*time.Hour {
		return w, rangeError("the range must not be longer than %d days", deliveryDays)
	}
	return w, nil
}

// bounds reads both ends and widens the range to whole minutes.
func (r Range) bounds(now time.Time) (Window, error) {
	since, err := moment(r.Since, defaultSince, now)
	if err != nil {
		return Window{}, rangeError("since %v", err)
	}
	until, err := moment(r.Until, 0, now)
	if err != nil {
		return Window{}, rangeError("until %v", err)
	}
	until = earlier(until, now)
	if !since.Before(until) {
		return Window{}, rangeError("since must be before until and now")
	}
	return Window{Since: since.Truncate(time.Minute), Until: until.Add(time.Minute - 1).Truncate(time.Minute), Delta: time.Minute}, nil
}

// ledgerSQL sums the ledger up.
const ledgerSQL = "SELECT CAST(edge, 'String') AS edge_name, minute, " +
	"toUInt64(sum(l.accepted)) AS n_accepted, toUInt64(sum(l.events)) AS n_events, toUInt64(sum(l.batches)) AS n_batches, " +
	"toUInt64(sum(l.bytes)) AS n_bytes, toUInt64(sum(l.duplicates)) AS n_duplicates, toUInt64(sum(l.dropped)) AS n_dropped, " +
	"toUInt64(sum(l.refused)) AS n_refused, toUInt64(sum(l.late)) AS n_late, toUInt64(max(l.oldest_ms)) AS oldest " +
	"FROM " + schema.Ledger + " AS l " +
	"WHERE minute >= toDateTime({since:UInt32}, 'UTC') AND minute < toDateTime({until:UInt32}, 'UTC') " +
	"GROUP BY edge, minute ORDER BY edge, minute"

// askLedger reads the rows of a window into edges.
func (s *Service) askLedger(ctx context.Context, w Window, edges map[string]*EdgeDelivery) error {
	var name proto.ColStr
	minute := proto.ColDateTime{Location: time.UTC}
	names := []string{"n_accepted", "n_events", "n_batches", "n_bytes", "n_duplicates", "n_dropped", "n_refused", "n_late", "oldest"}
	counts := make([]proto.ColUInt64, len(names))
	results := proto.Results{{Name: "edge_name", Data: &name}, {Name: "minute", Data: &minute}}
	for i, n := range names {
		results = append(results, proto.ResultColumn{Name: n, Data: &counts[i]})
	}
	q := store.Query{SQL: ledgerSQL, Params: w.params()}
	return s.run(ctx, "delivery", q, results, func(rows int) error {
		for i := range rows {
			n := func(c int) uint64 { return counts[c].Row(i) }
			e := edgeOf(edges, name.Row(i))
			e.Minutes = append(e.Minutes, DeliveryMinute{minute.Row(i).UTC(), DeliveryCounts{
				// What is stored was accepted, whether the edge had the time to say so or not.
				Accepted: max(n(0), n(1)), Stored: n(1), Pending: max(n(0), n(1)) - n(1), Batches: n(2), Bytes: n(3),
				Duplicates: n(4), Dropped: n(5), Refused: n(6), Late: n(7), OldestMs: n(8),
			}})
		}
		return nil
	})
}

func edgeOf(edges map[string]*EdgeDelivery, name string) *EdgeDelivery {
	e := edges[name]
	if e == nil {
		name = strings.Clone(name)
		e = &EdgeDelivery{Edge: name, Minutes: []DeliveryMinute{}, Gaps: []Gap{}}
		edges[name] = e
	}
	return e
}

func (w Window) params() map[string]string {
	return map[string]string{"since": strconv.FormatInt(w.Since.Unix(), 10), "until": strconv.FormatInt(w.Until.Unix(), 10)}
}

// gapsSQL compares, for each block of sequence numbers whose events touch the window, how many there must be with how many
// there are. Partitions of the bus are loaded at their own pace, so only numbers count up to the last one that was stored
// some time ago (settled). A block that is missing altogether is counted with the next one that is there.
var gapsSQL = strings.NewReplacer("{table}", schema.LedgerBatches, "{size}", strconv.Itoa(schema.BatchBlock)).Replace(`
SELECT CAST(edge, 'String') AS edge_name, epoch, low, high, toUInt64(high + 1 - low - have) AS missing, since_minute, until_minute
FROM (
    SELECT edge, epoch,
        toUInt64(greatest(1, (before + 1) * {size})) AS low,
        toUInt64(least(newest, (block + 1) * {size} - 1)) AS high,
        bitmapCardinality(bitmapSubsetInRange(stored, toUInt64(1), high + 1)) AS have,
        since_minute, until_minute
    FROM (
        SELECT edge, epoch, block, groupBitmapMergeState(sequences) AS stored,
            lagInFrame(toInt64(block), 1, toInt64(-1)) OVER (PARTITION BY edge, epoch ORDER BY block ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS before,
            max(arrayMax(arrayMap((k, v) -> if(k < {settled:UInt32}, v, 0), mapKeys(maxMap(marks)), mapValues(maxMap(marks))))) OVER (PARTITION BY edge, epoch) AS newest,
            CAST(min(first_minute), 'DateTime(\'UTC\')') AS since_minute, CAST(max(last_minute), 'DateTime(\'UTC\')') AS until_minute
        FROM {table}
        WHERE (edge, epoch) IN (SELECT edge, epoch FROM {table}
            WHERE last_minute >= toDateTime({since:UInt32}, 'UTC') AND first_minute < toDateTime({until:UInt32}, 'UTC'))
        GROUP BY edge, epoch, block
    )
    WHERE until_minute >= toDateTime({since:UInt32}, 'UTC') AND since_minute < toDateTime({until:UInt32}, 'UTC')
)
WHERE high >= low AND high + 1 - low > have
ORDER BY edge, epoch, low LIMIT 1000`)

// askGaps reads what is missing in a window, settled being the time before which a later batch must have been stored.
func (s *Service) askGaps(ctx context.Context, w Window, settled time.Time, edges map[string]*EdgeDelivery) error {
	var name proto.ColStr
	var epoch, low, high, missing proto.ColUInt64
	since, until := proto.ColDateTime{Location: time.UTC}, proto.ColDateTime{Location: time.UTC}
	params := w.params()
	params["settled"] = strconv.FormatInt(max(0, settled.Unix()/int64(schema.BatchMark.Seconds())), 10)
	results := proto.Results{
		{Name: "edge_name", Data: &name}, {Name: "epoch", Data: &epoch}, {Name: "low", Data: &low}, {Name: "high", Data: &high},
		{Name: "missing", Data: &missing}, {Name: "since_minute", Data: &since}, {Name: "until_minute", Data: &until},
	}
	return s.run(ctx, "gaps", store.Query{SQL: gapsSQL, Params: params}, results, func(rows int) error {
		for i := range rows {
			e := edgeOf(edges, name.Row(i))
			e.Gaps = append(e.Gaps, Gap{
				strconv.FormatUint(epoch.Row(i), 10), low.Row(i), high.Row(i), missing.Row(i), since.Row(i).UTC(), until.Row(i).UTC(),
			})
		}
		return nil
	})
}

// add adds o's counts.
func (c *DeliveryCounts) add(o *DeliveryCounts) {
	c.Accepted += o.Accepted
	c.Stored += o.Stored
	c.Pending += o.Pending
	c.Batches += o.Batches
	c.Bytes += o.Bytes
	c.Duplicates += o.Duplicates
	c.Dropped += o.Dropped
	c.Refused += o.Refused
	c.Late += o.Late
	c.OldestMs = max(c.OldestMs, o.OldestMs)
	c.Missing += o.Missing
}

// sum makes the totals of an edge. Events of minutes that were not over at settled may still be under way: those are not
// counted as pending.
func (e *EdgeDelivery) sum(settled time.Time) {
	for i := range e.Minutes {
		m := &e.Minutes[i]
		if m.Minute.After(settled) {
			m.Pending = 0
		}
		e.Totals.add(&m.DeliveryCounts)
	}
	for _, g := range e.Gaps {
		e.Totals.Missing += g.Missing
	}
}

// judge says whether the answer is good, and why not.
func (d *Delivery) judge(now time.Time) {
	because := func(format string, args ...any) { d.Reasons = append(d.Reasons, fmt.Sprintf(format, args...)) }
	for i := range d.Edges {
		e := &d.Edges[i]
		name := "edge " + e.Edge
		if e.Edge == "" {
			name = "an edge that is not known"
		}
		t := &e.Totals
		if t.Missing > 0 {
			because("%s: %d batches never came, though later ones did", name, t.Missing)
		}
		if t.Refused > 0 {
			because("%s: %d batches were refused", name, t.Refused)
		}
		if t.Dropped > 0 {
			because("%s: %d events were dropped before they were in a batch", name, t.Dropped)
		}
		if t.Pending > 0 {
			because("%s: %d events were accepted and are not stored yet", name, t.Pending)
		}
	}
	d.judgeNotices(because)
	oldest := now.Add(-time.Duration(d.Backlog.Seconds * float64(time.Second)))
	switch {
	case !d.Backlog.Known:
		because("how much waits on the bus is not known")
	case d.Backlog.Messages > 0 && oldest.Before(d.Settled):
		because("%d batches wait on the bus, the oldest for %.0f s", d.Backlog.Messages, d.Backlog.Seconds)
	}
	if d.Backlog.Known && d.Backlog.Lost > 0 {
		because("%d batches were deleted from the bus before they were stored", d.Backlog.Lost)
	}
	d.Complete = len(d.Reasons) == 0
}
