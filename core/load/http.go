package load

import (
	"fmt"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/anonymize"
	"github.com/spate-io/spate/internal/enrich"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// Enricher adds what the edge could not know. enrich.Enricher satisfies it.
type Enricher interface {
	Enrich(v event.View, r *enrich.Result)
}

// Zones says which zone a host belongs to. zone.Registry satisfies it.
type Zones interface {
	Match(host []byte) (z *zone.Zone, ok bool)
}

// HTTP is the Builder for HTTP requests: one row of the raw table per event, and their sums by minute for the rollups.
type HTTP struct {
	block    *schema.HTTPBlock
	enricher Enricher
	zones    Zones
	views    []event.View
	result   enrich.Result
}

var _ Builder = (*HTTP)(nil)

// NewHTTP returns an empty builder. The enricher and the masker (nil: addresses are kept) must belong to this builder alone;
// zones may be shared.
func NewHTTP(e Enricher, z Zones, m *anonymize.Masker) *HTTP {
	return &HTTP{block: schema.NewHTTPBlock(m), enricher: e, zones: z}
}

// Reset empties the block.
func (b *HTTP) Reset() { b.block.Reset() }

// Add appends all events of a batch, or none when a message is not well formed or they are not as many as the header says.
func (b *HTTP) Add(h *batch.Header, raw []byte) error {
	b.views = b.views[:0]
	n, err := event.Walk(raw, func(v event.View) error {
		b.views = append(b.views, v)
		return nil
	})
	if err != nil {
		return fmt.Errorf("event %d: %w", n, err)
	}
	if n != int(h.Events) {
		return fmt.Errorf("%d events, the header says %d", n, h.Events)
	}
	for _, v := range b.views {
		b.enricher.Enrich(v, &b.result)
		z, _ := b.zones.Match(v.ClientRequestHost())
		b.result.ZoneID, b.result.ZoneName = z.ID, z.Name
		b.block.Append(v, &b.result)
	}
	clear(b.views) // they alias the decoder's memory
	return nil
}

// Rows returns the number of events in the block.
func (b *HTTP) Rows() int { return b.block.Rows() }

// Inserts returns the block for the raw table, and what it adds up to for the rollups.
func (b *HTTP) Inserts(token string) []store.Insert { return b.block.Inserts(token) }
