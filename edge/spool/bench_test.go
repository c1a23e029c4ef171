package spool

import (
	"fmt"
	"testing"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/event/batch"
)

func BenchmarkAppend(b *testing.B) {
	raw := (&event.HTTP{EdgeStartTimestamp: 1}).Append(nil)
	one := len(raw)
	for len(raw) < 256<<10 {
		raw = append(raw, raw[:one]...)
	}
	enc, err := batch.NewEncoder(batch.None, 0)
	if err != nil {
		b.Fatal(err)
	}
	data, err := enc.Encode(nil, batch.Header{Type: batch.HTTPRequests, Name: batch.Name{Edge: "e1", Epoch: 7, Sequence: 1}, Events: uint32(len(raw) / one), First: 1, Last: 1}, raw)
	if err != nil {
		b.Fatal(err)
	}
	for _, mode := range []string{SyncAlways, SyncInterval, "never"} {
		b.Run(fmt.Sprintf("sync_%s_256KiB", mode), func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.Dir, cfg.WhenFull, cfg.MaxBytes, cfg.Sync = b.TempDir(), FullDropOldest, 256<<20, mode
			s, err := Open(cfg, []string{"a"}, Deps{})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Append(nil, data); err != nil {
					b.Fatal(err)
				}
				if wait, ok := s.SyncDue(); mode != "never" && ok && wait == 0 {
					if err := s.Sync(); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.StopTimer()
			_ = s.Close()
		})
	}
}
