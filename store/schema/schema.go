// Package schema is the one place that knows Spate's tables: their columns, how the rollups follow from the raw table,
// how a store of an older version becomes one of this version, and how events become a block for the raw table.
//
// The raw table has one column for each field of the event (package event's field table) and one for each thing that
// enrichment adds. Whoever stores requests adds them up by minute beside that: [HTTPBlock] makes both, the rows and the sums
// (docs/adr/0005). Sums go into a table that keeps nothing, [HTTPFlow], from which materialized views feed the minutes,
// hours from minutes, days from hours and months from days. Rows that are put into the raw table by hand are in no rollup.
// Top lists ([TopLevels]) are made of raw rows later, by core/tops.
//
// Everything is written down once, in [HTTPColumns] and [RollupColumns]; statements, blocks and the page
// docs/reference/tables.md come from there.
package schema

// Tables.
const (
	// HTTPRequests has one row per request.
	HTTPRequests = "http_requests"
	// HTTPFlow holds nothing: what is inserted there goes on into the minute tables.
	HTTPFlow = "http_requests_flow"
	// HTTPMinute, HTTPHour, HTTPDay and HTTPMonth have one row per zone and minute, hour, day, month, once their parts are
	// merged: always aggregate when you read.
	HTTPMinute = "http_requests_1m"
	HTTPHour   = "http_requests_1h"
	HTTPDay    = "http_requests_1d"
	HTTPMonth  = "http_requests_1mo"
	// ColoMinute and so on are the same by zone and colo, with fewer columns.
	ColoMinute = "http_colos_1m"
	ColoHour   = "http_colos_1h"
	ColoDay    = "http_colos_1d"
	ColoMonth  = "http_colos_1mo"
	// Zones has the zones that were made or configured.
	Zones = "zones"
	// Ledger counts, per edge and minute, what became of events.
	Ledger = "ledger"
	// LedgerBatches has the names of stored batches: which sequence numbers of each epoch of an edge came.
	LedgerBatches = "ledger_batches"
	// Notices has what edges had to tell besides events.
	Notices = "notices"
	// Erasures has how many requests were erased of each zone and day, so that a check knows what the raw table lacks.
	Erasures = "erasures"
	// Migrations records what was done to this store.
	Migrations = "schema_migrations"
)

// Key columns of the rollups.
const (
	ColZoneID = "zone_id"
	ColColo   = "colo"
	ColTime   = "time"
)

// Counters of the rollups, UInt64: add them with sum.
const (
	ColRequests          = "requests"
	ColCachedRequests    = "cached_requests"
	ColEncryptedRequests = "encrypted_requests"
	ColPageViews         = "page_views"
	ColThreats           = "threats"
	ColErrors4xx         = "errors_4xx"
	ColErrors5xx         = "errors_5xx"
	ColRequestBytes      = "request_bytes"
	ColResponseBytes     = "response_bytes"
	ColCachedBytes       = "cached_bytes"
	ColEncryptedBytes    = "encrypted_bytes"
	ColTimedRequests     = "timed_requests"
	ColDurationUs        = "duration_us"
	ColOriginRequests    = "origin_requests"
	ColOriginDurationUs  = "origin_duration_us"
)

// ColMaxDurationUs is the longest request in microseconds: combine it with max.
const ColMaxDurationUs = "max_duration_us"

// Maps of the rollups, from a key to a UInt64: add them with sumMap.
const (
	ColByStatus         = "requests_by_status"          // UInt16
	ColByCountry        = "requests_by_country"         // String
	ColByContent        = "requests_by_content"         // String
	ColByCache          = "requests_by_cache"           // String
	ColBySSL            = "requests_by_ssl"             // String, "none" without TLS
	ColByMethod         = "requests_by_method"          // String
	ColByProtocol       = "requests_by_protocol"        // String
	ColByBrowser        = "requests_by_browser"         // String
	ColByOS             = "requests_by_os"              // String
	ColByDevice         = "requests_by_device"          // String
	ColByBot            = "requests_by_bot"             // String, "" for people
	ColByIPClass        = "requests_by_ip_class"        // String
	ColByHost           = "requests_by_host"            // String
	ColThreatsByType    = "threats_by_type"             // String
	ColThreatsByCountry = "threats_by_country"          // String
	ColViewsByEngine    = "page_views_by_search_engine" // String
	ColBytesByCountry   = "bytes_by_country"            // String
	ColBytesByContent   = "bytes_by_content"            // String
	ColDurationBins     = "duration_bins"               // Int16, histogram.Bin of microseconds
	ColOriginBins       = "origin_duration_bins"        // Int16, histogram.Bin of microseconds
	ColResponseBins     = "response_size_bins"          // Int16, histogram.Bin of bytes
)

// ColUniques is the state of the distinct client addresses: combine it with [UniquesMerge].
const ColUniques = "uniques"
