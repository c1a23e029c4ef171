package analyticstest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// RollupKey is what a row of a rollup is about.
type RollupKey struct {
	Zone, Colo string // Colo is empty in tables that are not by colo
	Time       int64  // start, seconds since 1970
}

// RollupRow is a row of a rollup: numbers and maps by the name of their column. Keys of maps are as text, those that count
// nothing are left out.
type RollupRow struct {
	Sums    map[string]uint64
	Maps    map[string]map[string]uint64
	Uniques uint64
}

// rollupTable says how the rows of a table follow from requests.
type rollupTable struct {
	colo  bool
	start func(time.Time) time.Time
}

func rollupTables() map[string]rollupTable {
	minute := func(t time.Time) time.Time {
		return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
	}
	hour := func(t time.Time) time.Time {
		return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), 0, 0, 0, time.UTC)
	}
	day := func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC) }
	month := func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC) }
	return map[string]rollupTable{
		schema.HTTPMinute: {false, minute}, schema.HTTPHour: {false, hour}, schema.HTTPDay: {false, day}, schema.HTTPMonth: {false, month},
		schema.ColoMinute: {true, minute}, schema.ColoHour: {true, hour}, schema.ColoDay: {true, day}, schema.ColoMonth: {true, month},
	}
}

// Rollups counts requests the plain way: what each rollup table must have, by table and key. It shares no code with what
// fills them, and knows nothing of blocks, views and merges.
func Rollups(requests []Request) map[string]map[RollupKey]*RollupRow {
	out := map[string]map[RollupKey]*RollupRow{}
	addresses := map[*RollupRow]map[[16]byte]bool{}
	for name, table := range rollupTables() {
		rows := map[RollupKey]*RollupRow{}
		for i := range requests {
			q := &requests[i]
			key := RollupKey{Zone: q.ZoneID, Time: table.start(time.Unix(0, q.EdgeStartTimestamp).UTC()).Unix()}
			if table.colo {
				key.Colo = string(q.EdgeColoCode)
			}
			row := rows[key]
			if row == nil {
				row = &RollupRow{Sums: map[string]uint64{}, Maps: map[string]map[string]uint64{}}
				rows[key], addresses[row] = row, map[[16]byte]bool{}
			}
			row.count(q, table.colo)
			if !table.colo {
				addresses[row][q.ClientIP.As16()] = true
				row.Uniques = uint64(len(addresses[row]))
			}
		}
		out[name] = rows
	}
	return out
}

// count adds one request.
func (r *RollupRow) count(q *Request, colo bool) {
	sum := func(ok bool, column string, n uint64) {
		if ok && n > 0 {
			r.Sums[column] += n
		}
	}
	by := func(ok bool, column string, key any, n uint64) {
		if !ok || n == 0 {
			return
		}
		if r.Maps[column] == nil {
			r.Maps[column] = map[string]uint64{}
		}
		r.Maps[column][fmt.Sprint(key)] += n
	}
	size, threat := q.EdgeResponseBytes, len(q.Threat) > 0
	sum(true, "requests", 1)
	sum(q.Cached, "cached_requests", 1)
	sum(threat, "threats", 1)
	sum(true, "response_bytes", size)
	sum(q.Cached, "cached_bytes", size)
	by(true, "requests_by_status", q.EdgeResponseStatus, 1)
	by(true, "requests_by_country", q.ClientCountry, 1)
	by(threat, "threats_by_type", string(q.Threat), 1)
	by(threat, "threats_by_country", q.ClientCountry, 1)
	if colo {
		return
	}
	tls := len(q.ClientSSLProtocol) > 0
	sum(tls, "encrypted_requests", 1)
	sum(tls, "encrypted_bytes", size)
	sum(q.PageView, "page_views", 1)
	sum(q.EdgeResponseStatus/100 == 4, "errors_4xx", 1)
	sum(q.EdgeResponseStatus >= 500, "errors_5xx", 1)
	sum(true, "request_bytes", q.ClientRequestBytes)
	protocol := string(q.ClientSSLProtocol)
	if !tls {
		protocol = "none"
	}
	by(true, "requests_by_content", q.EdgeResponseContentClass, 1)
	by(true, "requests_by_cache", string(q.CacheCacheStatus), 1)
	by(true, "requests_by_ssl", protocol, 1)
	by(true, "requests_by_method", string(q.ClientRequestMethod), 1)
	by(true, "requests_by_protocol", string(q.ClientRequestProtocol), 1)
	by(true, "requests_by_browser", q.UserAgentBrowser, 1)
	by(true, "requests_by_os", q.UserAgentOS, 1)
	by(true, "requests_by_device", q.ClientDeviceType, 1)
	by(true, "requests_by_bot", q.BotClass, 1)
	by(true, "requests_by_ip_class", q.ClientIPClass, 1)
	by(true, "requests_by_host", string(q.ClientRequestHost), 1)
	by(q.PageView && q.BotClass == "search_engine", "page_views_by_search_engine", q.UserAgentBrowser, 1)
	by(true, "bytes_by_country", q.ClientCountry, size)
	by(true, "bytes_by_content", q.EdgeResponseContentClass, size)
	by(true, "response_size_bins", Bin(size), 1)
	if q.EdgeEndTimestamp != 0 {
		us := uint64(q.EdgeEndTimestamp-q.EdgeStartTimestamp) / 1000
		sum(true, "timed_requests", 1)
		sum(true, "duration_us", us)
		if us > r.Sums["max_duration_us"] {
			r.Sums["max_duration_us"] = us
		}
		by(true, "duration_bins", Bin(us), 1)
	}
	if q.OriginTries > 0 {
		sum(true, "origin_requests", 1)
		sum(true, "origin_duration_us", uint64(q.OriginResponseDurationUs))
		by(true, "origin_duration_bins", Bin(uint64(q.OriginResponseDurationUs)), 1)
	}
}

// Bin gives the bin of a number from its decimal digits: 90 to a power of ten, by the two first digits.
func Bin(n uint64) int {
	if n == 0 {
		return 0
	}
	digits := strconv.FormatUint(n, 10)
	two, _ := strconv.Atoi((digits + "0")[:2])
	return 90*(len(digits)-1) + two - 9
}

// CheckRollups compares every number of every rollup in the store with plain counting: all sums, all keys of all maps, all
// bins of all histograms. Distinct addresses are compared exactly where there are fewer than a thousand, within 2 % above.
func CheckRollups(t testing.TB, db store.DB, requests []Request) {
	t.Helper()
	for table, want := range Rollups(requests) {
		got := ReadRollup(t, db, table)
		for key, w := range want {
			g := got[key]
			if g != nil && w.Uniques >= 1000 && g.Uniques*100 > w.Uniques*98 && g.Uniques*100 < w.Uniques*102 {
				g.Uniques = w.Uniques
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-truth +store):\n%.3000s", table, d)
		}
	}
}

// ReadRollup reads a rollup table as it is to be read: combined by key.
func ReadRollup(t testing.TB, db store.DB, table string) map[RollupKey]*RollupRow {
	t.Helper()
	columns, group := []string{"zone_id", "toUnixTimestamp(time) AS at"}, "zone_id, time"
	colo := rollupTables()[table].colo
	if colo {
		columns, group = append(columns, "colo"), group+", colo"
	}
	for _, c := range schema.RollupColumns() {
		combine := c.Combine("f")
		switch {
		case colo && !c.Colo:
			continue
		case c.Merge == schema.MergeUniq:
			combine = schema.UniquesMerge + "(f." + c.Name + ")"
		}
		columns = append(columns, combine+" AS "+c.Name)
	}
	var b bytes.Buffer
	sql := "SELECT " + strings.Join(columns, ", ") + " FROM " + table + " AS f GROUP BY " + group
	if _, err := db.Stream(context.Background(), store.Query{SQL: sql, Format: "JSONEachRow", Settings: map[string]string{"output_format_json_quote_64bit_integers": "0"}}, &b); err != nil {
		t.Fatalf("read %s: %v", table, err)
	}
	out := map[RollupKey]*RollupRow{}
	for s := bufio.NewReader(&b); ; {
		line, err := s.ReadBytes('\n')
		if err != nil {
			return out
		}
		key, row, err := rollupRow(line)
		if err != nil {
			t.Fatalf("%s: %v", table, err)
		}
		out[key] = row
	}
}

func rollupRow(line []byte) (RollupKey, *RollupRow, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return RollupKey{}, nil, err
	}
	var key RollupKey
	row := &RollupRow{Sums: map[string]uint64{}, Maps: map[string]map[string]uint64{}}
	for name, v := range fields {
		var to any
		var number uint64
		var counts map[string]uint64
		switch {
		case name == "zone_id":
			to = &key.Zone
		case name == "colo":
			to = &key.Colo
		case name == "at":
			to = &key.Time
		case v[0] == '{':
			to = &counts
		default:
			to = &number
		}
		if err := json.Unmarshal(v, to); err != nil {
			return key, nil, fmt.Errorf("%s: %w", name, err)
		}
		for k, n := range counts {
			if n == 0 {
				delete(counts, k)
			}
		}
		switch {
		case name == schema.ColUniques:
			row.Uniques = number
		case len(counts) > 0:
			row.Maps[name] = counts
		case number > 0:
			row.Sums[name] = number
		}
	}
	return key, row, nil
}
