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

// TopQuestion says what to count by, what to order by, and how many values to give.
type TopQuestion struct {
	Dimension string // one of Dimensions
	Metric    string // requests or bytes; requests when empty
	Limit     int
}

// Dimensions gives the names of what Top can count by.
func Dimensions() []string {
	var names []string
	for _, d := range schema.TopDimensions() {
		names = append(names, d.Name)
	}
	return names
}

// maxTop bounds how many values Top gives.
const maxTop = 1000

// topOrder is a checked question.
type topOrder struct {
	schema.TopDimension
	order  string
	limit  int
	memory uint64
}

func (s *Service) topOrder(t TopQuestion) (topOrder, error) {
	all := schema.TopDimensions()
	i := slices.IndexFunc(all, func(d schema.TopDimension) bool { return d.Name == t.Dimension })
	if i < 0 {
		return topOrder{}, fmt.Errorf("%w: dimension must be one of %s", ErrQuestion, strings.Join(Dimensions(), ", "))
	}
	o := topOrder{TopDimension: all[i], limit: t.Limit, memory: uint64(s.cfg.TopMemory)}
	switch t.Metric {
	case "", "requests":
		o.order = "requests DESC, bytes DESC, value"
	case "bytes":
		o.order = "bytes DESC, requests DESC, value"
	default:
		return topOrder{}, fmt.Errorf("%w: metric must be requests or bytes", ErrQuestion)
	}
	if t.Limit < 1 || t.Limit > maxTop {
		return topOrder{}, fmt.Errorf("%w: limit must be 1 to %d", ErrQuestion, maxTop)
	}
	return o, nil
}

// statement counts single requests.
func (o topOrder) statement() statement {
	return statement{
		from: raw(),
		columns: []string{
			o.Show + " AS value",
			"toUInt64(count()) AS requests",
			"toUInt64(sum(EdgeResponseBytes)) AS bytes",
			"toUInt64(countIf(EdgeResponseStatus >= 400)) AS errors",
			"toUInt64(sum(requests) OVER ()) AS all_requests",
			"toUInt64(sum(bytes) OVER ()) AS all_bytes",
		},
		group:  "GROUP BY " + o.Column + " ORDER BY " + o.order + " LIMIT {limit:UInt32}",
		params: map[string]string{"limit": strconv.Itoa(o.limit)},
		memory: o.memory,
	}
}

// Top answers which values of a dimension were the most frequent, over the same whole points as the other questions. While
// single requests are there and not too many it counts them; else it adds up the lists that were made of each hour and day,
// and single requests of the hours that have none yet. Then counts may be too small, and the answer says by how much at
// most. Where requests of less than an hour have expired, the window is widened to whole hours; where hours had so few
// requests that only their days have lists, to whole days.
func (s *Service) Top(ctx context.Context, zone string, r Range, t TopQuestion) (*Top, error) {
	o, err := s.topOrder(t)
	if err != nil {
		return nil, err
	}
	w, err := r.Resolve(s.now(), s.cfg.Settle.D())
	if err != nil {
		return nil, err
	}
	return shared(ctx, &s.sharing, w.key("top", zone, t), s.cfg.ShareFor.D(), func(ctx context.Context) (*Top, error) {
		return s.top(ctx, zone, w, o)
	})
}

func (s *Service) top(ctx context.Context, zone string, w Window, o topOrder) (*Top, error) {
	total, err := s.topTotal(ctx, zone, w)
	if err != nil {
		return nil, err
	}
	if total.Requests <= s.cfg.TopRequests {
		out, err := s.askTop(ctx, o.statement().query(zone, w), &Top{Window: w, Dimension: o.Name, Rows: []TopRow{}})
		if err != nil || out.Total.Requests >= total.Requests {
			return out, err
		}
	}
	return s.topOfLists(ctx, zone, w, o, total)
}

// topOfLists adds up lists, and widens the window where those of it do not see enough.
func (s *Service) topOfLists(ctx context.Context, zone string, w Window, o topOrder, total TopTotal) (*Top, error) {
	parts, err := s.topParts(ctx, zone, w, o)
	if err != nil {
		return nil, err
	}
	if parts.seen.Requests >= total.Requests {
		return s.askParts(ctx, zone, w, o, parts, total)
	}
	if wide := w.widen(time.Hour); wide != w {
		return s.top(ctx, zone, wide, o)
	}
	// Hours of few requests have no lists of their own; their days have.
	wide := w.widen(24 * time.Hour)
	if missing := total.less(parts.seen).Requests; wide == w || missing <= total.Requests/10 {
		return s.askParts(ctx, zone, w, o, parts, total)
	}
	all, err := s.topTotal(ctx, zone, wide)
	if err != nil {
		return nil, err
	}
	days, err := s.topParts(ctx, zone, wide, o)
	if err != nil {
		return nil, err
	}
	if days.seen.Requests >= all.Requests {
		return s.askParts(ctx, zone, wide, o, days, all)
	}
	return s.askParts(ctx, zone, w, o, parts, total)
}

// widen gives the window in whole steps, itself when it is.
func (w Window) widen(step time.Duration) Window {
	if w.Delta%step == 0 {
		return w
	}
	wide := Window{Since: w.Since.Truncate(step), Until: w.Until.Truncate(step), Delta: step}
	if wide.Until.Before(w.Until) {
		wide.Until = wide.Until.Add(step)
	}
	if wide.Since.Equal(w.Since) && wide.Until.Equal(w.Until) {
		return w
	}
	return wide
}

// topTotal gives what the rollup counts in the window, however old.
func (s *Service) topTotal(ctx context.Context, zone string, w Window) (TopTotal, error) {
	var total TopTotal
	var requests, bytes proto.ColUInt64
	st := statement{from: rollup(w), columns: []string{
		"toUInt64(sum(" + schema.ColRequests + ")) AS all_requests", "toUInt64(sum(" + schema.ColResponseBytes + ")) AS all_bytes",
	}}
	err := s.run(ctx, "top", st.query(zone, w), proto.Results{{Name: "all_requests", Data: &requests}, {Name: "all_bytes", Data: &bytes}}, func(n int) error {
		if n > 0 {
			total = TopTotal{requests.Row(0), bytes.Row(0)}
		}
		return nil
	})
	return total, err
}

// askTop fills out with what single requests say.
func (s *Service) askTop(ctx context.Context, q store.Query, out *Top) (*Top, error) {
	var value proto.ColStr
	var requests, bytes, errors, allRequests, allBytes proto.ColUInt64
	results := proto.Results{
		{Name: "value", Data: &value}, {Name: "requests", Data: &requests}, {Name: "bytes", Data: &bytes}, {Name: "errors", Data: &errors},
		{Name: "all_requests", Data: &allRequests}, {Name: "all_bytes", Data: &allBytes},
	}
	err := s.run(ctx, "top", q, results, func(n int) error {
		for i := range n {
			out.Rows = append(out.Rows, TopRow{Value: strings.Clone(value.Row(i)), Requests: requests.Row(i), Bytes: bytes.Row(i), Errors: errors.Row(i)})
			out.Total = TopTotal{allRequests.Row(i), allBytes.Row(i)}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
