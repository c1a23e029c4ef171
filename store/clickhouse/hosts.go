package clickhouse

import (
	"sync"
	"time"
)

// hosts is the list of addresses and what is known of each.
type hosts struct {
	mu    sync.Mutex
	list  []host
	first time.Duration // of quarantine
	now   func() time.Time
}

type host struct {
	addr     string
	failures int
	until    time.Time // in quarantine
}

// maxDoublings bounds a quarantine to 32 times the first.
const maxDoublings = 5

func newHosts(addrs []string, quarantine time.Duration) *hosts {
	h := &hosts{first: quarantine, now: time.Now}
	for _, a := range addrs {
		h.list = append(h.list, host{addr: a})
	}
	return h
}

// order gives all addresses, those to be tried first at the front: healthy ones as configured, then those in quarantine,
// the one that leaves it soonest first. None is left out: with all in quarantine one is tried anyway.
func (h *hosts) order() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	var good []string
	var bad []host
	for _, one := range h.list {
		if one.until.After(now) {
			i := len(bad)
			for i > 0 && bad[i-1].until.After(one.until) {
				i--
			}
			bad = append(bad[:i], append([]host{one}, bad[i:]...)...)
			continue
		}
		good = append(good, one.addr)
	}
	for _, one := range bad {
		good = append(good, one.addr)
	}
	return good
}

// failed puts an address in quarantine, for longer each time.
func (h *hosts) failed(addr string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.list {
		if one := &h.list[i]; one.addr == addr {
			one.until = h.now().Add(h.first << min(one.failures, maxDoublings))
			one.failures++
		}
	}
}

// worked ends a quarantine.
func (h *hosts) worked(addr string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.list {
		if one := &h.list[i]; one.addr == addr {
			one.failures, one.until = 0, time.Time{}
		}
	}
}

// bad gives how many addresses are in quarantine.
func (h *hosts) bad() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, one := range h.list {
		if one.until.After(h.now()) {
			n++
		}
	}
	return n
}
