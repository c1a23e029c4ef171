package clickhouse_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/clickhouse"
)

// acting is a server that answers as it is told.
type acting struct {
	addr  string
	asked atomic.Int32
	ids   []string
}

func act(t *testing.T, answer http.HandlerFunc) *acting {
	t.Helper()
	s := &acting{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a broken request has no body
		if strings.HasPrefix(string(body), "KILL") {
			return
		}
		s.asked.Add(1)
		s.ids = append(s.ids, r.URL.Query().Get("query_id"))
		answer(w, r)
	}))
	t.Cleanup(srv.Close)
	s.addr = srv.Listener.Addr().String()
	return s
}

func exception(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "Code: %d. DB::Exception: no. (X) (version 26.7)", code)
	}
}

func ok(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "1") }

func gone(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func half(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	fmt.Fprintln(w, "1")
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func stuck(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Which statement goes on to the next server after which failure of the first.
func TestFailover_GoesToTheNextServer(t *testing.T) {
	read := func(ctx context.Context, db *clickhouse.DB) error {
		_, err := db.Stream(ctx, store.Query{SQL: "SELECT 1"}, &bytes.Buffer{})
		return err
	}
	change := func(ctx context.Context, db *clickhouse.DB) error {
		return db.Exec(ctx, store.Query{SQL: "ALTER TABLE t DELETE WHERE 1"})
	}
	insert := func(token string) func(context.Context, *clickhouse.DB) error {
		return func(ctx context.Context, db *clickhouse.DB) error {
			return db.Insert(ctx, store.Insert{Table: "t", Columns: []string{"a"}, Block: []byte{0, 0}, Token: token})
		}
	}
	for _, c := range []struct {
		name     string
		first    http.HandlerFunc
		replicas bool
		do       func(context.Context, *clickhouse.DB) error
		goesOn   bool
	}{
		{"read_connection_lost", gone, false, read, true},
		{"read_peers_lost", exception(279), false, read, true},
		{"read_network_error", exception(210), false, read, true},
		{"read_gateway", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Bad gateway", 502) }, false, read, true},
		{"read_wrong", exception(62), false, read, false},
		{"read_too_slow", exception(159), false, read, false},
		{"read_begun", half, false, read, false},
		{"change_connection_lost", gone, false, change, false},
		{"change_peers_lost", exception(279), false, change, false},
		{"insert_connection_lost", gone, false, insert("t"), false},
		{"insert_into_replicas_connection_lost", gone, true, insert("t"), true},
		{"insert_into_replicas_read_only", exception(242), true, insert("t"), true},
		{"insert_into_replicas_keeper", exception(999), true, insert("t"), true},
		{"insert_into_replicas_unknown", exception(319), true, insert("t"), true},
		{"insert_into_replicas_half_an_answer", half, true, insert("t"), true},
		{"insert_into_replicas_stuck", stuck, true, insert("t"), true},
		{"insert_into_replicas_wrong", exception(53), true, insert("t"), false},
		{"insert_into_replicas_without_token", gone, true, insert(""), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, second := act(t, c.first), act(t, ok)
			cfg, err := clickhouse.ParseAddress("clickhouse://" + first.addr + "," + second.addr + "/?quarantine=1h")
			if err != nil {
				t.Fatal(err)
			}
			cfg.Replicas = c.replicas
			db, err := clickhouse.New(t.Context(), cfg, clickhouse.Deps{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err = c.do(ctx, db)
			if (err == nil) != c.goesOn || (second.asked.Load() == 1) != c.goesOn {
				t.Errorf("%v, the second was asked %d times", err, second.asked.Load())
			}
			if !c.goesOn {
				return
			}
			if first.ids[0] == second.ids[0] {
				t.Error("both know the statement by the same id: killing one would kill the other")
			}
			if err := c.do(ctx, db); err != nil || first.asked.Load() != 1 {
				t.Errorf("the next time: %v, and the first was asked %d times", err, first.asked.Load())
			}
		})
	}
}
