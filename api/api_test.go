package api

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store"
)

// emptyStore answers every question with no rows, or as its hook says.
type emptyStore struct {
	store.DB
	hook func(ctx context.Context) error
}

func (e *emptyStore) Select(ctx context.Context, _ store.Query, _ proto.Results, _ func(context.Context, int) error) (store.Stats, error) {
	if e.hook != nil {
		return store.Stats{}, e.hook(ctx)
	}
	return store.Stats{}, nil
}

const (
	secretAll = "all-zones-secret-0001"
	secretOne = "one-zone-secret-00002"
)

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// withTokens is a configuration with a token for everything, one for one.com, and one that may list zones only.
func withTokens() Config {
	c := DefaultConfig()
	c.Tokens = []Token{
		{Name: "all", Token: secretAll, Zones: ZoneList{AllZones}},
		{Name: "one", TokenSHA256: hash(secretOne), Zones: ZoneList{"One.com"}},
		{Name: "lister", Token: "lister-secret-000003", Zones: ZoneList{AllZones}, Scopes: []string{ScopeZones}},
	}
	return c
}

func zones(t testing.TB, names ...string) *zone.Registry {
	t.Helper()
	cfg := zone.DefaultConfig()
	for _, n := range names {
		cfg.List = append(cfg.List, zone.Entry{Name: n})
	}
	r, err := zone.New(cfg, zone.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// serve starts a server over an API.
func serve(t testing.TB, cfg Config, deps Deps) *httptest.Server {
	t.Helper()
	s, _ := serveUntil(t, cfg, deps)
	return s
}

// serveUntil is serve, with a function that ends the context of all requests, as a server that stops does.
func serveUntil(t testing.TB, cfg Config, deps Deps) (*httptest.Server, func()) {
	t.Helper()
	var p config.Problems
	if cfg.Validate(&p); p.Err() != nil {
		t.Fatal(p.Err())
	}
	if deps.DB == nil {
		deps.DB = &emptyStore{}
	}
	if deps.Zones == nil {
		deps.Zones = zones(t, "one.com", "two.com")
	}
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := httptest.NewUnstartedServer(a.Handler())
	s.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	s.Start()
	t.Cleanup(func() { stop(); s.Close() })
	return s, stop
}

type answer struct {
	status int
	header http.Header
	body   string
	env    struct {
		Success bool
		Errors  []apiError
		Result  json.RawMessage
		Query   map[string]any
		Info    resultInfo `json:"result_info"`
	}
}

// get asks path with the headers given as "Name: value".
func get(t testing.TB, s *httptest.Server, path string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		if k == "Host" {
			req.Host = v
			continue
		}
		req.Header.Add(k, v)
	}
	res, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: res.StatusCode, header: res.Header, body: string(b)}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(b, &a.env); err != nil {
			t.Fatalf("%s: %v in %s", path, err, b)
		}
	}
	return a
}

// outcome is status, first code and first code of its chain, as text.
func (a answer) outcome() string {
	if len(a.env.Errors) == 0 {
		return fmt.Sprint(a.status)
	}
	e := a.env.Errors[0]
	if len(e.Chain) > 0 {
		return fmt.Sprintf("%d %d/%d", a.status, e.Code, e.Chain[0].Code)
	}
	return fmt.Sprintf("%d %d", a.status, e.Code)
}

func TestAuth_WhoMaySeeWhat(t *testing.T) {
	s := serve(t, withTokens(), Deps{})
	one, two, none := zone.ID("one.com"), zone.ID("two.com"), strings.Repeat("0", 32)
	dash := func(id string) string { return "/client/v4/zones/" + id + "/analytics/dashboard" }
	bearer := func(s string) string { return "Authorization: Bearer " + s }
	for _, c := range []struct {
		name, path string
		headers    []string
		want       string
	}{
		{"nobody", dash(one), nil, "401 10000"},
		{"all", dash(two), []string{bearer(secretAll)}, "200"},
		{"scheme_in_lower_case", dash(two), []string{"Authorization: bearer " + secretAll}, "200"},
		{"own_zone", dash(one), []string{bearer(secretOne)}, "200"},
		{"other_zone", dash(two), []string{bearer(secretOne)}, "403 10000"},
		{"other_zone_live", "/client/v4/zones/" + two + "/analytics/live", []string{bearer(secretOne)}, "403 10000"},
		{"other_zone_top", "/client/v4/zones/" + two + "/analytics/top?dimension=path", []string{bearer(secretOne)}, "403 10000"},
		{"other_zone_colos", "/client/v4/zones/" + two + "/analytics/colos", []string{bearer(secretOne)}, "403 10000"},
		{"other_zone_latency", "/client/v4/zones/" + two + "/analytics/latency", []string{bearer(secretOne)}, "403 10000"},
		{"other_zone_itself", "/client/v4/zones/" + two, []string{bearer(secretOne)}, "403 10000"},
		{"no_such_zone_looks_the_same", dash(none), []string{bearer(secretOne)}, "403 10000"},
		{"no_such_zone", dash(none), []string{bearer(secretAll)}, "404 7003"},
		{"not_an_id", dash("one.com"), []string{bearer(secretOne)}, "404 7003"},
		{"wrong_token", dash(one), []string{bearer("x" + secretAll)}, "403 9109"},
		{"empty_token", dash(one), []string{"Authorization: Bearer "}, "400 6003/6111"},
		{"strange_token", dash(one), []string{"Authorization: Bearer a b"}, "400 6003/6111"},
		{"other_scheme", dash(one), []string{"Authorization: Token " + secretAll}, "400 6003/6111"},
		{"two_authorizations", dash(one), []string{bearer(secretAll), bearer(secretAll)}, "400 6003/6111"},
		{"key_and_email", dash(one), []string{"X-Auth-Email: a@b.c", "X-Auth-Key: " + secretAll}, "200"},
		{"key_of_other_zone", dash(two), []string{"X-Auth-Email: a@b.c", "X-Auth-Key: " + secretOne}, "403 10000"},
		{"wrong_key", dash(one), []string{"X-Auth-Email: a@b.c", "X-Auth-Key: nope"}, "403 9103"},
		{"bad_key", dash(one), []string{"X-Auth-Email: a@b.c", "X-Auth-Key: no pe"}, "400 6003/6103"},
		{"bad_email", dash(one), []string{"X-Auth-Email: ab", "X-Auth-Key: " + secretAll}, "400 6003/6102"},
		{"scope_there", "/client/v4/zones", []string{bearer("lister-secret-000003")}, "200"},
		{"scope_missing", dash(one), []string{bearer("lister-secret-000003")}, "403 10000"},
		{"scope_missing_status", "/client/v4/system/status", []string{bearer("lister-secret-000003")}, "403 10000"},
		{"no_route", "/client/v4/nothing", []string{bearer(secretAll)}, "404 7003"},
		{"no_route_nobody", "/client/v4/nothing", nil, "401 10000"},
		{"verify", "/client/v4/user/tokens/verify", []string{bearer(secretOne)}, "200"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := get(t, s, c.path, c.headers...)
			if a.outcome() != c.want || a.env.Success != (a.status == 200) {
				t.Errorf("%s, want %s: %s", a.outcome(), c.want, a.body)
			}
			if a.status != 200 && !strings.Contains(a.body, `"messages":[]`) || a.status != 200 && !strings.Contains(a.body, `"result":null`) {
				t.Errorf("envelope %s", a.body)
			}
		})
	}
	t.Run("browser_is_asked_for_a_password", func(t *testing.T) {
		a := get(t, s, "/client/v4/zones", "Sec-Fetch-Site: same-origin")
		if !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Basic ") {
			t.Error(a.header)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/client/v4/zones", nil)
		req.SetBasicAuth("", secretOne)
		res, err := s.Client().Do(req)
		if err != nil || res.StatusCode != 200 {
			t.Error(err, res)
		}
		res.Body.Close()
	})
}

func TestAuth_WithoutTokensOnlyLoopbackNames(t *testing.T) {
	s := serve(t, DefaultConfig(), Deps{})
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8088": 200, "127.0.0.1:1": 200, "[::1]:80": 200, "demo.localhost": 200, "127.1.2.3": 200,
		"evil.example": 403, "127.0.0.1.evil.example": 403, "10.0.0.1": 403,
	} {
		if a := get(t, s, "/client/v4/zones", "Host: "+host); a.status != want {
			t.Errorf("host %s: %d, want %d", host, a.status, want)
		}
	}
}

func TestZones_Pages(t *testing.T) {
	var names []string
	for i := range 45 {
		names = append(names, fmt.Sprintf("site-%02d.com", i))
	}
	s := serve(t, withTokens(), Deps{Zones: zones(t, append(names, "one.com")...)})
	list := func(query string) ([]string, resultInfo) {
		t.Helper()
		a := get(t, s, "/client/v4/zones"+query, "Authorization: Bearer "+secretAll)
		var zs []zoneAnswer
		if err := json.Unmarshal(a.env.Result, &zs); err != nil || zs == nil {
			t.Fatalf("%s: %v", a.body, err)
		}
		var got []string
		for _, z := range zs {
			got = append(got, z.Name)
		}
		return got, a.env.Info
	}
	got, info := list("")
	if len(got) != 20 || got[0] != "one.com" || info != (resultInfo{1, 20, 3, 20, 47}) {
		t.Errorf("%v %+v", got, info)
	}
	if got, info = list("?page=3"); len(got) != 7 || got[6] != "unknown" || info.Count != 7 {
		t.Errorf("%v %+v", got, info)
	}
	if got, info = list("?page=9"); len(got) != 0 || info.TotalCount != 47 {
		t.Errorf("page past the end: %v %+v", got, info)
	}
	if got, _ = list("?name=SITE-07.com"); !cmp.Equal(got, []string{"site-07.com"}) {
		t.Error(got)
	}
	if got, _ = list("?search=-4&per_page=1000"); len(got) != 5 {
		t.Error(got)
	}
	if got, _ = list("?status=pending"); len(got) != 0 {
		t.Error(got)
	}
	a := get(t, s, "/client/v4/zones?per_page=50", "Authorization: Bearer "+secretOne)
	if a.env.Info.TotalCount != 1 || !strings.Contains(a.body, "one.com") {
		t.Errorf("a token of one zone lists %s", a.body)
	}
	for _, q := range []string{"?page=0", "?per_page=1001", "?page=x"} {
		if a := get(t, s, "/client/v4/zones"+q, "Authorization: Bearer "+secretAll); a.outcome() != "400 1004" {
			t.Errorf("%s: %s", q, a.body)
		}
	}
}

func TestQuestions_Refused(t *testing.T) {
	s := serve(t, DefaultConfig(), Deps{})
	base := "/client/v4/zones/" + zone.ID("one.com") + "/analytics/"
	for path, want := range map[string]string{
		"dashboard?since=-600000":                  "400 1005/1005",
		"dashboard?since=yesterday":                "400 1005/1005",
		"dashboard?since=-5&until=-9":              "400 1005/1005",
		"dashboard?since=-10080&time_delta=1":      "400 1005/1005",
		"dashboard?continuous=perhaps":             "400 1004",
		"dashboard?time_delta=x":                   "400 1004",
		"top":                                      "400 1004",
		"top?dimension=path&limit=5000":            "400 1004",
		"top?dimension=nothing":                    "400 1004",
		"top?dimension=path&metric=joy":            "400 1004",
		"dashboard?x=" + strings.Repeat("y", 5000): "414 1004",
		"nothing": "404 7003",
		"dashboard?since=2024-02-30T00%3A00%3A00Z":        "400 1005/1005",
		"colos?since=-35&until=-5&continuous=false":       "200",
		"top?dimension=path&metric=bytes&since=-30":       "200",
		"latency?since=-525600":                           "200",
		"dashboard":                                       "200",
		"dashboard?since=-100&until=0&time_delta=1&lang=": "200",
	} {
		if a := get(t, s, base+path); a.outcome() != want {
			t.Errorf("%.60s: %s, want %s: %.300s", path, a.outcome(), want, a.body)
		}
	}
	a := get(t, s, base+"dashboard?since=-600000")
	if a.env.Errors[0].Message != "Please check time interval or your plan level" {
		t.Error(a.body)
	}
	res, err := s.Client().Post(s.URL+base+"dashboard", "application/json", strings.NewReader("{}"))
	if err != nil || res.StatusCode != http.StatusNotFound && res.StatusCode != http.StatusMethodNotAllowed {
		t.Error(err, res.Status)
	}
	res.Body.Close()
}

func TestErrors_OfTheStore(t *testing.T) {
	db := &emptyStore{}
	cfg := DefaultConfig()
	cfg.QueryTimeout = config.Duration(100 * time.Millisecond)
	s := serve(t, cfg, Deps{DB: db})
	path := "/client/v4/zones/" + zone.ID("one.com") + "/analytics/dashboard"
	for _, c := range []struct {
		hook func(context.Context) error
		want string
	}{
		{func(context.Context) error { return &store.Error{Code: 60, Message: "secret table"} }, "500 1000"},
		{func(context.Context) error { return &store.Error{Code: store.CodeMemoryLimit} }, "429 971"},
		{func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "504 1101"},
		{nil, "200"},
	} {
		db.hook = c.hook
		a := get(t, s, path)
		if a.outcome() != c.want || strings.Contains(a.body, "secret") {
			t.Errorf("%s, want %s: %s", a.outcome(), c.want, a.body)
		}
	}
}

func TestLimits_OneTokenCannotTakeAllPlaces(t *testing.T) {
	entered, release := make(chan struct{}, 10), make(chan struct{})
	db := &emptyStore{hook: func(ctx context.Context) error {
		entered <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}}
	cfg := withTokens()
	cfg.MaxConcurrent, cfg.MaxPerToken = 2, 1
	s := serve(t, cfg, Deps{DB: db})
	path := "/client/v4/zones/" + zone.ID("one.com") + "/analytics/dashboard"
	done := make(chan string, 2)
	go func() { done <- get(t, s, path, "Authorization: Bearer "+secretOne).outcome() }()
	<-entered
	if a := get(t, s, path, "Authorization: Bearer "+secretOne); a.outcome() != "429 971" || a.header.Get("Retry-After") == "" {
		t.Errorf("second question of the same token: %s", a.body)
	}
	other := strings.Replace(path, zone.ID("one.com"), zone.ID("two.com"), 1) // the same question would share the answer
	go func() { done <- get(t, s, other, "Authorization: Bearer "+secretAll).outcome() }()
	<-entered
	close(release)
	for range 2 {
		if o := <-done; o != "200" {
			t.Error(o)
		}
	}
}

func TestAnswers_CompressedAndNamed(t *testing.T) {
	s := serve(t, DefaultConfig(), Deps{})
	path := s.URL + "/client/v4/zones/" + zone.ID("one.com") + "/analytics/dashboard"
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	for header, want := range map[string]string{
		"gzip": "gzip", "br, GZIP;q=0.5": "gzip", "*": "gzip", "": "", "br": "", "gzip;q=0": "", "gzip; q=0.0, br": "",
	} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		req.Header.Set("Accept-Encoding", header)
		req.Header.Set("X-Request-Id", "abc-1")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var body io.Reader = res.Body
		if res.Header.Get("Content-Encoding") != want {
			t.Errorf("accepting %q gave encoding %q", header, res.Header.Get("Content-Encoding"))
		}
		if want == "gzip" {
			if body, err = gzip.NewReader(res.Body); err != nil {
				t.Fatal(err)
			}
		}
		if b, err := io.ReadAll(body); err != nil || !json.Valid(b) {
			t.Errorf("accepting %q: %v %.80s", header, err, b)
		}
		if res.Header.Get("X-Request-Id") != "abc-1" || res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Error(res.Header)
		}
		res.Body.Close()
	}
	if id := get(t, s, "/client/v4/zones", "X-Request-Id: <script>").header.Get("X-Request-Id"); len(id) != 16 {
		t.Errorf("request id %q", id)
	}
}

func TestSystem_StatusAndPages(t *testing.T) {
	s := serve(t, DefaultConfig(), Deps{
		Status:    func() any { return map[string]any{"version": "1.2.3"} },
		Dashboard: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "page") }),
	})
	if a := get(t, s, "/client/v4/system/status"); string(a.env.Result) != `{"version":"1.2.3"}` {
		t.Error(a.body)
	}
	if a := get(t, s, "/"); a.body != "page" {
		t.Error(a.body)
	}
	if a := get(t, s, "/zones/anything"); a.body != "page" {
		t.Error(a.body)
	}
}

func TestConfig_Validate(t *testing.T) {
	c := DefaultConfig()
	c.MaxConcurrent, c.MaxPerToken, c.MaxStreams, c.QueryTimeout, c.Heartbeat = 0, 0, -1, 0, 0
	c.Analytics.LiveZones = 0
	c.Tokens = []Token{
		{Name: "a", Token: "short", Zones: ZoneList{"all", "one.com"}},
		{Name: "a", Token: "has spaces in it, many", TokenSHA256: "xyz", Scopes: []string{"write"}},
	}
	var p config.Problems
	c.Validate(&p)
	c.Tokens = nil
	c.CheckExposure(&p, false)
	text := fmt.Sprint(p.Err())
	for _, want := range []string{
		"max_concurrent must", "max_per_token must", "max_streams must", "query_timeout must", "heartbeat must", "analytics.live_zones must",
		"tokens[0].token must", "tokens[0].zones[0] must", "tokens[1].name must differ", "tokens[1].token or token_sha256", "tokens[1].token must",
		"tokens[1].token_sha256 must", "tokens[1].zones must", "tokens[1].scopes[0] must", "tokens must name at least one",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "short") || strings.Contains(text, "spaces in it") {
		t.Error("a token is in the message")
	}
	var ok config.Problems
	d := DefaultConfig()
	d.CheckExposure(&ok, true)
	if ok.Err() != nil {
		t.Error(ok.Err())
	}
}

// section lets the configuration's reader read ours.
type section struct {
	API Config `yaml:"api"`
}

func (s *section) Validate(p *config.Problems) { p.Under("api", s.API.Validate) }

func TestConfig_ReadsYAML(t *testing.T) {
	s := section{DefaultConfig()}
	in := "api:\n  tokens:\n    - {name: a, token: 0123456789abcdef, zones: all}\n    - {name: b, token: 0123456789abcdeg, zones: [one.com]}\n"
	if err := config.Read(strings.NewReader(in), nil, &s); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]ZoneList{{"all"}, {"one.com"}}, []ZoneList{s.API.Tokens[0].Zones, s.API.Tokens[1].Zones}); d != "" {
		t.Error(d)
	}
}
