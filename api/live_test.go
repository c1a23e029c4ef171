package api

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store"
)

// stream opens the live stream of one.com and gives its lines until it ends.
func stream(t *testing.T, base string) (lines <-chan string, res *http.Response) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/client/v4/zones/"+zone.ID("one.com")+"/analytics/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err = http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan string, 100)
	go func() {
		defer close(out)
		defer res.Body.Close()
		for sc := bufio.NewScanner(res.Body); sc.Scan(); {
			out <- sc.Text()
		}
	}()
	return out, res
}

func TestLive_TicksEverySecond(t *testing.T) {
	s := serve(t, DefaultConfig(), Deps{})
	lines, res := stream(t, s.URL)
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatal(got)
	}
	doc := decode(t, get(t, s, "/api/openapi.json").body).(map[string]any)
	op := resolve(doc, doc["paths"].(map[string]any)["/client/v4/zones/{zone}/analytics/live"].(map[string]any)["get"]).(map[string]any)
	schema := op["responses"].(map[string]any)["200"].(map[string]any)["content"].(map[string]any)["text/event-stream"].(map[string]any)["schema"].(map[string]any)
	began := time.Now()
	for range 3 {
		if got := <-lines; got != "event: tick" {
			t.Fatalf("%q", got)
		}
		data, ok := strings.CutPrefix(<-lines, "data: ")
		if !ok || <-lines != "" {
			t.Fatal("a tick is one line of data and an empty line")
		}
		valid(t, "tick", schema, decode(t, data))
	}
	if took := time.Since(began); took < 1500*time.Millisecond || took > 10*time.Second {
		t.Errorf("three ticks in %s", took)
	}
}

func TestLive_EndsWithTheServer(t *testing.T) {
	s, stop := serveUntil(t, DefaultConfig(), Deps{})
	lines, _ := stream(t, s.URL)
	<-lines
	ended := make(chan struct{})
	go func() {
		for range lines {
		}
		close(ended)
	}()
	stop()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the stream did not end")
	}
}

func TestLive_SaysItIsAliveWhenTheStoreIsNot(t *testing.T) {
	calls := 0
	db := &emptyStore{hook: func(context.Context) error {
		if calls++; calls > 1 {
			return &store.Error{Code: store.CodeTooManyParts}
		}
		return nil
	}}
	cfg := DefaultConfig()
	cfg.Heartbeat = config.Duration(time.Second)
	s := serve(t, cfg, Deps{DB: db})
	lines, _ := stream(t, s.URL)
	for line := range lines {
		if strings.HasPrefix(line, ": no answer") {
			return
		}
	}
	t.Fatal("the stream ended without a word")
}

func TestLive_RefusedBeforeItStarts(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxStreams = 0
	s := serve(t, cfg, Deps{})
	if a := get(t, s, "/client/v4/zones/"+zone.ID("one.com")+"/analytics/live"); a.outcome() != "429 971" {
		t.Error(a.body)
	}
	s = serve(t, DefaultConfig(), Deps{DB: &emptyStore{hook: func(context.Context) error { return &store.Error{Code: 1} }}})
	if a := get(t, s, "/client/v4/zones/"+zone.ID("one.com")+"/analytics/live"); a.outcome() != "500 1000" {
		t.Error(a.body)
	}
}
