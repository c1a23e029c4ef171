package schema

import (
	"fmt"
	"strings"
	"time"
)

// TopHour and TopDay have, per zone, hour or day, and dimension, one row with a list of the most frequent values: what is
// left of single requests when those have expired. Read them with FINAL.
const (
	TopHour = "http_requests_top_1h"
	TopDay  = "http_requests_top_1d"
)

// Columns of the top tables besides zone_id and time.
const (
	ColDimension      = "dimension"
	ColTopRequests    = "requests"        // of all values; of two rows with one key the one that saw more requests stays
	ColTopBytes       = "bytes"           // of all values
	ColTopErrors      = "errors"          // of all values
	ColDistinct       = "distinct_values" // how many values there were
	ColFloorRequests  = "floor_requests"  // a value that is not in the list has at most so many requests
	ColFloorBytes     = "floor_bytes"     // and at most so many bytes
	ColListed         = "listed"          // the list, and beside it:
	ColListedRequests = "listed_requests"
	ColListedBytes    = "listed_bytes"
	ColListedErrors   = "listed_errors"
)

// TopSeen is the dimension of a row without a list: its requests are those that each of the other lists has seen.
const TopSeen = "*"

// TopDimension is something to count by: a column of the raw table, and the expression over it that gives a String.
// Grouping is by the column, so that the expression is computed for the values that come out alone.
type TopDimension struct {
	Name, Column, Show string
	long               bool // a client can make the text as long as it likes
}

// TopText is how many bytes of a value a list keeps: values that are the same so far are one.
const TopText = 1024

// Listed gives what lists are grouped by and the expression for the value, which is no longer than TopText for texts that
// clients make up.
func (d TopDimension) Listed() (group, value string) {
	if !d.long {
		return d.Column, d.Show
	}
	cut := fmt.Sprintf("CAST(substring(%s, 1, %d), 'String')", d.Column, TopText)
	return cut, cut
}

// TopDimensions gives all dimensions. The slice is the caller's.
func TopDimensions() []TopDimension {
	plain := func(name, column string) TopDimension {
		return TopDimension{Name: name, Column: column, Show: "CAST(" + column + ", 'String')"}
	}
	text := func(name, column string) TopDimension {
		d := plain(name, column)
		d.long = true
		return d
	}
	return []TopDimension{
		text("path", "ClientRequestPath"),
		text("host", "ClientRequestHost"),
		text("referer", "ClientRequestReferer"),
		text("user_agent", "ClientRequestUserAgent"),
		// Addresses that came as IPv4 are shown as such.
		{Name: "client_ip", Column: "ClientIP", Show: "replaceRegexpOne(toString(ClientIP), '^::ffff:([0-9.]+)$', '\\\\1')"},
		plain("country", "ClientCountry"),
		plain("asn", "ClientASN"),
		plain("status", "EdgeResponseStatus"),
		text("method", "ClientRequestMethod"),
		text("protocol", "ClientRequestProtocol"),
		plain("browser", "UserAgentBrowser"),
		plain("os", "UserAgentOS"),
		plain("device", "ClientDeviceType"),
		plain("bot", "BotClass"),
		plain("content", "EdgeResponseContentClass"),
		plain("cache", "CacheCacheStatus"),
	}
}

// TopLevel is one of the top tables.
type TopLevel struct {
	Table  string        // of the lists
	Rollup string        // which has the number of requests of the same zones and times
	Step   time.Duration // what a row is about
	trunc  string        // start of the step, with %s
	days   int           // retention
}

// TopLevels gives the hours and the days.
func TopLevels() []TopLevel {
	r := DefaultRetention()
	return []TopLevel{
		{TopHour, HTTPHour, time.Hour, "toStartOfHour(%s)", r.TopHour},
		{TopDay, HTTPDay, 24 * time.Hour, "toStartOfDay(%s)", r.TopDay},
	}
}

// Of gives the expression for the start of the step that a time column of the raw table lies in.
func (l TopLevel) Of(column string) string { return fmt.Sprintf(l.trunc, column) }

// create gives the statement that makes the table. A row is wide, so few of them lie between two marks.
func (l TopLevel) create() string {
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s (\n", l.Table)
	b.WriteString("    zone_id LowCardinality(String),\n    dimension LowCardinality(String),\n    time DateTime('UTC') CODEC(Delta, Default),\n")
	for _, c := range []string{ColTopRequests, ColTopBytes, ColTopErrors, ColDistinct, ColFloorRequests, ColFloorBytes} {
		fmt.Fprintf(&b, "    %s UInt64,\n", c)
	}
	fmt.Fprintf(&b, "    %s Array(String) CODEC(ZSTD(1)),\n", ColListed)
	for _, c := range []string{ColListedRequests, ColListedBytes, ColListedErrors} {
		fmt.Fprintf(&b, "    %s Array(UInt64) CODEC(ZSTD(1)),\n", c)
	}
	b.WriteString("    stored_on Date DEFAULT today()\n) ENGINE = ReplacingMergeTree(requests)\nPARTITION BY toYear(time)\nORDER BY (zone_id, dimension, time)\n")
	if l.days > 0 {
		fmt.Fprintf(&b, "TTL stored_on + INTERVAL %d DAY DELETE\n", l.days)
	}
	b.WriteString("SETTINGS index_granularity = 64, ttl_only_drop_parts = 1")
	return b.String()
}

// FillTop gives the statement that writes the lists of one dimension: for the zones and times of the parameter pairs
// (Array(Tuple(String, UInt32)), times in seconds), from raw rows of the zones in the parameter zones (Array(String)) from
// time since to until (UInt32, seconds, until exclusive). A list has the n values with the most requests and the n with the most bytes.
// To run it again does no harm.
func (l TopLevel) FillTop(d TopDimension, n int) string {
	group, value := d.Listed()
	return fmt.Sprintf(`INSERT INTO %[1]s (zone_id, dimension, time, requests, bytes, errors, distinct_values, floor_requests, floor_bytes, listed, listed_requests, listed_bytes, listed_errors)
SELECT zone, '%[2]s', at, sum(r), sum(b), sum(e), count(), maxIf(r, by_requests = %[4]d), maxIf(b, by_bytes = %[4]d),
    groupArrayIf(value, fit), groupArrayIf(r, fit), groupArrayIf(b, fit), groupArrayIf(e, fit)
FROM (
    SELECT zone, at, value, r, b, e, by_requests <= %[3]d OR by_bytes <= %[3]d AS fit,
        row_number() OVER (PARTITION BY zone, at ORDER BY r DESC, b DESC) AS by_requests,
        row_number() OVER (PARTITION BY zone, at ORDER BY b DESC, r DESC) AS by_bytes
    FROM (
        SELECT CAST(ZoneID, 'String') AS zone, %[5]s AS at, %[6]s AS value, count() AS r, sum(EdgeResponseBytes) AS b, countIf(EdgeResponseStatus >= 400) AS e
        FROM %[7]s
        WHERE ZoneID IN {zones:Array(String)} AND EdgeStartTimestamp >= toDateTime({since:UInt32}, 'UTC') AND EdgeStartTimestamp < toDateTime({until:UInt32}, 'UTC')
            AND (ZoneID, toUInt32(%[5]s)) IN (SELECT p.1, p.2 FROM (SELECT arrayJoin({pairs:Array(Tuple(String, UInt32))}) AS p))
        GROUP BY ZoneID, at, %[8]s
    )
)
GROUP BY zone, at`, l.Table, d.Name, n, n+1, l.Of("EdgeStartTimestamp"), value, HTTPRequests, group)
}

// SealTop gives the statement that writes what each list has seen, as a row of [TopSeen], for the zones and times of the
// parameters of [TopLevel.FillTop].
func (l TopLevel) SealTop() string {
	return fmt.Sprintf(`INSERT INTO %[1]s (zone_id, dimension, time, requests)
SELECT zone_id, '%[2]s', time, min(seen) FROM (
    SELECT zone_id, dimension, time, max(requests) AS seen
    FROM %[1]s
    WHERE dimension != '%[2]s' AND zone_id IN {zones:Array(String)} AND time >= toDateTime({since:UInt32}, 'UTC') AND time < toDateTime({until:UInt32}, 'UTC')
        AND (zone_id, toUInt32(time)) IN (SELECT p.1, p.2 FROM (SELECT arrayJoin({pairs:Array(Tuple(String, UInt32))}) AS p))
    GROUP BY zone_id, dimension, time
)
GROUP BY zone_id, time`, l.Table, TopSeen)
}
