package gateway

import (
	"errors"
	"fmt"

	"github.com/spate-io/spate/edge/wire"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/event/notice"
)

// refusal is why a batch is not taken.
type refusal struct {
	code wire.Code
	text string
}

// Error gives the reason.
func (r *refusal) Error() string { return r.text }

func refuse(c wire.Code, format string, args ...any) *refusal {
	return &refusal{c, fmt.Sprintf(format, args...)}
}

// verify checks a batch in full: header, checksums, unpacking, every message, and that the header's figures are the
// payload's. edges are the names that the connection may use.
func verify(d *batch.Decoder, b []byte, edges []string) (batch.Header, *refusal) {
	h, raw, err := d.Decode(b)
	if err != nil {
		return h, refuse(codeOf(err), "%v", err)
	}
	known := false
	for _, e := range edges {
		known = known || e == h.Name.Edge
	}
	if !known {
		return h, refuse(wire.RefuseEdge, "batch of edge %q on a connection of %q", h.Name.Edge, edges)
	}
	count, first, last, err := survey(h.Type, raw)
	switch {
	case err != nil:
		return h, refuse(wire.RefuseEvents, "event %d: %v", count, err)
	case count != h.Events:
		return h, refuse(wire.RefuseCount, "%d events, and the header says %d", count, h.Events)
	case first != h.First || last != h.Last:
		return h, refuse(wire.RefuseTimes, "times %d to %d, and the header says %d to %d", first, last, h.First, h.Last)
	}
	return h, nil
}

// survey reads everything in a payload, and gives how many there are and their first and last time.
func survey(t batch.Type, raw []byte) (count uint32, first, last int64, err error) {
	add := func(t int64) {
		if count == 0 {
			first, last = t, t
		}
		first, last = min(first, t), max(last, t)
		count++
	}
	if t == batch.Notices {
		list, err := notice.Parse(raw)
		for _, n := range list {
			add(n.Time.UnixNano())
		}
		return count, first, last, err
	}
	_, err = event.Walk(raw, func(v event.View) error {
		add(v.EdgeStartTimestamp())
		return nil
	})
	return count, first, last, err
}

// codeOf maps what the decoder says.
func codeOf(err error) wire.Code {
	var be *batch.Error
	switch {
	case errors.Is(err, batch.ErrTooLarge):
		return wire.RefuseTooLarge
	case errors.Is(err, batch.ErrPayload):
		return wire.RefusePayload
	case errors.Is(err, batch.ErrChecksum) && errors.As(err, &be) && be.Field != "header CRC":
		return wire.RefuseChecksum
	}
	return wire.RefuseHeader
}
