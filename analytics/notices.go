package analytics

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/event/notice"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// Notices are what an edge had to tell of one kind about one source within a span.
type Notices struct {
	Edge   string    `json:"edge"`
	Kind   string    `json:"kind"`   // bad_line, refused_batch, damaged_spool
	Source string    `json:"source"` // the log, the destination, the segment
	Count  uint64    `json:"count"`  // lines, events; for damage how often
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	// Reason is that of the last one.
	Reason string `json:"reason"`
	// Samples are some of the last ones that tell a place or a text, newest first.
	Samples []NoticeSample `json:"samples"`
}

// NoticeSample is one of Notices.
type NoticeSample struct {
	Time   time.Time `json:"time"`
	Line   uint64    `json:"line"` // 0 where lines have no numbers
	Reason string    `json:"reason"`
	Text   string    `json:"text"`
}

// noticesSQL groups notices. Samples come as JSON: they are few, and only passed on.
const noticesSQL = "SELECT CAST(edge, 'String') AS edge_name, CAST(kind, 'String') AS kind_name, source, " +
	"toUInt64(sum(greatest(count, 1))) AS n, min(time) AS first_time, max(time) AS last_time, argMax(reason, time) AS last_reason, " +
	"toJSONString(arraySlice(arrayReverseSort(s -> (s.1, s.2), groupArrayIf(1000)((time, line, reason, sample), line > 0 OR sample != '')), 1, 5)) AS samples " +
	"FROM " + schema.Notices + " WHERE time >= toDateTime({since:UInt32}, 'UTC') AND time < toDateTime({until:UInt32}, 'UTC') " +
	"GROUP BY edge, kind, source ORDER BY last_time DESC LIMIT 200"

// askNotices reads what edges had to tell in a window, the latest first.
func (s *Service) askNotices(ctx context.Context, w Window) ([]Notices, error) {
	var edge, kind, source, reason, samples proto.ColStr
	var n proto.ColUInt64
	var first, last proto.ColDateTime64
	list := []Notices{}
	results := proto.Results{
		{Name: "edge_name", Data: &edge}, {Name: "kind_name", Data: &kind}, {Name: "source", Data: &source}, {Name: "n", Data: &n},
		{Name: "first_time", Data: first.WithPrecision(proto.PrecisionMilli)}, {Name: "last_time", Data: last.WithPrecision(proto.PrecisionMilli)},
		{Name: "last_reason", Data: &reason}, {Name: "samples", Data: &samples},
	}
	err := s.run(ctx, "notices", store.Query{SQL: noticesSQL, Params: w.params()}, results, func(rows int) error {
		for i := range rows {
			v := Notices{
				Edge: edge.Row(i), Kind: kind.Row(i), Source: source.Row(i), Count: n.Row(i),
				First: first.Row(i).UTC(), Last: last.Row(i).UTC(), Reason: reason.Row(i),
			}
			var err error
			if v.Samples, err = noticeSamples(samples.RowBytes(i)); err != nil {
				return err
			}
			list = append(list, v)
		}
		return nil
	})
	return list, err
}

// noticeSamples reads [[time, line, reason, text], ...].
func noticeSamples(b []byte) ([]NoticeSample, error) {
	var rows [][4]json.RawMessage
	if err := json.Unmarshal(b, &rows); err != nil {
		return nil, fmt.Errorf("samples of notices: %w", err)
	}
	list := []NoticeSample{}
	for _, r := range rows {
		var v NoticeSample
		var at string
		for i, into := range []any{&at, &v.Line, &v.Reason, &v.Text} {
			if err := json.Unmarshal(r[i], into); err != nil {
				return nil, fmt.Errorf("samples of notices: %w", err)
			}
		}
		var err error
		if v.Time, err = time.ParseInLocation("2006-01-02 15:04:05.000", at, time.UTC); err != nil {
			return nil, fmt.Errorf("samples of notices: %w", err)
		}
		list = append(list, v)
	}
	return list, nil
}

// judgeNotices says which notices make an answer incomplete: lines that are no requests do not.
func (d *Delivery) judgeNotices(because func(format string, args ...any)) {
	for i := range d.Notices {
		n := &d.Notices[i]
		switch n.Kind {
		case notice.Refused:
			because("edge %s: %s refused batches with %d events, the last one because: %s", n.Edge, n.Source, n.Count, n.Reason)
		case notice.Damaged:
			because("edge %s: its spool is damaged: %s, %s", n.Edge, n.Source, n.Reason)
		}
	}
}
