package schema

import "github.com/spate-io/spate/histogram"

// Merge says how values of a rollup column are combined.
type Merge uint8

// The ways to combine.
const (
	MergeSum  Merge = iota + 1 // UInt64, sum
	MergeMax                   // max
	MergeMap                   // Map, sumMap
	MergeUniq                  // AggregateFunction, UniquesMerge
)

// RollupColumn is one column of the rollup tables.
type RollupColumn struct {
	// Name is as in SQL.
	Name string
	// Merge says how rows are combined.
	Merge Merge
	// Key is the type of a map's keys, Value the type of the values.
	Key, Value string
	// Expr is computed from a row of the raw table: the value, or for a map the key. It says what minutes.go computes.
	Expr string
	// Weight is what a map's key counts for, "1" for requests.
	Weight string
	// If is the condition for a row to count, empty for all rows.
	If string
	// Colo says that the tables by colo have the column too.
	Colo bool
	// Doc says what it is.
	Doc string
}

// uniques is the aggregate function that counts distinct addresses. docs/explanation/store-measurements.md says why this one.
const uniques = "uniq"

// UniquesMerge is the aggregate function that gives the number of distinct addresses from states of [ColUniques].
const UniquesMerge = uniques + "Merge"

// RollupColumns gives the columns of the rollup tables after their keys. The slice is the caller's.
func RollupColumns() []RollupColumn {
	return append(append(sums(), maps()...), bins()...)
}

func sums() []RollupColumn {
	sum := func(name, expr, cond string, colo bool, doc string) RollupColumn {
		return RollupColumn{Name: name, Merge: MergeSum, Value: "UInt64", Expr: expr, If: cond, Colo: colo, Doc: doc}
	}
	return []RollupColumn{
		sum(ColRequests, "1", "", true, "requests"),
		sum(ColCachedRequests, "1", "Cached", true, "requests answered from the cache"),
		sum(ColEncryptedRequests, "1", "ClientSSLProtocol != ''", false, "requests over TLS"),
		sum(ColPageViews, "1", "PageView", false, "pages shown"),
		sum(ColThreats, "1", "Threat != ''", true, "requests with a threat tag"),
		sum(ColErrors4xx, "1", "EdgeResponseStatus >= 400 AND EdgeResponseStatus < 500", false, "answers 400 to 499"),
		sum(ColErrors5xx, "1", "EdgeResponseStatus >= 500", false, "answers 500 and above"),
		sum(ColRequestBytes, "ClientRequestBytes", "", false, "bytes received from clients"),
		sum(ColResponseBytes, "EdgeResponseBytes", "", true, "bytes sent to clients"),
		sum(ColCachedBytes, "EdgeResponseBytes", "Cached", true, "bytes sent to clients from the cache"),
		sum(ColEncryptedBytes, "EdgeResponseBytes", "ClientSSLProtocol != ''", false, "bytes sent to clients over TLS"),
		sum(ColTimedRequests, "1", "EdgeDurationUs >= 0", false, "requests whose duration is known"),
		sum(ColDurationUs, "toUInt64(EdgeDurationUs)", "EdgeDurationUs >= 0", false, "sum of the known durations, microseconds"),
		sum(ColOriginRequests, "1", "OriginTries > 0", false, "requests that asked an upstream"),
		sum(ColOriginDurationUs, "OriginResponseDurationUs", "OriginTries > 0", false, "sum of the upstream times, microseconds"),
		{Name: ColMaxDurationUs, Merge: MergeMax, Value: "UInt64", Expr: "toUInt64(greatest(EdgeDurationUs, 0))", Doc: "longest known duration, microseconds"},
	}
}

func maps() []RollupColumn {
	by := func(name, key, expr string, colo bool, doc string) RollupColumn {
		return RollupColumn{Name: name, Merge: MergeMap, Key: key, Value: "UInt64", Expr: expr, Weight: "1", Colo: colo, Doc: doc}
	}
	with := func(c RollupColumn, weight, cond string) RollupColumn {
		if weight != "" {
			c.Weight = weight
		}
		c.If = cond
		return c
	}
	return []RollupColumn{
		by(ColByStatus, "UInt16", "EdgeResponseStatus", true, "requests by status"),
		by(ColByCountry, "String", "ClientCountry", true, "requests by country"),
		by(ColByContent, "String", "EdgeResponseContentClass", false, "requests by kind of content"),
		by(ColByCache, "String", "CacheCacheStatus", false, "requests by cache status"),
		by(ColBySSL, "String", "if(ClientSSLProtocol = '', 'none', ClientSSLProtocol)", false, "requests by TLS version"),
		by(ColByMethod, "String", "ClientRequestMethod", false, "requests by method"),
		by(ColByProtocol, "String", "ClientRequestProtocol", false, "requests by HTTP version"),
		by(ColByBrowser, "String", "UserAgentBrowser", false, "requests by browser"),
		by(ColByOS, "String", "UserAgentOS", false, "requests by operating system"),
		by(ColByDevice, "String", "ClientDeviceType", false, "requests by kind of device"),
		by(ColByBot, "String", "BotClass", false, "requests by class of bot"),
		by(ColByIPClass, "String", "ClientIPClass", false, "requests by class of address"),
		by(ColByHost, "String", "ClientRequestHost", false, "requests by host"),
		with(by(ColThreatsByType, "String", "Threat", true, "threats by tag"), "", "Threat != ''"),
		with(by(ColThreatsByCountry, "String", "ClientCountry", true, "threats by country"), "", "Threat != ''"),
		with(by(ColViewsByEngine, "String", "UserAgentBrowser", false, "page views by search engine's robot"), "", "PageView AND BotClass = 'search_engine'"),
		with(by(ColBytesByCountry, "String", "ClientCountry", false, "bytes sent by country"), "EdgeResponseBytes", ""),
		with(by(ColBytesByContent, "String", "EdgeResponseContentClass", false, "bytes sent by kind of content"), "EdgeResponseBytes", ""),
	}
}

func bins() []RollupColumn {
	bin := func(name, expr, cond, doc string) RollupColumn {
		return RollupColumn{Name: name, Merge: MergeMap, Key: "Int16", Value: "UInt64", Expr: histogram.SQLBin(expr), Weight: "1", If: cond, Doc: doc}
	}
	return []RollupColumn{
		bin(ColDurationBins, "toUInt64(greatest(EdgeDurationUs, 0))", "EdgeDurationUs >= 0", "requests by bin of their duration in microseconds"),
		bin(ColOriginBins, "OriginResponseDurationUs", "OriginTries > 0", "requests by bin of their upstream time in microseconds"),
		bin(ColResponseBins, "EdgeResponseBytes", "", "requests by bin of the bytes sent"),
		{Name: ColUniques, Merge: MergeUniq, Value: "IPv6", Expr: "ClientIP", Doc: "distinct client addresses"},
	}
}

// Type gives the column's ClickHouse type.
func (c RollupColumn) Type() string {
	switch c.Merge {
	case MergeSum:
		return "SimpleAggregateFunction(sum, " + c.Value + ")"
	case MergeMax:
		return "SimpleAggregateFunction(max, " + c.Value + ")"
	case MergeMap:
		return "SimpleAggregateFunction(sumMap, Map(" + c.Key + ", " + c.Value + "))"
	}
	return "AggregateFunction(" + uniques + ", " + c.Value + ")"
}

// flow gives name and type of the column in the flow table: plain numbers and maps, and addresses instead of the state
// that is made of them.
func (c RollupColumn) flow() header {
	switch c.Merge {
	case MergeMap:
		return header{c.Name, "Map(" + c.Key + ", " + c.Value + ")"}
	case MergeUniq:
		return header{flowClients, "Array(" + c.Value + ")"}
	}
	return header{c.Name, c.Value}
}

// fromFlow gives the expression that makes the column of a row of the flow table.
func (c RollupColumn) fromFlow() string {
	if c.Merge == MergeUniq {
		return "arrayReduce('" + uniques + "State', " + flowClients + ") AS " + c.Name
	}
	return c.Name
}

// Combine gives the expression that combines the column over rows of a rollup table with that name or alias, as the
// cascade does; what it gives is of the column's type again.
func (c RollupColumn) Combine(table string) string {
	col := table + "." + c.Name
	switch c.Merge {
	case MergeSum:
		return "sum(" + col + ")"
	case MergeMax:
		return "max(" + col + ")"
	case MergeMap:
		return "sumMap(" + col + ")"
	}
	return uniques + "MergeState(" + col + ")"
}

// FromRaw gives the expression that computes the column from rows of the raw table: what the column means, to check or
// rebuild a rollup by.
func (c RollupColumn) FromRaw() string {
	switch c.Merge {
	case MergeSum:
		switch {
		case c.Expr == "1" && c.If == "":
			return "count()"
		case c.Expr == "1":
			return "countIf(" + c.If + ")"
		case c.If == "":
			return "sum(" + c.Expr + ")"
		}
		return "sumIf(" + c.Expr + ", " + c.If + ")"
	case MergeMax:
		return "max(" + c.Expr + ")"
	case MergeMap:
		m := "map(" + c.Expr + ", toUInt64(" + c.Weight + "))"
		if c.If == "" {
			return "sumMap(" + m + ")"
		}
		return "sumMapIf(" + m + ", " + c.If + ")"
	}
	return uniques + "State(" + c.Expr + ")"
}
