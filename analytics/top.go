package analytics

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store"
)

// TopQuestion says what to count by, what to order by, and how many values to give.
type TopQuestion struct {
	Dimension string // one of Dimensions
	Metric    string // requests or bytes; requests when empty
	Limit     int
}

// dimension is a column of the raw table and the expression over it that gives a String. Grouping is by the column, so
// that the expression is computed for the values that come out alone.
type dimension struct{ name, column, show string }

// dimensions are what Top can count by. Addresses that came as IPv4 are shown as such.
func dimensions() []dimension {
	return []dimension{
		{"path", "ClientRequestPath", "ClientRequestPath"},
		{"host", "ClientRequestHost", "CAST(ClientRequestHost, 'String')"},
		{"referer", "ClientRequestReferer", "ClientRequestReferer"},
		{"user_agent", "ClientRequestUserAgent", "CAST(ClientRequestUserAgent, 'String')"},
		{"client_ip", "ClientIP", "replaceRegexpOne(toString(ClientIP), '^::ffff:([0-9.]+)$', '\\\\1')"},
		{"country", "ClientCountry", "CAST(ClientCountry, 'String')"},
		{"asn", "ClientASN", "CAST(ClientASN, 'String')"},
		{"status", "EdgeResponseStatus", "CAST(EdgeResponseStatus, 'String')"},
		{"method", "ClientRequestMethod", "CAST(ClientRequestMethod, 'String')"},
		{"protocol", "ClientRequestProtocol", "CAST(ClientRequestProtocol, 'String')"},
		{"browser", "UserAgentBrowser", "CAST(UserAgentBrowser, 'String')"},
		{"os", "UserAgentOS", "CAST(UserAgentOS, 'String')"},
		{"device", "ClientDeviceType", "CAST(ClientDeviceType, 'String')"},
		{"bot", "BotClass", "CAST(BotClass, 'String')"},
		{"content", "EdgeResponseContentClass", "CAST(EdgeResponseContentClass, 'String')"},
		{"cache", "CacheCacheStatus", "CAST(CacheCacheStatus, 'String')"},
	}
}

// Dimensions gives the names of what Top can count by.
func Dimensions() []string {
	var names []string
	for _, d := range dimensions() {
		names = append(names, d.name)
	}
	return names
}

// maxTop bounds how many values Top gives.
const maxTop = 1000

func (s *Service) topStatement(t TopQuestion) (statement, error) {
	all := dimensions()
	i := slices.IndexFunc(all, func(d dimension) bool { return d.name == t.Dimension })
	if i < 0 {
		return statement{}, fmt.Errorf("%w: dimension must be one of %s", ErrQuestion, strings.Join(Dimensions(), ", "))
	}
	order := ""
	switch t.Metric {
	case "", "requests":
		order = "requests DESC, bytes DESC"
	case "bytes":
		order = "bytes DESC, requests DESC"
	default:
		return statement{}, fmt.Errorf("%w: metric must be requests or bytes", ErrQuestion)
	}
	if t.Limit < 1 || t.Limit > maxTop {
		return statement{}, fmt.Errorf("%w: limit must be 1 to %d", ErrQuestion, maxTop)
	}
	return statement{
		from: raw(),
		columns: []string{
			all[i].show + " AS value",
			"toUInt64(count()) AS requests",
			"toUInt64(sum(EdgeResponseBytes)) AS bytes",
			"toUInt64(countIf(EdgeResponseStatus >= 400)) AS errors",
			"toUInt64(sum(requests) OVER ()) AS all_requests",
			"toUInt64(sum(bytes) OVER ()) AS all_bytes",
		},
		group:  "GROUP BY " + all[i].column + " ORDER BY " + order + ", value LIMIT {limit:UInt32}",
		params: map[string]string{"limit": strconv.Itoa(t.Limit)},
		memory: uint64(s.cfg.TopMemory),
	}, nil
}

// Top answers which values of a dimension were the most frequent, over the same whole points as the other questions. It
// reads single requests, so it reaches back as far as those are kept.
func (s *Service) Top(ctx context.Context, zone string, r Range, t TopQuestion) (*Top, error) {
	st, err := s.topStatement(t)
	if err != nil {
		return nil, err
	}
	w, err := r.Resolve(s.now(), s.cfg.Settle.D())
	if err != nil {
		return nil, err
	}
	return shared(ctx, &s.sharing, w.key("top", zone, t), s.cfg.ShareFor.D(), func(ctx context.Context) (*Top, error) {
		return s.askTop(ctx, st.query(zone, w), &Top{Window: w, Dimension: t.Dimension, Rows: []TopRow{}})
	})
}

// askTop fills out.
func (s *Service) askTop(ctx context.Context, q store.Query, out *Top) (*Top, error) {
	var value proto.ColStr
	var requests, bytes, errors, allRequests, allBytes proto.ColUInt64
	results := proto.Results{
		{Name: "value", Data: &value}, {Name: "requests", Data: &requests}, {Name: "bytes", Data: &bytes}, {Name: "errors", Data: &errors},
		{Name: "all_requests", Data: &allRequests}, {Name: "all_bytes", Data: &allBytes},
	}
	err := s.run(ctx, "top", q, results, func(n int) error {
		for i := range n {
			out.Rows = append(out.Rows, TopRow{strings.Clone(value.Row(i)), requests.Row(i), bytes.Row(i), errors.Row(i)})
			out.Total = TopTotal{allRequests.Row(i), allBytes.Row(i)}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
