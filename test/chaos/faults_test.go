package chaos

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// breaker carries out a plan and measures how long it takes after each fault until new events are stored again.
type breaker struct {
	w     *world
	watch *watcher

	mu       sync.Mutex
	kills    int
	recovery map[string][]time.Duration
	lost     []string // faults after which nothing was stored again within a minute
	under    sync.WaitGroup
	away     atomic.Bool // the second data centre is
}

// strike breaks one thing, waits for as long as the fault lasts, and mends it.
func (b *breaker) strike(f fault) {
	begin, end := b.methods(f)
	begin()
	<-time.After(f.lasts)
	end()
	b.measure(f)
}

func (b *breaker) methods(f fault) (begin, end func()) {
	p, k, s := b.w.processes[f.target], b.w.links[f.target], b.w.store
	flag := func(set func(bool)) (func(), func()) { return func() { set(true) }, func() { set(false) } }
	switch f.kind {
	case kindKill:
		return func() { b.count(); p.kill() }, func() { _ = p.start() }
	case kindAway:
		return func() { b.away.Store(true); b.count(); p.kill() }, func() { _ = p.start(); b.away.Store(false) }
	case kindStop:
		return func() { p.signal(syscall.SIGSTOP) }, func() { p.signal(syscall.SIGCONT) }
	case kindCut:
		return func() { k.cut.Store(true); k.sever() }, func() { k.cut.Store(false) }
	case kindDelay:
		return func() { k.delay.Store(int64(150 * time.Millisecond)) }, func() { k.delay.Store(0) }
	case kindHalve:
		return flag(k.halve.Store)
	case kindHole:
		return flag(k.hole.Store)
	case kindRefuse:
		return flag(s.refuse.Store)
	case kindSlow:
		return flag(s.slow.Store)
	case kindSwallow:
		return flag(s.swallow.Store)
	case kindFull:
		return func() { _ = b.w.disk.fill() }, func() { _ = b.w.disk.free() }
	case kindClock:
		return func() { p.setClock(f.by) }, func() { p.setClock(0) }
	}
	return func() {}, func() {}
}

func (b *breaker) count() {
	b.mu.Lock()
	b.kills++
	b.mu.Unlock()
}

// concerns gives the places whose events pass what was broken.
func (b *breaker) concerns(target string) []*place {
	var list []*place
	for _, p := range b.w.places {
		switch target {
		case edge, spoolDisk:
			if p.name == "first" || p.name == "second" {
				list = append(list, p)
			}
		case core, linkCore:
			if p.name == "second" {
				list = append(list, p)
			}
		case up:
			if p.name == "up" {
				list = append(list, p)
			}
		default:
			if p.name == "first" {
				list = append(list, p)
			}
		}
	}
	return list
}

// measure waits until an event that was made after the fault is stored in every place that it concerned.
func (b *breaker) measure(f fault) {
	began := time.Now()
	for _, p := range b.concerns(f.target) {
		made := p.from.sent.Load() + 1
		for b.watch.stored(p) < made {
			if f.kind != kindAway && p.name == "second" && b.away.Load() {
				return // it will have them when it is back
			}
			if time.Since(began) > time.Minute {
				b.mu.Lock()
				b.lost = append(b.lost, fmt.Sprintf("%s: nothing new in %s for a minute after it", f, p.name))
				b.mu.Unlock()
				return
			}
			if b.watch.over() {
				return
			}
			<-time.After(50 * time.Millisecond)
		}
	}
	b.mu.Lock()
	b.recovery[f.kind+" "+f.target] = append(b.recovery[f.kind+" "+f.target], time.Since(began))
	b.mu.Unlock()
}

// carryOut strikes at the times of the plan, until its end or the run's.
func (b *breaker) carryOut(plan []fault, began time.Time, say func(string, ...any)) {
	for _, f := range plan {
		<-time.After(time.Until(began.Add(f.at)))
		say("%s", f)
		b.under.Go(func() { b.strike(f) })
	}
}

// table gives recovery times, by fault.
func (b *breaker) table() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []string{fmt.Sprintf("%-26s %5s %8s %8s", "until stored again after", "times", "median", "longest")}
	var names []string
	for name := range b.recovery {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		times := b.recovery[name]
		slices.Sort(times)
		list = append(list, fmt.Sprintf("%-26s %5d %7.1fs %7.1fs", name, len(times), times[len(times)/2].Seconds(), times[len(times)-1].Seconds()))
	}
	return list
}
