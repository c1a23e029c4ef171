package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// topAnswer is what the API says of the top of a dimension.
type topAnswer struct {
	Query struct {
		Since, Until string
		Delta        int `json:"time_delta"`
	} `json:"query"`
	Result struct {
		Rows []struct {
			Value      string
			Requests   int
			ErrorBound struct{ Requests int } `json:"error_bound"`
		}
		Total      struct{ Requests int }
		ErrorBound struct{ Requests int } `json:"error_bound"`
	}
}

func askTop(t *testing.T, s *spate, zone, dimension, since, until string) topAnswer {
	t.Helper()
	body, err := text(s.base + "/client/v4/zones/" + zone + "/analytics/top?limit=5&dimension=" + dimension + "&since=" + since + "&until=" + until)
	if err != nil {
		t.Fatal(err)
	}
	var a topAnswer
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return a
}

// A log of years ago is imported; when its single requests have expired, and after a restart, the most frequent paths and
// addresses are what they were.
func TestTop_WhenSingleRequestsHaveExpired(t *testing.T) {
	serve := freePort(t)
	s := newSpate(t, "store:\n  serve:\n    listen: "+serve+"\ntops:\n  every: 1s\n")
	s.start()
	var lines []string
	for i := range 3000 {
		lines = append(lines, fmt.Sprintf(`192.0.2.%d - - [10/Oct/2023:13:%02d:36 +0000] "GET /n/%d HTTP/1.1" 200 23 "-" "curl/8"`, i%(1+i%97), i/50%60, i%7*i%11))
	}
	lines = append(lines, `192.0.2.250 - - [11/Oct/2023:03:00:00 +0000] "GET /few HTTP/1.1" 200 23 "-" "curl/8"`) // an hour without lists of its own
	if out, err := s.run("import", writeLog(t, lines), "--host", "top.test"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	query := func(sql string) string {
		t.Helper()
		got, err := text("http://" + serve + "/?query=" + url.QueryEscape(sql))
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return got
	}
	waitFor(t, 60*time.Second, "top lists", func() error {
		if got := query("SELECT (SELECT countDistinct(dimension) FROM http_requests_top_1h FINAL WHERE requests = 3000), (SELECT sum(requests) FROM http_requests_top_1d FINAL WHERE dimension = '*')"); got != "17\t3001" {
			return fmt.Errorf("dimensions of the hour, and requests of the days: %s", got)
		}
		return nil
	})
	zone := query("SELECT id FROM zones FINAL WHERE name = 'top.test'")
	questions := [][3]string{
		{"path", "2023-10-10T13:00:00Z", "2023-10-10T14:00:00Z"}, {"client_ip", "2023-10-10T12:00:00Z", "2023-10-10T18:00:00Z"},
		{"path", "2023-10-08T00:00:00Z", "2023-10-13T00:00:00Z"}, {"user_agent", "2023-10-11T00:00:00Z", "2023-10-12T00:00:00Z"},
	}
	var before []topAnswer
	for _, q := range questions {
		a := askTop(t, s, zone, q[0], q[1], q[2])
		if len(a.Result.Rows) == 0 || a.Result.ErrorBound.Requests != 0 {
			t.Fatalf("%v: %+v", q, a)
		}
		before = append(before, a)
	}
	res, err := client.Post("http://"+serve+"/", "text/plain", strings.NewReader("TRUNCATE TABLE http_requests"))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if got := query("SELECT count() FROM http_requests"); got != "0" {
		t.Fatalf("%s requests are left", got)
	}
	s.kill()
	s.start()
	for i, q := range questions {
		a := askTop(t, s, zone, q[0], q[1], q[2])
		if fmt.Sprint(a.Result) != fmt.Sprint(before[i].Result) {
			t.Errorf("%v: %+v, before %+v", q, a, before[i])
		}
	}
	// Part of an hour is answered by the hour, part of a day with few requests by the day.
	if a := askTop(t, s, zone, "path", "2023-10-10T13:10:00Z", "2023-10-10T13:20:00Z"); a.Result.Total.Requests != 3000 || a.Query.Delta != 60 {
		t.Errorf("part of an hour: %+v", a)
	}
	if a := askTop(t, s, zone, "path", "2023-10-11T02:00:00Z", "2023-10-11T04:00:00Z"); a.Query.Since != "2023-10-11T00:00:00Z" || a.Query.Delta != 1440 || a.Result.Total.Requests != 1 {
		t.Errorf("hours with few requests: %+v", a)
	}
}
