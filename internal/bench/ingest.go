package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/store"
)

const (
	// perBatch is how many requests an edge that is busy puts into a batch.
	perBatch = 5000
	// rounds is how often both ways are taken in turns.
	rounds = 5
	// targetShare is how much of the engine's own rate the whole way should reach.
	targetShare = 0.8
	// liveRate is how many requests of live traffic come in a second of theirs: what is inserted together is of about
	// the same time.
	liveRate = 100_000
)

// measureIngest compares putting prepared blocks into the store with the whole way from records on the bus.
func (s *Store) measureIngest(ctx context.Context) error {
	if s.o.Ingest == 0 {
		return nil
	}
	for _, c := range []struct {
		what string
		one  bool
	}{{fmt.Sprintf("%s zones", number(float64(s.o.Zones))), false}, {"one zone", true}} {
		whole, err := s.compareIngest(ctx, c.what, c.one)
		if err != nil {
			return fmt.Errorf("measure ingest, %s: %w", c.what, err)
		}
		if !c.one {
			s.kept.Maximum = whole
		}
	}
	return s.keep()
}

// turn is a way and what it took in each round.
type turn struct {
	name      string
	rate, cpu []float64
}

func (s *Store) compareIngest(ctx context.Context, what string, one bool) (whole float64, err error) {
	const name = "ingest"
	if err := s.fresh(ctx, name); err != nil {
		return 0, err
	}
	resetPeak()
	r, err := s.startRig(ctx, 100*time.Millisecond)
	if err != nil {
		return 0, err
	}
	defer func() {
		// The store outlives the loader, which may be inserting.
		if e := r.close(); err == nil {
			err = e
		}
		if e := s.drop(name); err == nil {
			err = e
		}
	}()
	f := &feed{s: s, m: s.traffic.maker(21), one: one, at: time.Now().Add(-time.Hour).UnixNano(), edge: "bench"}
	prepared, bus := &turn{name: "prepared blocks"}, &turn{name: "from the bus"}
	var share []float64
	for round := range rounds {
		values, blocks, err := f.round(s.o.Ingest / rounds)
		if err != nil {
			return 0, err
		}
		ways := []func() error{
			func() error {
				return prepared.time(s.o.Ingest/rounds, func() (time.Duration, error) { return s.insertAll(ctx, blocks, round) })
			},
			func() error {
				return bus.time(s.o.Ingest/rounds, func() (time.Duration, error) { return r.take(ctx, values, s.o.Ingest/rounds) })
			},
		}
		if round%2 == 1 {
			slices.Reverse(ways)
		}
		for _, way := range ways {
			if err := way(); err != nil {
				return 0, err
			}
		}
		share = append(share, bus.rate[round]/prepared.rate[round])
		s.say("ingest, %s, round %d: prepared blocks %s/s, from the bus %s/s", what, round+1, number(prepared.rate[round]), number(bus.rate[round]))
	}
	part := "ingest, " + what
	s.report.add(part, "prepared blocks into raw and all rollups, engine alone", median(prepared.rate), "requests/s")
	s.report.add(part, "bus record to raw and all rollups", median(bus.rate), "requests/s")
	s.report.atLeast(part, "second to first, median of the rounds", median(share), "", targetShare)
	s.report.add(part, "processor time, engine alone", median(prepared.cpu), "us/request")
	s.report.add(part, "processor time, whole way", median(bus.cpu), "us/request")
	s.report.add(part, "peak memory, with what the measurement holds", float64(peakMemory())/(1<<20), "MiB")
	return median(bus.rate), nil
}

func (t *turn) time(n int, run func() (time.Duration, error)) error {
	used := cpuTime()
	took, err := run()
	t.rate = append(t.rate, float64(n)/took.Seconds())
	t.cpu = append(t.cpu, float64((cpuTime()-used).Microseconds())/float64(n))
	return err
}

// insertAll puts prepared blocks in, as many at a time as the configuration allows.
func (s *Store) insertAll(ctx context.Context, blocks [][]store.Insert, round int) (time.Duration, error) {
	work := make(chan int, len(blocks))
	for i := range blocks {
		work <- i
	}
	close(work)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	start := time.Now()
	for range s.o.StoreConfig.ParallelInserts() {
		wg.Go(func() {
			for i := range work {
				for j := range blocks[i] {
					blocks[i][j].Token = fmt.Sprintf("bench/%d/%d/%d", round, i, j)
				}
				if err := s.insert(ctx, blocks[i]); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start), failed
}

// take puts records on the bus and lets the loader go once they are all there.
func (r *rig) take(ctx context.Context, values [][]byte, events int) (time.Duration, error) {
	r.hold()
	if err := r.produce(ctx, values); err != nil {
		r.release()
		return 0, err
	}
	start := r.release()
	end, err := r.stored(ctx, events)
	return end.Sub(start), err
}

// feed makes batches of live traffic.
type feed struct {
	s    *Store
	m    *maker
	one  bool // all of one zone
	at   int64
	edge string
	seq  uint64
	enc  *batch.Encoder
	raw  []byte
}

// batch makes the next n requests, one each step after the other, as an edge sends them. The payload is valid until the
// next call.
func (f *feed) batch(n int, step time.Duration) (h batch.Header, sealed []byte, err error) {
	if f.enc == nil {
		if f.enc, err = batch.NewEncoder(batch.Zstd, 1); err != nil {
			return h, nil, err
		}
	}
	f.seq++
	h = batch.Header{Type: batch.HTTPRequests, Codec: batch.Zstd, Name: batch.Name{Edge: f.edge, Epoch: 1, Sequence: f.seq}, Events: uint32(n), First: f.at}
	f.raw = f.raw[:0]
	var e event.HTTP
	for range n {
		site := 0
		if !f.one {
			site = f.s.traffic.draw(f.m.r)
		}
		h.Last = f.at
		f.m.fill(&e, site, f.at)
		f.raw = e.Append(f.raw)
		f.at += int64(step)
	}
	sealed, err = f.enc.Encode(nil, h, f.raw)
	return h, sealed, err
}

// round makes n requests: batches for the bus, and blocks as the loader would build them.
func (f *feed) round(n int) (values [][]byte, blocks [][]store.Insert, err error) {
	b := f.s.builder()
	limit := f.s.o.Load.Block
	size := 0
	flush := func() {
		var list []store.Insert
		for _, in := range b.Inserts("") {
			in.Block, in.Columns = bytes.Clone(in.Block), slices.Clone(in.Columns)
			list = append(list, in)
		}
		blocks = append(blocks, list)
		b.Reset()
		size = 0
	}
	for n > 0 {
		take := min(n, perBatch)
		n -= take
		h, sealed, err := f.batch(take, time.Second/liveRate)
		if err != nil {
			return nil, nil, err
		}
		values = append(values, sealed)
		if err := b.Add(&h, f.raw); err != nil {
			return nil, nil, err
		}
		size += len(f.raw)
		if b.Rows() >= limit.MaxEvents || size >= int(limit.MaxBytes) || n == 0 {
			flush()
		}
	}
	return values, blocks, nil
}

// pressure puts traffic on the bus at an even rate while dashboards are asked. Its batches are made before and lie in a
// file, so that making them takes nothing from what is measured.
type pressure struct {
	rig  *rig
	file *os.File
	at   int64
	stop context.CancelFunc
	done chan error
	sent int
	from time.Time
}

// pressureEvery is how often a batch is sent: edges ship a few times a second.
const pressureEvery = 50 * time.Millisecond

func (s *Store) startPressure(ctx context.Context, rate float64, length time.Duration, from time.Time) (*pressure, error) {
	name := filepath.Join(s.o.Dir, "pressure")
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	p := &pressure{file: file, done: make(chan error, 1)}
	f := &feed{s: s, m: s.traffic.maker(31), at: from.UnixNano(), edge: "pressure"}
	n := max(1, int(rate*pressureEvery.Seconds()))
	for range int(length / pressureEvery) {
		_, sealed, err := f.batch(n, pressureEvery/time.Duration(n))
		if err == nil {
			_, err = fmt.Fprintf(file, "%012d", len(sealed))
		}
		if err == nil {
			_, err = file.Write(sealed)
		}
		if err != nil {
			return nil, err
		}
	}
	if p.rig, err = s.startRig(ctx, 0); err != nil {
		return nil, err
	}
	ctx, p.stop = context.WithCancel(ctx)
	p.rig.hold()
	p.from = p.rig.release()
	go func() { p.done <- p.send(ctx, n) }()
	return p, nil
}

// send runs until ctx ends or there is nothing left.
func (p *pressure) send(ctx context.Context, n int) error {
	tick := time.NewTicker(pressureEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var head [12]byte
		if k, _ := p.file.ReadAt(head[:], p.at); k < len(head) {
			return nil
		}
		size, err := strconv.Atoi(string(head[:]))
		if err != nil {
			return err
		}
		value := make([]byte, size)
		if _, err := p.file.ReadAt(value, p.at+int64(len(head))); err != nil {
			return err
		}
		p.at += int64(len(head) + size)
		if err := p.rig.produce(ctx, [][]byte{value}); err != nil && ctx.Err() == nil {
			return err
		}
		p.sent += n
	}
}

// end stops sending and the loader, and gives the rates at which requests were sent and stored.
func (p *pressure) end() (sent, stored float64, err error) {
	took := time.Since(p.from).Seconds()
	p.rig.mu.Lock()
	rows := p.rig.rows
	p.rig.mu.Unlock()
	p.stop()
	err = <-p.done
	sent, stored = float64(p.sent)/took, float64(rows)/took
	if e := p.rig.close(); err == nil {
		err = e
	}
	_ = p.file.Close()
	if e := os.Remove(p.file.Name()); err == nil {
		err = e
	}
	return sent, stored, err
}
