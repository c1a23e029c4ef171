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
	"sync"
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
	queue   *ddlQueue
	macro   string
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
	if onCluster.Match(body) && !strings.HasPrefix(string(body), "EXPLAIN") {
		r.queue.run(w, string(body))
		return
	}
	// What the other replica's configuration would say, and a kind of database that this engine's own is not.
	body = bytes.Replace(body, []byte("(SELECT any(substitution) FROM system.macros WHERE macro = 'replica')"), []byte("'"+r.macro+"'"), 1)
	body = bytes.Replace(body, []byte("(SELECT any(engine) FROM system.databases WHERE name = {database:String})"), []byte("'Atomic'"), 1)
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
	queue := &ddlQueue{}
	for i := range shards {
		s := &shardServer{path: t.TempDir()}
		knows(t, s.path, i, shards)
		s.start(t)
		for j := range copies {
			r := &replica{backend: &s.addr, queue: queue, macro: fmt.Sprintf("r%d", j+1)}
			front := httptest.NewServer(r)
			front.Config.ErrorLog = nil
			t.Cleanup(front.Close)
			r.addr = front.Listener.Addr().String()
			s.replicas = append(s.replicas, r)
			tg.Cluster.Shards[i].Replicas[j] = r.addr
		}
		list = append(list, s)
	}
	queue.servers = list
	return list, tg
}

// ddlQueue does what servers do with ON CLUSTER: every one runs the statement, in its plain form, with the same id for a view.
type ddlQueue struct {
	mu      sync.Mutex
	servers []*shardServer
	ran     int
	cutAt   int // the statement after which the connection is cut; 0 for none
}

func (q *ddlQueue) run(w http.ResponseWriter, sql string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ran++
	sql = plain(sql)
	if rest, ok := strings.CutPrefix(sql, "CREATE MATERIALIZED VIEW IF NOT EXISTS "); ok {
		name, rest, _ := strings.Cut(rest, " ")
		sql = fmt.Sprintf("CREATE MATERIALIZED VIEW IF NOT EXISTS %s UUID '00000000-0000-4000-8000-%012x' %s", name, q.ran, rest)
	}
	var answer strings.Builder
	for i, s := range q.servers {
		for j, r := range s.replicas {
			status := "0\t"
			if mode(r.mode.Load()) == dead {
				status = `\N` + "\t"
			} else if j == 0 {
				if text := s.tell(sql); text != "" {
					w.WriteHeader(http.StatusInternalServerError)
					fmt.Fprint(w, text)
					return
				}
			}
			fmt.Fprintf(&answer, "s%dr%d\t9000\t%s\t0\t0\n", i+1, j+1, status)
		}
	}
	if q.cutAt > 0 && q.ran >= q.cutAt {
		panic(http.ErrAbortHandler)
	}
	fmt.Fprint(w, answer.String())
}

// tell runs a statement on the server itself and gives the text of its error.
func (s *shardServer) tell(sql string) string {
	resp, err := http.Post("http://"+*s.addr.Load()+"/", "text/plain", strings.NewReader(sql)) //nolint:noctx // it ends with the test's server
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err.Error()
	case resp.StatusCode != http.StatusOK:
		return string(text)
	}
	return ""
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

// noPassword is the hash of an empty one.
const noPassword = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// start starts the server, or starts it again after a kill.
func (s *shardServer) start(t *testing.T) {
	t.Helper()
	s.process = servetest.Start(t, servetest.Options{Path: s.path, Users: []servetest.User{{Name: "default", PasswordSHA256: noPassword, Outside: true}}})
	s.addr.Store(&s.process.Addr)
}
