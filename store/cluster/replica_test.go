package cluster

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spate-io/spate/store/serve/servetest"
)

// mode is what a replica does with what it is sent.
type mode int32

const (
	alive    mode = iota
	dead          // connections are cut
	swallow       // it does what it is told, and its answer never arrives
	readOnly      // it has lost Keeper, and says so of inserts
	hang          // it takes what comes and says nothing
	gateway       // something before it answers 502
)

// replica is one of the replicas of a shard: a way to the server with the shard's tables. Two of a shard share the tables, and
// with them the tokens, which replicas have in common through Keeper.
type replica struct {
	addr    string
	mode    atomic.Int32
	backend *atomic.Pointer[string]
	inserts atomic.Int32 // that were passed on
}

func (r *replica) set(m mode) { r.mode.Store(int32(m)) }

// ServeHTTP implements [http.Handler].
func (r *replica) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	insert := strings.HasPrefix(req.URL.Query().Get("query"), "INSERT")
	m := mode(r.mode.Load())
	if m == readOnly && !insert {
		m = alive
	}
	switch m {
	case dead:
		panic(http.ErrAbortHandler)
	case readOnly:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, "Code: 242. DB::Exception: Table is in readonly mode. (TABLE_IS_READ_ONLY) (version 26.7.2.1)")
		return
	case gateway:
		http.Error(w, "Bad gateway", http.StatusBadGateway)
		return
	case hang:
		_, _ = io.Copy(io.Discard, req.Body)
		<-req.Context().Done()
		panic(http.ErrAbortHandler)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	out, err := http.NewRequestWithContext(req.Context(), req.Method, "http://"+*r.backend.Load()+req.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	resp, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = resp.Body.Close() }()
	if insert {
		r.inserts.Add(1)
	}
	if m == swallow {
		_, _ = io.Copy(io.Discard, resp.Body)
		panic(http.ErrAbortHandler)
	}
	for k, v := range resp.Header {
		if k != "Content-Length" {
			w.Header()[k] = v
		}
	}
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, resp.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// shardServer is the tables of a shard, behind its replicas.
type shardServer struct {
	path     string
	process  *servetest.Process
	addr     atomic.Pointer[string]
	replicas []*replica
}

// startShards starts the servers of a cluster of so many shards, which know of the cluster and of their place in it, and gives
// what reaches their replicas.
func startShards(t *testing.T, shards, copies int) ([]*shardServer, Target) {
	t.Helper()
	tg := target(shards, copies)
	var list []*shardServer
	for i := range shards {
		s := &shardServer{path: t.TempDir()}
		knows(t, s.path, i, shards)
		s.start(t)
		for j := range copies {
			r := &replica{backend: &s.addr}
			front := httptest.NewServer(r)
			front.Config.ErrorLog = nil
			t.Cleanup(front.Close)
			r.addr = front.Listener.Addr().String()
			s.replicas = append(s.replicas, r)
			tg.Cluster.Shards[i].Replicas[j] = r.addr
		}
		list = append(list, s)
	}
	return list, tg
}

// knows writes into the engine's configuration that it is shard i.
func knows(t *testing.T, path string, i, shards int) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(path, "engine.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<clickhouse><tcp_port>9000</tcp_port><macros><shard>s%d</shard><replica>r1</replica></macros><remote_servers><edge>", i+1)
	for j := range shards {
		host := "192.0.2.1" // nobody's
		if i == j {
			host = "127.0.0.1"
		}
		fmt.Fprintf(&b, "<shard><replica><host>%s</host><port>9000</port></replica></shard>", host)
	}
	b.WriteString("</edge></remote_servers></clickhouse>")
	if err := os.WriteFile(filepath.Join(path, "engine.d", "cluster.xml"), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// start starts the server, or starts it again after a kill.
func (s *shardServer) start(t *testing.T) {
	t.Helper()
	s.process = servetest.Start(t, servetest.Options{Path: s.path})
	s.addr.Store(&s.process.Addr)
}
