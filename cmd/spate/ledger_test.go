package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestLedger_OneLineAndAnExitCode(t *testing.T) {
	var asked string
	answers := map[bool]string{
		true:  `{"settled":"2026-03-01T12:00:00Z","complete":true,"reasons":[],"totals":{"stored":20000,"duplicates":1},"edges":[{"edge":"fra1"}]}`,
		false: `{"settled":"2026-03-01T12:00:00Z","complete":false,"reasons":["edge fra1: 2 batches never came, though later ones did"],"totals":{"stored":1234567},"edges":[{},{}]}`,
	}
	complete := true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RequestURI()
		if r.Header.Get("Authorization") != "Bearer a-token-of-the-configuration" {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"success":false,"errors":[{"code":9109,"message":"Invalid access token"}]}`)
			return
		}
		fmt.Fprintf(w, `{"success":true,"errors":[],"result":%s}`, answers[complete])
	}))
	defer s.Close()
	yaml := "data_dir: " + t.TempDir() + "\nhttp: {listen: \"" + strings.TrimPrefix(s.URL, "http://") + "\"}\n" +
		"api: {tokens: [{name: x, token: reader-of-zones-only, zones: all, scopes: [zones]}, {name: y, token: a-token-of-the-configuration, zones: all}]}\n"
	cases := []struct {
		name     string
		complete bool
		args     []string
		code     int
		out, err string
	}{
		{"complete", true, nil, 0, "complete: 20,000 events from 1 edge, 0 lost, 1 duplicate batches dropped, 0 late, up to 2026-03-01T12:00:00Z\n", ""},
		{"not_complete", false, []string{"--since", "2026-01-01T00:00:00Z", "--until", "1d"}, exitNo,
			"NOT complete: 1,234,567 events from 2 edges, 0 lost, 0 duplicate batches dropped, 0 late, up to 2026-03-01T12:00:00Z; edge fra1: 2 batches never came, though later ones did\n", ""},
		{"json", false, []string{"--json"}, exitNo, answers[false] + "\n", ""},
		{"wrong_token", true, []string{"--token", "another"}, exitFailure, "", "Invalid access token"},
		{"nobody_there", true, []string{"--url", "http://127.0.0.1:1"}, exitFailure, "", "no Spate answers"},
		{"wrong_time", true, []string{"--since", "yesterday"}, exitUsage, "", `"yesterday" is no time`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			complete = c.complete
			code, out, errOut := spateRun(t, yaml, append([]string{"ledger"}, c.args...)...)
			if code != c.code || out != c.out || !strings.Contains(errOut, c.err) {
				t.Errorf("exit code %d, want %d\nout  %q\nwant %q\nerr  %q", code, c.code, out, c.out, errOut)
			}
			if c.name == "not_complete" && !strings.Contains(asked, "since=2026-01-01T00%3A00%3A00Z&until="+time.Now().AddDate(0, 0, -1).UTC().Format("2006-01-02")) {
				t.Errorf("asked %s", asked)
			}
		})
	}
}

func TestThisMachine_IsAnAddressOfThisMachine(t *testing.T) {
	for listen, want := range map[string]string{"0.0.0.0:80": "127.0.0.1:80", ":80": "127.0.0.1:80", "[::]:80": "127.0.0.1:80", "10.0.0.1:80": "10.0.0.1:80"} {
		if got := thisMachine(listen); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}
