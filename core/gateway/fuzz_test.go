package gateway

import (
	"bytes"
	"testing"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/event/batch"
)

// FuzzVerify: whatever an edge sends is refused with a reason or is what its header says; never a panic.
func FuzzVerify(f *testing.F) {
	raw := (&event.HTTP{EdgeStartTimestamp: 5, ClientRequestPath: []byte("/a")}).Append(nil)
	for c := batch.None; c <= batch.Zstd; c++ {
		enc, err := batch.NewEncoder(c, 0)
		if err != nil {
			f.Fatal(err)
		}
		b, err := enc.Encode(nil, batch.Header{Type: batch.HTTPRequests, Name: batch.Name{Edge: "e1", Epoch: 1, Sequence: 1}, Events: 1, First: 5, Last: 5}, raw)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, raw)
	}
	f.Fuzz(func(t *testing.T, b, raw []byte) {
		d := batch.NewDecoder(1 << 20)
		if _, no := verify(d, b, []string{"e1"}); no != nil && (no.text == "" || no.code.RefuseName() == "other") {
			t.Fatalf("refused without a reason: %+v", no)
		}
		// A batch with good checksums around any payload: only good messages may pass.
		enc, err := batch.NewEncoder(batch.None, 0)
		if err != nil {
			t.Fatal(err)
		}
		h := batch.Header{Type: batch.HTTPRequests, Name: batch.Name{Edge: "e1", Epoch: 1, Sequence: 1}, Events: 1, First: 5, Last: 5}
		if b, err = enc.Encode(nil, h, raw); err != nil {
			return
		}
		if _, no := verify(d, bytes.Clone(b), []string{"e1"}); no == nil {
			if n, err := event.Walk(raw, func(event.View) error { return nil }); n != 1 || err != nil {
				t.Fatalf("%d events and %v passed", n, err)
			}
		}
	})
}
