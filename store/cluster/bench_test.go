package cluster

import (
	"testing"
	"time"

	"github.com/spate-io/spate/analytics/analyticstest"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// What cutting a block costs, beside building it.
func BenchmarkCut(b *testing.B) {
	requests := analyticstest.Over(1, 50_000, time.Now(), time.Hour)
	var events [][]byte
	for i := range requests {
		events = append(events, requests[i].HTTP.Append(nil))
	}
	built := schema.NewHTTPBlock(nil)
	build := func() []store.Insert {
		built.Reset()
		for i := range events {
			v, _, err := event.ReadHTTP(events[i])
			if err != nil {
				b.Fatal(err)
			}
			built.Append(v, &requests[i].Result)
		}
		return built.Inserts("")
	}
	b.Run("build", func(b *testing.B) {
		for b.Loop() {
			build()
		}
	})
	for _, shards := range []int{2, 12} {
		b.Run(map[int]string{2: "cut_2", 12: "cut_12"}[shards], func(b *testing.B) {
			inserts := build()
			for b.Loop() {
				for _, in := range inserts {
					if _, err := Cut(in.Block, placeOf(in.Table).column, shards); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
