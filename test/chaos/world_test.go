package chaos

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/spate-io/spate/internal/testdata"
)

// What can be broken.
const (
	edge        = "edge"
	gateway1    = "gateway1"
	gateway2    = "gateway2"
	broker      = "broker"
	loader1     = "loader1"
	loader2     = "loader2"
	storeServer = "store"
	core        = "core"
	up          = "up"
	link1       = "link1" // edge to gateway1
	link2       = "link2" // edge to gateway2
	linkCore    = "linkcore"
	linkStore   = "linkstore" // loaders to store
	spoolDisk   = "disk"
)

// world is everything that runs: the edge, two data centres, and a machine with all roles in one.
type world struct {
	dir       string
	temporary bool // dir goes when all was right
	bin       string
	ports     map[string]string // host:port by name
	processes map[string]*process
	links     map[string]*link
	store     *storeLink
	disk      *disk
	places    []*place
}

// place is a store that must hold all events of a generator.
type place struct {
	name string
	api  string // base of its API
	sql  string // base of its store's HTTP interface
	from *generator
}

// order is how processes are started.
var order = []string{storeServer, broker, gateway1, gateway2, loader1, loader2, core, edge, up}

func newWorld(t *testing.T, rate int, seed uint64) *world {
	t.Helper()
	w := &world{bin: spateBinary(t), dir: os.Getenv("SPATE_CHAOS_DIR"), ports: map[string]string{}, processes: map[string]*process{}, links: map[string]*link{}}
	var err error
	if w.temporary = w.dir == ""; w.temporary {
		w.dir, err = os.MkdirTemp("", "spate-chaos-")
	} else {
		err = os.MkdirAll(w.dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"edge.http", "gateway1.http", "gateway1", "gateway2.http", "gateway2", "broker.http", "broker", "loader1.http", "loader2.http", "store.http", "store",
		"core.http", "core.bus", "core.gateway", "core.store", "up.http", "up.bus", "up.gateway", "up.store",
	} {
		w.ports[name] = freePort(t)
	}
	for name, to := range map[string]string{link1: "gateway1", link2: "gateway2", linkCore: "core.gateway"} {
		if w.links[name], err = newLink(w.ports[to]); err != nil {
			t.Fatal(err)
		}
	}
	if w.store, err = newStoreLink(w.ports["store"]); err != nil {
		t.Fatal(err)
	}
	if w.disk, err = newDisk(filepath.Join(w.dir, "spool")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.close(t) })
	w.configure(t)
	a := newGenerator(filepath.Join(w.dir, "edge.sock"), rate, seed)
	b := newGenerator(filepath.Join(w.dir, "up.sock"), rate, seed+1)
	w.places = []*place{
		{"first", w.http("loader1.http"), w.http("store"), a},
		{"second", w.http("core.http"), w.http("core.store"), a},
		{"up", w.http("up.http"), w.http("up.store"), b},
	}
	return w
}

func (w *world) http(port string) string { return "http://" + w.ports[port] }

// configure writes a file for each process. Times that are made for days and networks are shortened: a fault lasts seconds
// here.
func (w *world) configure(t *testing.T) {
	t.Helper()
	const load = "load: {retry: {max: 2s}, session_timeout: 6s}\n"
	const small = "store: {embedded: {memory: 400MiB, query_memory: 200MiB}"
	bus := fmt.Sprintf("bus: {partitions: 4, embedded: {listen: %q}}\n", w.ports["broker"])
	shared := fmt.Sprintf("certs_dir: %s\n", filepath.Join(w.dir, "certs-first"))
	w.add(t, storeServer, []string{"store", "serve"}, "store.http", small+fmt.Sprintf(", serve: {listen: %q}}\n", w.ports["store"]))
	w.add(t, broker, []string{"broker"}, "broker.http", bus)
	for _, g := range []string{gateway1, gateway2} {
		w.add(t, g, []string{"gateway"}, g+".http", shared+bus+fmt.Sprintf("gateway: {listen: %q}\n", w.ports[g]))
	}
	for _, l := range []string{loader1, loader2} {
		w.add(t, l, []string{"load"}, l+".http", bus+load+fmt.Sprintf("store: {address: \"clickhouse://%s?read_timeout=10s\"}\n", w.store.address))
	}
	w.add(t, core, []string{"core"}, "core.http", fmt.Sprintf("certs_dir: %s\nbus: {embedded: {listen: %q}}\ngateway: {listen: %q}\n",
		filepath.Join(w.dir, "certs-second"), w.ports["core.bus"], w.ports["core.gateway"])+load+small+fmt.Sprintf(", serve: {listen: %q}}\n", w.ports["core.store"]))
	w.add(t, up, []string{"up"}, "up.http", fmt.Sprintf("bus: {embedded: {listen: %q}}\ngateway: {listen: %q}\nedge: {producer: {socket: %s}}\n",
		w.ports["up.bus"], w.ports["up.gateway"], filepath.Join(w.dir, "up.sock"))+load+small+fmt.Sprintf(", serve: {listen: %q}}\n", w.ports["up.store"]))
	w.add(t, edge, []string{"forward"}, "edge.http", fmt.Sprintf(`edge:
  edge: chaos
  colo: TST
  producer: {socket: %s}
  spool: {dir: %s, segment_bytes: 4MiB, max_bytes: 64MiB}
  wire: {backoff_max: 2s, idle_timeout: 6s, ping_interval: 2s, return_after: 10s}
  destinations:
    - {name: first, addresses: [%q, %q], %s}
    - {name: second, addresses: [%q], %s}
`, filepath.Join(w.dir, "edge.sock"), filepath.Join(w.disk.dir, "spool"),
		w.links[link1].addr(), w.links[link2].addr(), w.certificates(t, "first", gateway1),
		w.links[linkCore].addr(), w.certificates(t, "second", core)))
}

// add makes a process from its configuration.
func (w *world) add(t *testing.T, name string, role []string, port, yaml string) {
	t.Helper()
	file := filepath.Join(w.dir, name+".yaml")
	yaml = fmt.Sprintf("data_dir: %s\nhttp: {listen: %q}\n", filepath.Join(w.dir, name), w.ports[port]) + yaml
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(w.dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	w.processes[name] = &process{name: name, bin: w.bin, args: append(role, "--config", file), base: w.http(port), log: log}
}

// certificates makes the authority of a data centre, with a certificate for the edge, and gives the lines that name it.
func (w *world) certificates(t *testing.T, place, config string) string {
	t.Helper()
	for _, args := range [][]string{{"certs", "init", "127.0.0.1"}, {"certs", "edge", "chaos"}} {
		cmd := exec.Command(w.bin, append(args, "--config", filepath.Join(w.dir, config+".yaml"))...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	dir := filepath.Join(w.dir, "certs-"+place)
	return fmt.Sprintf("ca: %s/ca.crt, certificate: %s/edge-chaos.crt, key: %s/edge-chaos.key", dir, dir, dir)
}

// start brings everything up.
func (w *world) start(t *testing.T) {
	t.Helper()
	for _, name := range order {
		p := w.processes[name]
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
		if err := waitFor(60*time.Second, name, p.ready); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range w.places {
		if p.name != "second" {
			go p.from.run()
		}
	}
}

func (w *world) close(t *testing.T) {
	for _, p := range w.processes {
		p.kill()
		if t.Failed() {
			b, _ := os.ReadFile(p.log.Name())
			t.Logf("end of %s's log:\n%s", p.name, b[max(0, len(b)-3000):])
		}
		_ = p.log.Close()
	}
	for _, k := range w.links {
		k.close()
	}
	w.store.close()
	if t.Failed() {
		t.Logf("logs and data are kept in %s", w.dir)
		return // with its disk, which holds the spool
	}
	w.disk.close()
	if w.temporary {
		_ = os.RemoveAll(w.dir)
	}
}

func spateBinary(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("SPATE_BIN")
	if bin == "" {
		bin = filepath.Join(testdata.Root(t), "bin", "spate")
	}
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("no binary at %s: run `make build` first", bin)
	}
	return bin
}

// freePort gives an address whose port is below those that the system gives to outgoing connections: while a process is
// down nobody else may get its port.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 15000+rand.IntN(15000)))
		if err == nil {
			defer func() { _ = l.Close() }()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}
