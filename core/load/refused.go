package load

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Reasons for which a batch is set aside.
const (
	reasonBatch  = "batch"  // it does not verify: header, checksum or payload
	reasonType   = "type"   // its type of events is not known
	reasonEvents = "events" // a message in it is not well formed
	reasonStore  = "store"  // the store calls its block malformed
)

// Headers of the records in the topic of refused records. Their value is the refused record's value, unchanged.
const (
	HeaderReason = "spate-reason" // batch, type, events or store
	HeaderError  = "spate-error"  // what was wrong, as text
	HeaderSource = "spate-source" // topic/partition/offset of the refused record; the same one may be there twice after a crash
)

// setAside puts r into the topic of refused records and returns once it is durable there.
func (w *worker) setAside(r *kgo.Record, reason string, cause error) error {
	if w.aside[r.Offset] {
		return nil
	}
	w.l.log.Error("batch set aside", "partition", w.partition, "offset", r.Offset, "reason", reason, "err", cause)
	err := w.retry("set aside", func(ctx context.Context) error {
		return w.l.state().cl.ProduceSync(ctx, &kgo.Record{
			Topic: w.l.refused, Partition: 0, Value: r.Value, Timestamp: time.Now(),
			Headers: []kgo.RecordHeader{
				{Key: HeaderReason, Value: []byte(reason)},
				{Key: HeaderError, Value: []byte(cause.Error())},
				{Key: HeaderSource, Value: fmt.Appendf(nil, "%s/%d/%d", w.l.topic, w.partition, r.Offset)},
			},
		}).FirstErr()
	})
	if err != nil {
		return err
	}
	w.aside[r.Offset] = true
	w.l.metrics.refused.WithLabelValues(reason).Inc()
	return nil
}
