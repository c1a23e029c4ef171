package analytics

import "time"

// Dashboard is the answer about a zone's traffic.
type Dashboard struct {
	Window     Window    `json:"-"`
	Timeseries []Traffic `json:"timeseries"` // one for each point of the window, empty ones included
	Totals     Traffic   `json:"totals"`
}

// Counts are requests or bytes by a name. It is never nil in an answer, so that JSON has {}.
type Counts map[string]uint64

// Traffic is one point of a Dashboard, or its totals. Field order and names are those of Cloudflare's zone analytics;
// search_engine and ssl_protocol occur under two names because documents and clients disagree.
type Traffic struct {
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until"`
	Requests  Requests  `json:"requests"`
	Bandwidth Bandwidth `json:"bandwidth"`
	Threats   Threats   `json:"threats"`
	Pageviews Pageviews `json:"pageviews"`
	Uniques   Uniques   `json:"uniques"`
}

// Requests are numbers of requests. All is Cached plus Uncached.
type Requests struct {
	All          uint64 `json:"all"`
	Cached       uint64 `json:"cached"`
	Uncached     uint64 `json:"uncached"`
	SSL          SSL    `json:"ssl"`
	HTTPStatus   Counts `json:"http_status"`
	ContentType  Counts `json:"content_type"`
	Country      Counts `json:"country"`
	IPClass      Counts `json:"ip_class"`
	SSLProtocol  Counts `json:"ssl_protocol"`
	SSLProtocols Counts `json:"ssl_protocols"`
}

// Bandwidth is bytes sent to clients. Its SSLProtocol holds requests, as in the original.
type Bandwidth struct {
	All          uint64 `json:"all"`
	Cached       uint64 `json:"cached"`
	Uncached     uint64 `json:"uncached"`
	SSL          SSL    `json:"ssl"`
	SSLProtocol  Counts `json:"ssl_protocol"`
	SSLProtocols Counts `json:"ssl_protocols"`
	ContentType  Counts `json:"content_type"`
	Country      Counts `json:"country"`
}

// SSL splits requests or bytes by whether TLS was used.
type SSL struct {
	Encrypted   uint64 `json:"encrypted"`
	Unencrypted uint64 `json:"unencrypted"`
}

// Threats are the requests that the operator tagged.
type Threats struct {
	All     uint64 `json:"all"`
	Type    Counts `json:"type"`
	Country Counts `json:"country"`
}

// Pageviews are successful requests for HTML pages; those of search engines and monitors are also counted by name.
type Pageviews struct {
	All           uint64 `json:"all"`
	SearchEngine  Counts `json:"search_engine"`
	SearchEngines Counts `json:"search_engines"`
}

// Uniques is the number of client addresses. Points do not add up to the totals: a client that comes twice is one.
type Uniques struct {
	All uint64 `json:"all"`
}

// Colo is the traffic of one data centre.
type Colo struct {
	ColoID     string        `json:"colo_id"`
	Timeseries []ColoTraffic `json:"timeseries"`
	Totals     ColoTraffic   `json:"totals"`
}

// ColoTraffic is one point of a Colo, or its totals.
type ColoTraffic struct {
	Since     time.Time     `json:"since"`
	Until     time.Time     `json:"until"`
	Requests  ColoRequests  `json:"requests"`
	Bandwidth ColoBandwidth `json:"bandwidth"`
	Threats   Threats       `json:"threats"`
}

// ColoRequests are requests at one data centre.
type ColoRequests struct {
	All        uint64 `json:"all"`
	Cached     uint64 `json:"cached"`
	Uncached   uint64 `json:"uncached"`
	Country    Counts `json:"country"`
	HTTPStatus Counts `json:"http_status"`
}

// ColoBandwidth is bytes sent at one data centre.
type ColoBandwidth struct {
	All      uint64 `json:"all"`
	Cached   uint64 `json:"cached"`
	Uncached uint64 `json:"uncached"`
}

// Latency is the answer about request durations. Requests whose source knows no duration are not in it.
type Latency struct {
	Window     Window         `json:"-"`
	TimeDelta  int            `json:"time_delta"`
	Totals     LatencyTotals  `json:"totals"`
	Timeseries []LatencyPoint `json:"timeseries"`
	Heatmap    Heatmap        `json:"heatmap"`
}

// LatencyTotals sums a whole window up. Milliseconds are nil when Count is 0.
type LatencyTotals struct {
	Count  uint64   `json:"count"`
	MeanMs *float64 `json:"mean_ms"`
	P50Ms  *float64 `json:"p50_ms"`
	P90Ms  *float64 `json:"p90_ms"`
	P95Ms  *float64 `json:"p95_ms"`
	P99Ms  *float64 `json:"p99_ms"`
	P999Ms *float64 `json:"p999_ms"`
	MaxMs  *float64 `json:"max_ms"`
}

// LatencyPoint is one point. Milliseconds are nil when Count is 0.
type LatencyPoint struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	Count uint64    `json:"count"`
	P50Ms *float64  `json:"p50_ms"`
	P90Ms *float64  `json:"p90_ms"`
	P95Ms *float64  `json:"p95_ms"`
	P99Ms *float64  `json:"p99_ms"`
}

// Heatmap has how many requests took how long in each point. Bins ascend without holes between the least and the
// greatest in use; Counts are {index of the point, index of the bin, requests}, only those above 0, ordered.
type Heatmap struct {
	Bins   []HeatmapBin `json:"bins"`
	Counts [][3]uint64  `json:"counts"`
}

// HeatmapBin is a row of the heatmap: durations from LowMs on, HighMs excluded.
type HeatmapBin struct {
	LowMs  float64 `json:"low_ms"`
	HighMs float64 `json:"high_ms"`
}

// Top is the answer about the most frequent values of a dimension.
type Top struct {
	Window    Window   `json:"-"`
	Dimension string   `json:"dimension"`
	Rows      []TopRow `json:"rows"`
	Total     TopTotal `json:"total"`
	// ErrorBound says how much a value that is not among Rows may have although it was not seen: 0 when the answer is exact.
	ErrorBound TopTotal `json:"error_bound"`
}

// TopRow is one value. Errors are the requests answered with status 400 or above.
type TopRow struct {
	Value    string `json:"value"`
	Requests uint64 `json:"requests"`
	Bytes    uint64 `json:"bytes"`
	Errors   uint64 `json:"errors"`
	// ErrorBound says how much more the value may have.
	ErrorBound TopTotal `json:"error_bound"`
}

// TopTotal sums all values up, also those that are not among the rows.
type TopTotal struct {
	Requests uint64 `json:"requests"`
	Bytes    uint64 `json:"bytes"`
}

// Tick is one message of the live view.
type Tick struct {
	Now        int64       `json:"now"`         // Unix seconds
	LagSeconds float64     `json:"lag_seconds"` // age of the newest second when its events last became visible
	Points     []LivePoint `json:"points"`      // ascending
}

// LivePoint is one second. Milliseconds are nil when no request of it has a known duration.
type LivePoint struct {
	T        int64    `json:"t"` // Unix seconds
	Requests uint64   `json:"requests"`
	Bytes    uint64   `json:"bytes"`
	S2xx     uint64   `json:"s2xx"`
	S3xx     uint64   `json:"s3xx"`
	S4xx     uint64   `json:"s4xx"`
	S5xx     uint64   `json:"s5xx"`
	P50Ms    *float64 `json:"p50_ms"`
	P99Ms    *float64 `json:"p99_ms"`
}
