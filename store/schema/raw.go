package schema

import (
	"strings"

	"github.com/spate-io/spate/event"
)

// Column is one column of a table.
type Column struct {
	// Name is as in SQL.
	Name string
	// Type is the ClickHouse type.
	Type string
	// Codec is the compression, empty for the default, which depends on the size of the part (see store/chdb).
	Codec string
	// Alias is the expression of a column that is computed when read; empty for one that is stored.
	Alias string
	// Default is the expression that fills a column no insert names; empty for others.
	Default string
	// Source says where the value comes from: "event", "enrichment" or "store".
	Source string
	// Unit is ns, us, bytes or empty.
	Unit string
	// Doc says what it is.
	Doc string
}

// lowCardinality are the text fields whose values repeat: the store keeps a dictionary of them.
func lowCardinality() map[string]bool {
	return map[string]bool{
		"ClientRequestHost": true, "ClientRequestMethod": true, "ClientRequestScheme": true, "ClientRequestProtocol": true,
		"ClientRequestUserAgent":  true,
		"EdgeResponseContentType": true, "ClientSSLProtocol": true, "ClientSSLCipher": true, "ClientSSLServerName": true,
		"ClientMTLSAuthStatus": true, "OriginAddress": true, "CacheCacheStatus": true, "EdgeServerName": true, "EdgeName": true,
		"EdgeColoCode": true, "EdgeLimitReqStatus": true, "Threat": true,
	}
}

const lowCardinalityText = "LowCardinality(String)"

// HTTPColumns gives the columns of the raw table: first zone and time, then the other fields of the event in their order,
// then what enrichment adds. The slice is the caller's.
func HTTPColumns() []Column {
	columns := []Column{
		{Name: "ZoneID", Type: lowCardinalityText, Source: "enrichment", Doc: "zone of the request, 32 hex digits"},
	}
	low := lowCardinality()
	for _, f := range event.HTTPFields() {
		columns = append(columns, eventColumn(f, low[f.Name]))
	}
	return append(columns, enrichedColumns()...)
}

func eventColumn(f event.Field, low bool) Column {
	c := Column{Name: f.Name, Source: "event", Unit: f.Unit, Doc: f.Doc}
	switch f.Kind {
	case event.KindTime:
		c.Type, c.Codec, c.Unit, c.Doc = "DateTime64(6, 'UTC')", "Delta, Default", "", strings.TrimPrefix(c.Doc, "ns since the Unix epoch: ")
		if f.Name == "EdgeEndTimestamp" {
			c.Codec, c.Alias = "", "if(EdgeDurationUs < 0, toDateTime64(0, 6, 'UTC'), addMicroseconds(EdgeStartTimestamp, EdgeDurationUs))"
		}
	case event.KindUint64:
		c.Type, c.Codec = "UInt64", "T64, Default"
	case event.KindUint32:
		c.Type, c.Codec = "UInt32", "T64, Default"
	case event.KindUint16:
		c.Type, c.Codec = "UInt16", "T64, Default"
	case event.KindFloat32:
		c.Type, c.Codec = "Float32", ""
	case event.KindBool:
		c.Type, c.Codec = "Bool", ""
	case event.KindIP:
		c.Type, c.Codec = "IPv6", ""
	case event.KindText:
		c.Type, c.Codec = "String", ""
		if low {
			c.Type = lowCardinalityText
		}
	}
	return c
}

func enrichedColumns() []Column {
	const low = lowCardinalityText
	return []Column{
		{Name: "EdgeDurationUs", Type: "Int64", Codec: "T64, Default", Source: "event", Unit: "us", Doc: "EdgeEndTimestamp less EdgeStartTimestamp; -1 when the source knows no end"},
		{Name: "RequestDurationUs", Type: "UInt32", Alias: "toUInt32(greatest(0, least(EdgeDurationUs, 4294967295)))", Source: "enrichment", Unit: "us", Doc: "duration, 0 also when unknown"},
		{Name: "ZoneName", Type: low, Source: "enrichment", Doc: "name of the zone"},
		{Name: "ClientCountry", Type: low, Source: "enrichment", Doc: "ISO 3166-1 alpha-2, XX when unknown"},
		{Name: "ClientASN", Type: "UInt32", Source: "enrichment", Doc: "autonomous system of the client address, 0 when unknown"},
		{Name: "ClientDeviceType", Type: low, Source: "enrichment", Doc: "desktop, mobile, tablet, other"},
		{Name: "UserAgentBrowser", Type: low, Source: "enrichment", Doc: "browser family"},
		{Name: "UserAgentOS", Type: low, Source: "enrichment", Doc: "operating system family"},
		{Name: "BotClass", Type: low, Source: "enrichment", Doc: "empty for people, else search_engine, ai_crawler, seo, monitor, feed, tool, scanner, other_bot"},
		{Name: "ClientIPClass", Type: low, Source: "enrichment", Doc: "unknown, searchEngine, monitoringService, badHost, noRecord, scan, tor, allowlist"},
		{Name: "EdgeResponseContentClass", Type: low, Source: "enrichment", Doc: "html, css, javascript, png, json, ..."},
		{Name: "Cached", Type: "Bool", Source: "enrichment", Doc: "answered from the cache"},
		{Name: "PageView", Type: "Bool", Source: "enrichment", Doc: "a page was shown"},
		{Name: "StoredOn", Type: "Date", Default: "today()", Source: "store", Doc: "day the row was stored; retention counts from here"},
	}
}
