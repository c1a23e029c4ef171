package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// sizeEvents is how many requests the size of one is taken from. It has to be enough for parts that the engine packs
// well. A log that is shorter is taken several times over, which makes it no smaller: what is packed together are a few
// thousand rows of a column.
const sizeEvents = 600_000

// targetBytes is what a stored request may take.
const targetBytes = 37

// measureSize stores requests once and merges: as the log has them, all of one site, and with all columns filled, of all
// sites.
func (s *Store) measureSize(ctx context.Context) error {
	if s.o.Ingest == 0 {
		return nil
	}
	for _, c := range []struct {
		what  string
		asLog bool
	}{{"request as the log has it, one zone", true}, {"request with every column filled, random request id, all zones", false}} {
		if c.asLog && s.o.Log == "" {
			continue
		}
		per, err := s.sizeOf(ctx, c.asLog)
		if err != nil {
			return fmt.Errorf("measure size: %w", err)
		}
		s.say("%s: %s bytes", c.what, number(per))
		if c.asLog {
			s.report.atMost("size, merged", c.what, per, "bytes", targetBytes)
		} else {
			s.report.add("size, merged", c.what, per, "bytes")
		}
	}
	return nil
}

func (s *Store) sizeOf(ctx context.Context, asLog bool) (float64, error) {
	const name = "size"
	if err := s.fresh(ctx, name); err != nil {
		return 0, err
	}
	n := sizeEvents
	m := s.traffic.maker(5)
	m.asLog = asLog
	b := s.builder()
	var e event.HTTP
	var raw []byte
	now := time.Now().Add(-time.Hour).UnixNano()
	for i := range n {
		site := 0
		if !asLog {
			site = s.traffic.draw(m.r)
		}
		m.fill(&e, site, now+int64(i)*int64(15*time.Millisecond))
		raw = e.Append(raw[:0])
		if err := b.Add(&batch.Header{Events: 1}, raw); err != nil {
			return 0, err
		}
		if b.Rows() == 100_000 || i == n-1 {
			if err := s.insert(ctx, b.Inserts("")); err != nil {
				return 0, err
			}
			b.Reset()
		}
	}
	if err := s.db.Exec(ctx, store.Query{SQL: "OPTIMIZE TABLE " + schema.HTTPRequests + " FINAL", Priority: store.Background}); err != nil {
		return 0, err
	}
	per, _, err := s.bytesPerRow(ctx)
	if err != nil {
		return 0, err
	}
	return per, s.drop(name)
}

// bytesPerRow gives what a request takes in the raw table, and what it takes in all rollups, on the average.
func (s *Store) bytesPerRow(ctx context.Context) (raw, rollups float64, err error) {
	a, err := s.ask(ctx, "SELECT sumIf(rows, table = 'http_requests'), sumIf(bytes_on_disk, table = 'http_requests'),"+
		" sumIf(bytes_on_disk, table != 'http_requests') FROM system.parts WHERE active AND table LIKE 'http_%'")
	if err != nil {
		return 0, 0, err
	}
	var v [3]float64
	for i := range v {
		if v[i], err = strconv.ParseFloat(a[i], 64); err != nil {
			return 0, 0, err
		}
	}
	return v[1] / v[0], v[2] / v[0], nil
}
