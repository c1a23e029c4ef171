package api

import (
	"net/http"

	"github.com/spate-io/spate/analytics"
)

func (a *API) delivery(r *http.Request, _ *caller) (*reply, error) {
	q := r.URL.Query()
	var backlog analytics.Backlog
	if a.deps.Backlog != nil {
		backlog = a.deps.Backlog()
	}
	d, err := a.ask.Delivery(r.Context(), analytics.Range{Since: q.Get("since"), Until: q.Get("until")}, backlog)
	if err != nil {
		return nil, err
	}
	return &reply{result: d, query: echo(d.Window)}, nil
}
