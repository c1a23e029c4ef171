package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spate-io/spate/analytics"
	"github.com/spate-io/spate/internal/zone"
)

// reply is what a handler gives; it becomes the envelope.
type reply struct {
	result   any
	query    *queryEcho
	info     *resultInfo
	messages []apiError
}

// envelope is the outer form of every answer.
type envelope struct {
	Success  bool        `json:"success"`
	Query    *queryEcho  `json:"query,omitempty"`
	Errors   []apiError  `json:"errors"`
	Messages []apiError  `json:"messages"`
	Result   any         `json:"result"`
	Info     *resultInfo `json:"result_info,omitempty"`
}

// queryEcho says what range the answer is about.
type queryEcho struct {
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until"`
	TimeDelta int       `json:"time_delta"`
}

func echo(w analytics.Window) *queryEcho { return &queryEcho{w.Since, w.Until, w.Minutes()} }

// resultInfo says which page of a list the answer is.
type resultInfo struct {
	Page       int `json:"page"`
	PerPage    int `json:"per_page"`
	TotalPages int `json:"total_pages"`
	Count      int `json:"count"`
	TotalCount int `json:"total_count"`
}

type zoneAnswer struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Status     string     `json:"status"`
	Paused     bool       `json:"paused"`
	Type       string     `json:"type"`
	Hosts      []string   `json:"hosts"`
	Plan       planAnswer `json:"plan"`
	CreatedOn  time.Time  `json:"created_on"`
	ModifiedOn time.Time  `json:"modified_on"`
}

type planAnswer struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	LegacyID string `json:"legacy_id"`
}

type verifyAnswer struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

func answerZone(z *zone.Zone) zoneAnswer {
	hosts := z.Hosts
	if hosts == nil {
		hosts = []string{}
	}
	return zoneAnswer{
		ID: z.ID, Name: z.Name, Status: "active", Type: "full", Hosts: hosts, CreatedOn: z.Created, ModifiedOn: z.Created,
		Plan: planAnswer{ID: zone.ID("plan:" + z.Plan), Name: z.Plan, LegacyID: z.Plan},
	}
}

// zone gives the zone of the path, if the caller may see it. Whoever may not see all zones cannot tell a zone that is not
// there from one that is not theirs.
func (a *API) zone(r *http.Request, who *caller) (*zone.Zone, error) {
	id := r.PathValue("zone")
	z, ok := a.deps.Zones.Get(id)
	switch {
	case ok && who.may(z):
		return z, nil
	case !who.all && zone.ValidID(id):
		return nil, errForbidden()
	default:
		return nil, errNoObject(r.URL.Path)
	}
}

func (a *API) listZones(r *http.Request, who *caller) (*reply, error) {
	q := values{r.URL.Query()}
	page, err := q.number("page", 1, 1, 1<<30)
	if err != nil {
		return nil, err
	}
	per, err := q.number("per_page", 20, 1, 1000)
	if err != nil {
		return nil, err
	}
	name, search, status := strings.ToLower(q.Get("name")), strings.ToLower(q.Get("search")), q.Get("status")
	zones := []zoneAnswer{}
	total := 0
	for _, z := range a.deps.Zones.All() {
		if !who.may(z) || name != "" && z.Name != name || !strings.Contains(z.Name, search) || status != "" && status != "active" {
			continue
		}
		if total++; total > (page-1)*per && len(zones) < per {
			zones = append(zones, answerZone(z))
		}
	}
	info := &resultInfo{Page: page, PerPage: per, TotalPages: (total + per - 1) / per, Count: len(zones), TotalCount: total}
	return &reply{result: zones, info: info}, nil
}

func (a *API) oneZone(r *http.Request, who *caller) (*reply, error) {
	z, err := a.zone(r, who)
	if err != nil {
		return nil, err
	}
	return &reply{result: answerZone(z)}, nil
}

func (a *API) dashboard(r *http.Request, who *caller) (*reply, error) {
	z, span, err := a.question(r, who, true)
	if err != nil {
		return nil, err
	}
	d, err := a.ask.Dashboard(r.Context(), z.ID, span)
	if err != nil {
		return nil, err
	}
	return &reply{result: d, query: echo(d.Window)}, nil
}

func (a *API) colos(r *http.Request, who *caller) (*reply, error) {
	z, span, err := a.question(r, who, true)
	if err != nil {
		return nil, err
	}
	colos, w, err := a.ask.Colos(r.Context(), z.ID, span)
	if err != nil {
		return nil, err
	}
	return &reply{result: colos, query: echo(w)}, nil
}

func (a *API) latency(r *http.Request, who *caller) (*reply, error) {
	z, span, err := a.question(r, who, false)
	if err != nil {
		return nil, err
	}
	l, err := a.ask.Latency(r.Context(), z.ID, span)
	if err != nil {
		return nil, err
	}
	return &reply{result: l, query: echo(l.Window)}, nil
}

func (a *API) top(r *http.Request, who *caller) (*reply, error) {
	z, span, err := a.question(r, who, false)
	if err != nil {
		return nil, err
	}
	q := values{r.URL.Query()}
	limit, err := q.number("limit", 10, 1, 1000)
	if err != nil {
		return nil, err
	}
	t, err := a.ask.Top(r.Context(), z.ID, span, analytics.TopQuestion{Dimension: q.Get("dimension"), Metric: q.Get("metric"), Limit: limit})
	if err != nil {
		return nil, err
	}
	return &reply{result: t, query: echo(t.Window)}, nil
}

// question reads what all questions about a zone have in common.
func (a *API) question(r *http.Request, who *caller, continuous bool) (*zone.Zone, analytics.Range, error) {
	z, err := a.zone(r, who)
	if err != nil {
		return nil, analytics.Range{}, err
	}
	q := values{r.URL.Query()}
	span := analytics.Range{Since: q.Get("since"), Until: q.Get("until")}
	if span.Continuous, err = q.boolean("continuous", continuous); err != nil {
		return nil, span, err
	}
	if span.Delta, err = q.number("time_delta", 0, 1, 1440); err != nil {
		return nil, span, err
	}
	return z, span, nil
}

func (a *API) status(_ *http.Request, _ *caller) (*reply, error) {
	if a.deps.Status == nil {
		return &reply{result: map[string]any{}}, nil
	}
	return &reply{result: a.deps.Status()}, nil
}

func (a *API) verify(_ *http.Request, who *caller) (*reply, error) {
	return &reply{
		result:   verifyAnswer{ID: who.id(), Status: "active"},
		messages: []apiError{{Code: 10000, Message: "This API Token is valid and active"}},
	}, nil
}

func noRoute(_ *API, r *http.Request, _ *caller) (*reply, error) { return nil, errNoRoute(r.URL.Path) }

// values reads typed parameters.
type values struct{ url.Values }

func (v values) number(name string, byDefault, least, most int) (int, error) {
	s := v.Get(name)
	if s == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		return 0, errParameter(name, "must be "+strconv.Itoa(least)+" to "+strconv.Itoa(most))
	}
	return n, nil
}

func (v values) boolean(name string, byDefault bool) (bool, error) {
	switch strings.ToLower(v.Get(name)) {
	case "":
		return byDefault, nil
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	default:
		return false, errParameter(name, "must be true or false")
	}
}
