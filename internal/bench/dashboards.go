package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spate-io/spate/api"
	"github.com/spate-io/spate/internal/zone"
)

// quietState names the answers that were asked for while nothing else went on.
const quietState = "no ingest"

// warmAnswers are the first ones of each caller, which do not count.
const warmAnswers = 5

// What a dashboard's answer should reach.
const (
	targetP99     = 50 // milliseconds
	targetAnswers = 150
)

// question is one kind of question.
type question struct {
	name, path string
	busiest    bool
	aimed      bool // has a target
}

func questions() (under, quietOnly []question) {
	for _, span := range []struct{ name, since string }{{"24 h", "-1440"}, {"7 days", "-10080"}, {"30 days", "-43200"}} {
		for _, busiest := range []bool{false, true} {
			under = append(under, question{"dashboard, " + span.name, "dashboard?since=" + span.since, busiest, true})
		}
	}
	for _, q := range []question{
		{"uniques and requests by hour, 72 h", "dashboard?since=-4320", false, false},
		{"latency, 24 h", "latency?since=-1440", false, false},
		{"colos, 24 h", "colos?since=-1440", false, false},
		{"top paths, 24 h", "top?dimension=path&since=-1440", false, false},
		{"top addresses, 7 days", "top?dimension=client_ip&since=-10080", false, false},
	} {
		quietOnly = append(quietOnly, q)
		q.busiest = true
		quietOnly = append(quietOnly, q)
	}
	return under, quietOnly
}

// measureDashboards makes or reuses the history and asks about it, with and without ingest.
func (s *Store) measureDashboards(ctx context.Context) error {
	if s.o.Events == 0 {
		return nil
	}
	if err := s.bringHistory(ctx); err != nil {
		return err
	}
	clock := &clock{start: s.kept.End}
	srv, err := s.serve(ctx, clock)
	if err != nil {
		return errors.Join(err, s.db.Close())
	}
	defer srv.close()
	under, quiet := questions()
	resetPeak()
	err = s.askAll(ctx, srv, quietState, append(under, quiet...))
	if err == nil && s.kept.Maximum > 0 {
		err = s.askUnderLoad(ctx, srv, clock, under)
	}
	if n := s.retries.Load(); n > 0 {
		s.report.add("memory", "inserts tried again for want of it", float64(n), "")
	}
	s.report.add("memory", "peak while dashboards were asked", float64(peakMemory())/(1<<20), "MiB")
	return errors.Join(err, s.db.Close())
}

func (s *Store) bringHistory(ctx context.Context) error {
	const name = "history"
	if k := s.kept; k.Events == s.o.Events && k.Zones == s.o.Zones && k.Days == s.o.Days && !k.End.IsZero() {
		s.say("using the history in %s", s.o.Dir)
		if err := s.open(ctx, name); err != nil {
			return err
		}
	} else {
		if err := s.makeHistory(ctx, name); err != nil {
			return err
		}
	}
	if err := s.settle(ctx, 10*time.Minute); err != nil {
		return err
	}
	raw, rollups, err := s.bytesPerRow(ctx)
	if err != nil {
		return err
	}
	s.report.set("history", fmt.Sprintf("%s requests, %d days", number(float64(s.o.Events)), s.o.Days))
	s.report.add("size, history", "raw, every column filled, random request id", raw, "bytes/request")
	s.report.add("size, history", "all rollups", rollups, "bytes/request")
	return nil
}

func (s *Store) makeHistory(ctx context.Context, name string) error {
	s.kept.Events = 0 // what was there is no longer whole
	if err := s.keep(); err != nil {
		return err
	}
	if err := s.fresh(ctx, name); err != nil {
		return err
	}
	end := time.Now().UTC().Truncate(time.Hour)
	resetPeak()
	start := time.Now()
	if err := s.split(ctx); err != nil {
		return errors.Join(err, s.db.Close())
	}
	n, err := s.history(ctx, end)
	if err == nil {
		err = s.join(ctx)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make history: %w", err), s.db.Close())
	}
	s.report.add("history", "made, into all tables", float64(n)/time.Since(start).Seconds(), "requests/s")
	s.report.add("memory", "peak while the history was made", float64(peakMemory())/(1<<20), "MiB")
	s.kept.Events, s.kept.Zones, s.kept.Days, s.kept.Log, s.kept.End = s.o.Events, s.o.Zones, s.o.Days, s.o.Log, end
	return s.keep()
}

// clock is the API's: it stands at the end of the history, and goes on from there while traffic comes in.
type clock struct {
	mu    sync.Mutex
	start time.Time
	since time.Time // zero: it stands
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return c.start
	}
	return c.start.Add(time.Since(c.since))
}

func (c *clock) run(from time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = from
}

// server is the API behind a listener.
type server struct {
	http   *http.Server
	url    string
	client *http.Client
}

func (s *Store) serve(ctx context.Context, c *clock) (*server, error) {
	cfg := s.o.API
	cfg.Tokens = nil
	cfg.Analytics.ShareFor = 0 // every answer is computed
	cfg.MaxConcurrent = max(cfg.MaxConcurrent, s.o.Callers)
	a, err := api.New(cfg, api.Deps{DB: s.db, Zones: s.zones, Logger: s.log, Now: c.now})
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	srv := &server{
		http: &http.Server{Handler: a.Handler(), ReadHeaderTimeout: 10 * time.Second}, url: "http://" + l.Addr().String() + "/client/v4/zones/",
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: s.o.Callers}},
	}
	go func() { _ = srv.http.Serve(l) }() // ends when it is closed
	return srv, nil
}

func (srv *server) close() {
	srv.client.CloseIdleConnections()
	_ = srv.http.Close()
}

// askUnderLoad asks while half of what the whole way takes at most comes in.
func (s *Store) askUnderLoad(ctx context.Context, srv *server, c *clock, list []question) error {
	rate := s.kept.Maximum / 2
	length := time.Duration(len(list)+1)*(s.o.Each+2*time.Second) + 10*time.Second
	s.say("preparing %s requests for the ingest beside the questions", number(rate*length.Seconds()))
	p, err := s.startPressure(ctx, rate, length, s.kept.End)
	if err != nil {
		return err
	}
	c.run(p.from)
	askErr := s.askAll(ctx, srv, "ingest at half", list)
	sent, stored, err := p.end()
	s.report.add("ingest beside", "sent", sent, "requests/s")
	s.report.add("ingest beside", "stored", stored, "requests/s")
	return errors.Join(askErr, err)
}

func (s *Store) askAll(ctx context.Context, srv *server, state string, list []question) error {
	for _, q := range list {
		used := cpuTime()
		took, elapsed, err := s.askOne(ctx, srv, q)
		if err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		used = (cpuTime() - used) / time.Duration(len(took)+warmAnswers*s.o.Callers)
		part := state + ", zones by Zipf"
		if q.busiest {
			part = state + ", busiest zone"
		}
		ms := func(q float64) float64 { return float64(quantile(took, q).Microseconds()) / 1000 }
		rate := float64(len(took)) / elapsed.Seconds()
		s.say("%s: %s: %s/s, p50 %s ms, p99 %s ms", part, q.name, number(rate), number(ms(0.5)), number(ms(0.99)))
		s.report.add(part, q.name+", p50", ms(0.5), "ms")
		if q.aimed {
			s.report.atMost(part, q.name+", p99", ms(0.99), "ms", targetP99)
			s.report.atLeast(part, q.name, rate, "answers/s", targetAnswers)
		} else {
			s.report.add(part, q.name+", p99", ms(0.99), "ms")
			s.report.add(part, q.name, rate, "answers/s")
		}
		if state == quietState {
			s.report.add(part, q.name+", processor time, asking included", float64(used.Microseconds())/1000, "ms/answer")
		}
	}
	return nil
}

// askOne asks one kind of question from all callers for as long as the options say and gives how long each answer took.
// The first answers of each caller, which fill caches, do not count.
func (s *Store) askOne(ctx context.Context, srv *server, q question) (took []time.Duration, elapsed time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Each+time.Minute)
	defer cancel()
	var mu sync.Mutex
	var wg, warmed sync.WaitGroup
	warmed.Add(s.o.Callers)
	var begin time.Time
	var once sync.Once
	for w := range s.o.Callers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 77))
			for i := 0; ; i++ {
				if i == warmAnswers {
					warmed.Done()
					warmed.Wait()
					once.Do(func() { begin = time.Now() })
				}
				start := time.Now()
				if i >= warmAnswers && start.Sub(begin) >= s.o.Each {
					return
				}
				e := srv.get(ctx, s.zoneFor(r, q)+"/analytics/"+q.path)
				d := time.Since(start)
				mu.Lock()
				if e != nil && err == nil {
					err = e
				}
				if i >= warmAnswers {
					took = append(took, d)
				}
				failed := err != nil
				mu.Unlock()
				if failed {
					if i < warmAnswers {
						warmed.Done()
					}
					return
				}
			}
		})
	}
	wg.Wait()
	return took, time.Since(begin), err
}

func (s *Store) zoneFor(r *rand.Rand, q question) string {
	n := 0
	if !q.busiest {
		n = s.traffic.draw(r)
	}
	return zone.ID(s.traffic.sites[n].name)
}

func (srv *server) get(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.url+path, nil)
	if err != nil {
		return err
	}
	res, err := srv.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %.200s", path, res.Status, body)
	}
	return nil
}
