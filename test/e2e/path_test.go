package e2e

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const zonesYAML = `
zones:
  auto: true
  list:
    - {name: alpha.test, hosts: [alpha.test, www.alpha.test]}
    - {name: beta.test, hosts: [beta.test]}
`

// api reduces what the API answers to the same counts as the access log.
func (s *spate) api(t *testing.T, since, until time.Time) (total int, c counts, err error) {
	t.Helper()
	c = counts{}
	var zones struct{ Result []struct{ ID, Name string } }
	if err := s.get("/client/v4/zones?per_page=50", &zones); err != nil {
		return 0, nil, err
	}
	span := "since=" + url.QueryEscape(since.Format(time.RFC3339)) + "&until=" + url.QueryEscape(until.Format(time.RFC3339)) + "&continuous=false"
	for _, z := range zones.Result {
		n, err := s.zoneCounts(z.ID, z.Name, span, c)
		if err != nil {
			return 0, nil, err
		}
		total += n
	}
	return total, c, nil
}

func (s *spate) zoneCounts(id, name, span string, c counts) (total int, err error) {
	type point struct {
		Since    time.Time
		Requests struct {
			All        int
			HTTPStatus map[string]int `json:"http_status"`
		}
	}
	var dash struct {
		Query struct {
			TimeDelta int `json:"time_delta"`
		}
		Result struct {
			Totals     point
			Timeseries []point
		}
	}
	if err := s.get("/client/v4/zones/"+id+"/analytics/dashboard?"+span, &dash); err != nil {
		return 0, err
	}
	if dash.Query.TimeDelta != 1 {
		return 0, fmt.Errorf("points of %d minutes, want 1", dash.Query.TimeDelta)
	}
	for status, n := range dash.Result.Totals.Requests.HTTPStatus {
		c["zone "+name+" status "+status] += n
	}
	for _, p := range dash.Result.Timeseries {
		if p.Requests.All > 0 {
			c["zone "+name+" minute "+p.Since.UTC().Format(time.RFC3339)] += p.Requests.All
		}
	}
	var top struct {
		Result struct {
			Rows []struct {
				Value    string
				Requests int
			}
		}
	}
	if err := s.get("/client/v4/zones/"+id+"/analytics/top?dimension=host&limit=100&"+span, &top); err != nil {
		return 0, err
	}
	for _, row := range top.Result.Rows {
		c["zone "+name+" host "+row.Value] += row.Requests
	}
	return dash.Result.Totals.Requests.All, nil
}

// settle waits until the API has as many requests as nginx logged, and then compares everything.
func settle(t *testing.T, s *spate, e *edge, began time.Time, limit time.Duration) time.Duration {
	t.Helper()
	since, until := began.Truncate(time.Minute), began.Add(55*time.Minute).Truncate(time.Minute)
	asked := time.Now()
	want, wantCounts := e.accessLog(t)
	waitFor(t, limit, "the API to have every request", func() error {
		got, _, err := s.api(t, since, until)
		if err == nil && got != want {
			err = fmt.Errorf("API has %d requests, nginx logged %d", got, want)
		}
		return err
	})
	took := time.Since(asked)
	_, got, err := s.api(t, since, until)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(wantCounts, got); d != "" {
		t.Errorf("nginx's log (-) and Spate (+) differ:\n%s", d)
	}
	return took
}

func TestPath_EveryRequestOfARealNginxOnceThroughKill(t *testing.T) {
	s := newSpate(t, zonesYAML)
	t.Logf("first start took %s", s.start())
	e := startEdge(t, s)
	began := time.Now()
	tr := traffic{addrs: e.addrs, seed: 1}

	tr.send(t, 10000)
	s.kill() // in the middle: workers hold frames, batches are on their way
	tr.send(t, 5000)
	t.Logf("start after kill -9 took %s", s.start())
	tr.send(t, 5000)
	t.Logf("settled after %s", settle(t, s, e, began, 60*time.Second))

	t.Run("last_request_within_3s", func(t *testing.T) {
		tr.send(t, 1)
		settle(t, s, e, began, 3*time.Second)
	})
	t.Run("still_equal_after_clean_restart", func(t *testing.T) {
		s.stop()
		took := s.start()
		t.Logf("start with data took %s", took)
		settle(t, s, e, began, 10*time.Second)
	})
	t.Run("ledger_says_complete", func(t *testing.T) {
		waitFor(t, 20*time.Second, "the ledger to close", func() error {
			out, err := s.run("ledger", "--since", "1h")
			t.Log(out)
			return err
		})
	})
	t.Run("record_on_the_bus_is_plain_capnp", func(t *testing.T) { checkBusRecords(t, s, e) })
	t.Run("page_shows_what_the_api_says", func(t *testing.T) { checkPage(t, s) })
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
