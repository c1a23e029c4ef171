package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spate-io/spate/core/load"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/event/batch"
)

// historyBlock is how many requests of a history go into one block.
const historyBlock = 100_000

// chunk is a piece of a history: requests of a row of sites on one day.
type chunk struct {
	day    int
	sites  []int
	counts []int
	events int
}

// chunks gives the pieces of a history to yield: days one after the other, on each the sites by rank. A piece has whole
// sites where it can, so that an hour of a site is in one block, as it will be once the store has merged.
func (t *traffic) chunks(events, days int, yield func(chunk) bool) {
	r := rand.New(rand.NewPCG(11, 12))
	before := 0.0
	left := events
	for day := range days {
		c := chunk{day: day}
		today := events*(day+1)/days - events*day/days
		for i, w := range t.weights {
			share := w - before
			before = w
			if i == len(t.weights)-1 {
				before = 0
			}
			n := int(share * float64(today))
			if r.Float64() < share*float64(today)-float64(n) {
				n++
			}
			for n > 0 && left > 0 {
				take := min(n, historyBlock-c.events, left)
				c.sites, c.counts, c.events = append(c.sites, i), append(c.counts, take), c.events+take
				n, left = n-take, left-take
				if c.events == historyBlock {
					if !yield(c) {
						return
					}
					c = chunk{day: day}
				}
			}
		}
		if c.events > 0 && !yield(c) {
			return
		}
	}
}

// history fills the store with requests of the days before end: prepared blocks, put straight in with all rollups.
func (s *Store) history(ctx context.Context, end time.Time) (events uint64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work := make(chan chunk)
	var wg sync.WaitGroup
	var mu sync.Mutex
	start := time.Now()
	told := start
	done := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		events += uint64(n)
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			rate := float64(events) / time.Since(start).Seconds()
			s.say("history: %s of %s requests, %s/s, %.0f s to go", number(float64(events)), number(float64(s.o.Events)), number(rate), float64(s.o.Events-int(events))/rate)
		}
	}
	fail := func(e error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			err = e
		}
		cancel()
	}
	for w := range s.o.StoreConfig.ParallelInserts() {
		wg.Go(func() {
			p := &piece{s: s, minutes: s.builder(), hours: s.builder(), m: s.traffic.maker(uint64(100 + w))}
			for c := range work {
				if e := p.insert(ctx, c, end); e != nil {
					fail(e)
					return
				}
				done(c.events)
			}
		})
	}
	s.traffic.chunks(s.o.Events, s.o.Days, func(c chunk) bool {
		select {
		case work <- c:
			return true
		case <-ctx.Done():
			return false
		}
	})
	close(work)
	wg.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return events, err
}

// piece builds and inserts chunks. It belongs to one goroutine.
type piece struct {
	s              *Store
	minutes, hours load.Builder
	m              *maker
	raw, whole     []byte // events, and the same at the beginnings of their hours
	n              int
}

func (p *piece) insert(ctx context.Context, c chunk, end time.Time) error {
	const day = 24 * time.Hour
	from := end.Add(-day * time.Duration(p.s.o.Days-c.day)).UnixNano()
	p.minutes.Reset()
	p.hours.Reset()
	var e event.HTTP
	for i, site := range c.sites {
		for range c.counts[i] {
			p.m.fill(&e, site, from+p.m.r.Int64N(int64(day)))
			p.raw = e.Append(p.raw)
			past := e.EdgeStartTimestamp % int64(time.Hour)
			e.EdgeStartTimestamp -= past
			e.EdgeEndTimestamp -= past
			p.whole = e.Append(p.whole)
			if p.n++; p.n == 2000 {
				if err := p.flush(); err != nil {
					return fmt.Errorf("build block: %w", err)
				}
			}
		}
	}
	if err := p.flush(); err != nil {
		return fmt.Errorf("build block: %w", err)
	}
	minutes := p.minutes.Inserts("")
	for i := range minutes[1:] { // one row for each minute of a zone: nothing to combine
		minutes[1+i].Settings = map[string]string{"optimize_on_insert": "0"}
	}
	if err := p.s.insert(ctx, minutes); err != nil {
		return err
	}
	hours := p.hours.Inserts("")[1:] // not the requests again
	for i := range hours {
		hours[i].Table = hourFlow
	}
	return p.s.insert(ctx, hours)
}

func (p *piece) flush() error {
	h := &batch.Header{Events: uint32(p.n)}
	if err := p.minutes.Add(h, p.raw); err != nil {
		return err
	}
	if err := p.hours.Add(h, p.whole); err != nil {
		return err
	}
	p.raw, p.whole, p.n = p.raw[:0], p.whole[:0], 0
	return nil
}
