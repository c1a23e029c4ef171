package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// live sends a tick a second until the client goes or the server stops. It answers errors that occur before the first
// tick itself; later ones show as comments in the stream, because the client has its 200 by then.
func (a *API) live(w http.ResponseWriter, r *http.Request, who *caller) error {
	z, err := a.zone(r, who)
	if err != nil {
		return err
	}
	select {
	case a.streams <- struct{}{}:
		defer func() { <-a.streams }()
	default:
		a.metrics.refused.WithLabelValues("streams").Inc()
		return errBusy()
	}
	a.metrics.streams.Inc()
	defer a.metrics.streams.Dec()

	out := http.NewResponseController(w)
	tick, seen, err := a.ask.Live(r.Context(), z.ID, 0)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx in front would hold ticks back
	w.WriteHeader(http.StatusOK)

	clock := time.NewTicker(time.Second)
	defer clock.Stop()
	said := time.Now()
	for {
		var sent error
		switch {
		case err == nil:
			sent, said = a.send(w, out, "event: tick\ndata: ", tick), time.Now()
		case time.Since(said) >= a.cfg.Heartbeat.D():
			a.log.Warn("live view not answered", "zone", z.ID, "err", err)
			sent, said = a.send(w, out, ": no answer from the store, trying again\n", nil), time.Now()
		}
		if sent != nil {
			return nil //nolint:nilerr // the client is gone: nobody is left to tell
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-clock.C:
		}
		tick, seen, err = a.ask.Live(r.Context(), z.ID, seen)
	}
}

func (a *API) send(w http.ResponseWriter, out *http.ResponseController, head string, data any) error {
	var b bytes.Buffer
	b.WriteString(head)
	if data != nil {
		if err := json.NewEncoder(&b).Encode(data); err != nil {
			return fmt.Errorf("encode tick: %w", err)
		}
	}
	b.WriteByte('\n')
	if err := out.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return err
	}
	return out.Flush()
}
