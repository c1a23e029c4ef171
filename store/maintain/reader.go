package maintain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"

	"github.com/spate-io/spate/store"
)

// readPath is where the server answers queries, in the engine's own formats.
const readPath = "/read"

// The trailers that end an answer: one of them is there unless it was cut off.
const (
	trailerDone  = "Spate-Done"
	trailerError = "Spate-Error"
)

// Reader reads from an embedded store that another process has open, through the socket on which that process takes orders.
// It may be used by any number of goroutines.
type Reader struct {
	path   string
	client *http.Client
}

// DialReader looks whether a process answers for the store at path. The error is ErrNotRunning when none does. The caller closes
// the reader. When the process is started anew meanwhile, later queries go to the new one.
func DialReader(ctx context.Context, path string) (*Reader, error) {
	r := &Reader{path: path}
	r.client = &http.Client{Transport: &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return r.dial(ctx) },
		DisableCompression: true,
	}}
	conn, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	return r, conn.Close()
}

func (r *Reader) dial(ctx context.Context) (net.Conn, error) {
	dir, name, err := shortName(filepath.Join(r.path, socketName))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	defer dir.Close()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	return conn, nil
}

// Close ends the connections.
func (r *Reader) Close() error {
	r.client.CloseIdleConnections()
	return nil
}

// Stream runs a query and writes the answer to w as it comes, as store.DB's Stream does; its statistics are empty. It is cut off
// when the process stops, with an error that is retriable.
func (r *Reader) Stream(ctx context.Context, q store.Query, w io.Writer) (store.Stats, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return store.Stats{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://store"+readPath, bytes.NewReader(body))
	if err != nil {
		return store.Stats{}, err
	}
	res, err := r.client.Do(req)
	if err != nil {
		return store.Stats{}, fmt.Errorf("ask the process that has the store: %w", err)
	}
	defer func() { _ = res.Body.Close() }() // it was read to its end, or is not wanted
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1000)) // it only explains
		return store.Stats{}, fmt.Errorf("the process that has the store answers %d: %s (is it of an older version?)", res.StatusCode, bytes.TrimSpace(text))
	}
	if _, err := io.Copy(w, res.Body); err != nil {
		return store.Stats{}, fmt.Errorf("read from the process that has the store: %w", err)
	}
	if text := res.Trailer.Get(trailerError); text != "" {
		var e store.Error
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			return store.Stats{}, fmt.Errorf("read from the process that has the store: %s", text)
		}
		return store.Stats{}, &e
	}
	if res.Trailer.Get(trailerDone) == "" {
		return store.Stats{}, fmt.Errorf("read from the process that has the store: %w", io.ErrUnexpectedEOF)
	}
	return store.Stats{}, nil
}

// read answers a query.
func (s *Server) read(w http.ResponseWriter, r *http.Request) {
	var q store.Query
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<20)).Decode(&q); err != nil {
		http.Error(w, "cannot read the query: "+err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Trailer", trailerDone+", "+trailerError)
	w.Header().Set("Content-Type", "application/octet-stream")
	_, err := s.deps.DB.Stream(r.Context(), q, w)
	if err == nil {
		w.Header().Set(trailerDone, "1")
		return
	}
	if r.Context().Err() != nil || errors.Is(err, store.ErrClosed) {
		return // this process stops: the answer ends without a trailer, and may be asked for again
	}
	var e *store.Error
	if !errors.As(err, &e) {
		e = &store.Error{Message: err.Error()}
	}
	if text, err := json.Marshal(e); err == nil {
		w.Header().Set(trailerError, string(text))
	}
}
