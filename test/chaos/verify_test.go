package chaos

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ask runs a query on a place's store.
func (p *place) ask(sql string) (string, error) {
	res, err := (&http.Client{Timeout: 20 * time.Second}).Post(p.sql, "text/plain", strings.NewReader(sql))
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", res.StatusCode, b)
	}
	return strings.TrimSpace(string(b)), err
}

// watcher looks all the time which number each place has stored last.
type watcher struct {
	mu   sync.Mutex
	last map[*place]uint64
	end  chan struct{}
	done sync.WaitGroup
}

func newWatcher(places []*place) *watcher {
	w := &watcher{last: map[*place]uint64{}, end: make(chan struct{})}
	for _, p := range places {
		w.done.Go(func() { w.follow(p) })
	}
	return w
}

func (w *watcher) follow(p *place) {
	for !w.over() {
		if out, err := p.ask("SELECT max(ConnectionID) FROM http_requests"); err == nil {
			if n, err := strconv.ParseUint(out, 10, 64); err == nil {
				w.mu.Lock()
				w.last[p] = max(w.last[p], n)
				w.mu.Unlock()
			}
		}
		<-time.After(200 * time.Millisecond)
	}
}

func (w *watcher) stored(p *place) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[p]
}

func (w *watcher) over() bool {
	select {
	case <-w.end:
		return true
	default:
		return false
	}
}

func (w *watcher) close() {
	close(w.end)
	w.done.Wait()
}

// count is what a place has of the numbers 1 to n.
type count struct{ events, lost, doubled uint64 }

// settle waits until a place has n events, and gives what it has by then.
func (p *place) settle(n uint64, limit time.Duration) (count, error) {
	c := count{events: n, lost: n} // until the store has said otherwise
	err := waitFor(limit, fmt.Sprintf("%d events in %s", n, p.name), func() error {
		out, err := p.ask("SELECT count(), uniqExact(ConnectionID), uniqExactIf(ConnectionID, ConnectionID BETWEEN 1 AND " + fmt.Sprint(n) + ") FROM http_requests")
		if err != nil {
			return err
		}
		var rows, distinct, ours uint64
		if _, err := fmt.Sscan(out, &rows, &distinct, &ours); err != nil {
			return err
		}
		c = count{events: n, lost: n - ours, doubled: rows - distinct}
		if ours != distinct {
			return fmt.Errorf("%d events that nobody made", distinct-ours)
		}
		if c.lost > 0 {
			return fmt.Errorf("%d are missing", c.lost)
		}
		return nil
	})
	return c, err
}

// rollups waits until every rollup counts n requests, which it does an insert after the raw table. A rollup that counts more than
// that has counted something twice, and never comes right.
func (p *place) rollups(n uint64, limit time.Duration) error {
	return waitFor(limit, fmt.Sprintf("%d requests in the rollups of %s", n, p.name), func() error {
		for _, table := range []string{"http_requests_1m", "http_requests_1h", "http_requests_1d", "http_requests_1mo", "http_colos_1m", "http_colos_1mo"} {
			out, err := p.ask("SELECT sum(requests), uniqMerge(u) FROM (SELECT sum(requests) AS requests, " + uniques(table) + " AS u FROM " + table + ")")
			if err != nil {
				return fmt.Errorf("%s: %w", table, err)
			}
			if got, _, _ := strings.Cut(out, "\t"); got != fmt.Sprint(n) {
				return fmt.Errorf("%s counts %s", table, got)
			}
		}
		return nil
	})
}

// uniques gives a state of distinct addresses, which the tables by colo do not have.
func uniques(table string) string {
	if strings.HasPrefix(table, "http_colos") {
		return "uniqState(toIPv6('::'))"
	}
	return "uniqMergeState(uniques)"
}

// examples names some of the numbers that are wrong.
func (p *place) examples(n uint64) string {
	lost, _ := p.ask(fmt.Sprintf("SELECT arraySlice(groupArray(number), 1, 20) FROM (SELECT number + 1 AS number FROM numbers(%d) WHERE number NOT IN (SELECT ConnectionID FROM http_requests) ORDER BY number)", n))
	doubled, _ := p.ask("SELECT arraySlice(groupArray(ConnectionID), 1, 20) FROM (SELECT ConnectionID FROM http_requests GROUP BY ConnectionID HAVING count() > 1 ORDER BY ConnectionID)")
	return fmt.Sprintf("%s: lost %s, doubled %s", p.name, lost, doubled)
}

// ledger asks Spate itself.
func (p *place) ledger(bin string) (string, error) {
	out, err := exec.Command(bin, "ledger", "--url", p.api, "--since", "3h", "--wait", "60s").CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
