package api

import (
	"net/http"

	"github.com/spate-io/spate/analytics"
)

// route is a row of the table that both the handler and the OpenAPI document are made from.
type route struct {
	name, method, path string
	summary            string
	scope              string
	params             []param
	result             any  // an example of the type of result, for the document
	query              bool // the envelope has the field query
	paged              bool // the envelope has the field result_info
	free               bool // needs no token and no place among the concurrent ones
	answer             func(a *API, r *http.Request, who *caller) (*reply, error)
	stream             func(a *API, w http.ResponseWriter, r *http.Request, who *caller) error // instead of answer
}

// param is one parameter of a query.
type param struct {
	name, kind, about string // kind: string, integer, boolean or moment
	byDefault         any
	oneOf             []string
}

var (
	since = param{"since", "moment", "Start of the range, inclusive: RFC 3339, or minutes relative to now (0 or negative). The range may be a year long and lie as far back as data is kept.", -10080, nil}
	until = param{"until", "moment", "End of the range, exclusive, in the same forms.", 0, nil}
	delta = param{"time_delta", "integer", "Length of a point in minutes: 1, 15, 30, 60 or 1440. The length of the range decides when it is not given.", nil, nil}
)

func continuous(byDefault bool) param {
	return param{"continuous", "boolean", "Move the range back until it is completely aggregated.", byDefault, nil}
}

const zonePath = "/client/v4/zones/{zone}"

// routes is the table.
func (a *API) routes() []route {
	return []route{
		{
			name: "zones", method: "GET", path: "/client/v4/zones", scope: ScopeZones, paged: true,
			summary: "List the zones that the token may see, in the order of their names",
			params: []param{
				{"name", "string", "Only the zone of this name.", nil, nil},
				{"search", "string", "Only zones with this in their name.", nil, nil},
				{"status", "string", "Only zones of this status; all are active.", nil, nil},
				{"page", "integer", "Number of the page, from 1.", 1, nil},
				{"per_page", "integer", "Zones on a page, 1 to 1000.", 20, nil},
			},
			result: []zoneAnswer{}, answer: (*API).listZones,
		},
		{
			name: "zone", method: "GET", path: zonePath, scope: ScopeZones, summary: "One zone",
			result: zoneAnswer{}, answer: (*API).oneZone,
		},
		{
			name: "dashboard", method: "GET", path: zonePath + "/analytics/dashboard", scope: ScopeAnalytics, query: true,
			summary: "Traffic of a zone: totals and points",
			params:  []param{since, until, continuous(true), delta},
			result:  analytics.Dashboard{}, answer: (*API).dashboard,
		},
		{
			name: "colos", method: "GET", path: zonePath + "/analytics/colos", scope: ScopeAnalytics, query: true,
			summary: "Traffic of a zone by data centre",
			params:  []param{since, until, continuous(true), delta},
			result:  []analytics.Colo{}, answer: (*API).colos,
		},
		{
			name: "latency", method: "GET", path: zonePath + "/analytics/latency", scope: ScopeAnalytics, query: true,
			summary: "How long requests of a zone took: quantiles and heatmap",
			params:  []param{since, until, continuous(false), delta},
			result:  analytics.Latency{}, answer: (*API).latency,
		},
		{
			name: "top", method: "GET", path: zonePath + "/analytics/top", scope: ScopeAnalytics, query: true,
			summary: "The most frequent values of a dimension",
			params: []param{
				{"dimension", "string", "What to count by.", nil, analytics.Dimensions()},
				{"metric", "string", "What to order by.", "requests", []string{"requests", "bytes"}},
				{"limit", "integer", "Values to give, 1 to 1000.", 10, nil},
				since, until, continuous(false), delta,
			},
			result: analytics.Top{}, answer: (*API).top,
		},
		{
			name: "live", method: "GET", path: zonePath + "/analytics/live", scope: ScopeAnalytics,
			summary: "The last two minutes by second, as server-sent events: one event tick a second with the seconds that changed",
			result:  analytics.Tick{}, stream: (*API).live,
		},
		{
			name: "status", method: "GET", path: "/client/v4/system/status", scope: ScopeSystem,
			summary: "State of the system", result: map[string]any{}, answer: (*API).status,
		},
		{
			name: "delivery", method: "GET", path: "/client/v4/system/delivery", scope: ScopeSystem, query: true,
			summary: "What became of events, by edge and minute, and whether a range is complete",
			params: []param{
				{"since", "moment", "Start of the range, inclusive: RFC 3339, or minutes relative to now (0 or negative). The range may be 31 days long.", -60, nil},
				until,
			},
			result: analytics.Delivery{}, answer: (*API).delivery,
		},
		{
			name: "verify", method: "GET", path: "/client/v4/user/tokens/verify",
			summary: "Say whether the token is valid", result: verifyAnswer{}, answer: (*API).verify,
		},
	}
}
