package cluster

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/storetest"
)

// Real servers, of a version from 2018: all that Debian has. They know neither tokens nor most of what Spate's tables use, but
// they have Keeper's forerunner, ON CLUSTER, replicated and distributed tables: what a cluster does with rows can be seen.
const (
	oldServer    = "/usr/sbin/clickhouse-server"
	oldZooKeeper = "/usr/share/java/zookeeper.jar"
)

type oldNode struct {
	dir                     string
	http, tcp, interserver  int
	shard, replica          int
	process                 *exec.Cmd
	zookeeper, otherServers string
}

func (n *oldNode) addr() string { return fmt.Sprintf("127.0.0.1:%d", n.http) }

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func background(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(dir, "output.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(name, args...) //nolint:gosec,noctx // ended by cleanup
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be dead already
		_ = cmd.Wait()
	})
	return cmd
}

func startZooKeeper(t *testing.T) string {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	conf := fmt.Sprintf("tickTime=500\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\n", dir, port)
	if err := os.WriteFile(filepath.Join(dir, "zoo.cfg"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	background(t, dir, "java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", "/etc/zookeeper/conf:"+oldZooKeeper, "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg")
	storetest.WaitFor(t, func() bool {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
		if err != nil {
			return false
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(c, "srvr") // its answer tells
		b, _ := io.ReadAll(c)
		return strings.Contains(string(b), "Mode:")
	}, "ZooKeeper")
	return fmt.Sprintf("<zookeeper><node><host>127.0.0.1</host><port>%d</port></node><session_timeout_ms>3000</session_timeout_ms></zookeeper>", port)
}

func (n *oldNode) start(t *testing.T) {
	t.Helper()
	conf := fmt.Sprintf(`<yandex><logger><level>warning</level><log>%[1]s/server.log</log><errorlog>%[1]s/error.log</errorlog></logger>
<http_port>%[2]d</http_port><tcp_port>%[3]d</tcp_port><interserver_http_port>%[4]d</interserver_http_port><interserver_http_host>127.0.0.1</interserver_http_host><listen_host>127.0.0.1</listen_host>
<path>%[1]s/data/</path><tmp_path>%[1]s/tmp/</tmp_path><user_files_path>%[1]s/files/</user_files_path><users_config>users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><mark_cache_size>67108864</mark_cache_size><macros><shard>s%[5]d</shard><replica>r%[6]d</replica></macros>
<remote_servers><edge>%[7]s</edge></remote_servers>%[8]s<distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl></yandex>`,
		n.dir, n.http, n.tcp, n.interserver, n.shard, n.replica, n.otherServers, n.zookeeper)
	const users = `<yandex><profiles><default/></profiles><users><default><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default></users><quotas><default/></quotas></yandex>`
	for name, text := range map[string]string{"config.xml": conf, "users.xml": users} {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n.process = background(t, n.dir, oldServer, "--config-file="+filepath.Join(n.dir, "config.xml"))
	storetest.WaitFor(t, func() bool { _, err := n.ask("SELECT 1", nil); return err == nil }, "a server")
}

// ask runs a statement and gives its answer.
func (n *oldNode) ask(sql string, body []byte) (string, error) {
	u := url.URL{Scheme: "http", Host: n.addr(), Path: "/", RawQuery: url.Values{"query": {sql}, "insert_distributed_sync": {"1"}}.Encode()}
	resp, err := (&http.Client{Timeout: 20 * time.Second}).Post(u.String(), "", bytes.NewReader(body)) //nolint:noctx // bounded
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = store.ParseError(string(b))
	}
	return strings.TrimSpace(string(b)), err
}

func (n *oldNode) must(t *testing.T, sql string, body []byte) string {
	t.Helper()
	s, err := n.ask(sql, body)
	if err != nil {
		t.Fatalf("shard %d replica %d: %.200s: %v", n.shard, n.replica, sql, err)
	}
	return s
}

func oldCluster(t *testing.T, shards, copies int) [][]*oldNode {
	t.Helper()
	for _, f := range []string{oldServer, oldZooKeeper} {
		if _, err := os.Stat(f); err != nil {
			t.Skipf("%s is not installed: not run against real servers", f)
		}
	}
	zookeeper := startZooKeeper(t)
	var list [][]*oldNode
	var remote strings.Builder
	for i := range shards {
		list = append(list, nil)
		remote.WriteString("<shard><internal_replication>true</internal_replication>")
		for j := range copies {
			n := &oldNode{dir: t.TempDir(), http: freePort(t), tcp: freePort(t), interserver: freePort(t), shard: i + 1, replica: j + 1, zookeeper: zookeeper}
			list[i] = append(list[i], n)
			fmt.Fprintf(&remote, "<replica><host>127.0.0.1</host><port>%d</port></replica>", n.tcp)
		}
		remote.WriteString("</shard>")
	}
	for _, s := range list {
		for _, n := range s {
			n.otherServers = remote.String()
			n.start(t)
		}
	}
	return list
}

func oldBlock(t *testing.T, from, to uint64) []byte {
	var n proto.ColUInt64
	var zone, s proto.ColStr
	for i := from; i < to; i++ {
		n.Append(i)
		zone.Append(fmt.Sprintf("%032x", i%997))
		s.Append(fmt.Sprint("text ", i))
	}
	return storetest.Encode(t, proto.Input{{Name: "n", Data: &n}, {Name: "zone_id", Data: &zone}, {Name: "s", Data: &s}})
}

const oldInsert = "INSERT INTO %s (n, zone_id, s) FORMAT Native"

// Two shards, two replicas, real servers: the tables as the plan has them; rows that a distributed table sends to shards are
// where the cut would have put them; pieces that are inserted into local tables, again into the other replica, are there once;
// and with a server killed, everything is read and inserted through those that are left.
func TestOldServers_RoutingReplicationAndAKilledServer(t *testing.T) {
	nodes := oldCluster(t, 2, 2)
	list, err := rewriterFor("default").statement("CREATE TABLE IF NOT EXISTS http_x (\n    n UInt64,\n    zone_id String,\n    s String\n) ENGINE = MergeTree\nPARTITION BY intDiv(n, 1000000)\nORDER BY (zone_id, n)")
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range list {
		nodes[0][0].must(t, sql, nil)
	}
	nodes[0][0].must(t, "INSERT INTO http_x (n, zone_id, s) SELECT number, lower(hex(cityHash64(number % 997))), toString(number) FROM numbers(20000)", nil)
	inStep(t, nodes)
	for i, shard := range nodes {
		zones := strings.Split(shard[0].must(t, "SELECT DISTINCT zone_id FROM http_x_local", nil), "\n")
		for _, z := range zones {
			if ShardOf(z, 2) != i {
				t.Fatalf("the distributed table has zone %s on shard %d, Go says %d", z, i, ShardOf(z, 2))
			}
		}
		if len(zones) < 300 {
			t.Errorf("%d zones on shard %d", len(zones), i)
		}
	}
	insertOld(t, nodes, 20_000, 30_000, 0)
	insertOld(t, nodes, 20_000, 30_000, 1) // the other replicas have it already
	inStep(t, nodes)
	const all = "SELECT count(), uniqExact(n), sum(n) FROM http_x"
	if got := nodes[1][1].must(t, all, nil); got != "30000\t30000\t449985000" {
		t.Errorf("all: %s", got)
	}
	if err := nodes[0][0].process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = nodes[0][0].process.Wait() // it was killed
	insertOld(t, nodes, 30_000, 40_000, 0)
	inStep(t, [][]*oldNode{nodes[0][1:], nodes[1]})
	want := "40000\t40000\t799980000"
	for _, n := range []*oldNode{nodes[0][1], nodes[1][0], nodes[1][1]} {
		if got := n.must(t, all, nil); got != want {
			t.Errorf("with a dead server, asked shard %d replica %d: %s", n.shard, n.replica, got)
		}
	}
	nodes[0][0].start(t)
	inStep(t, nodes)
	if got := nodes[0][0].must(t, all, nil); got != want {
		t.Errorf("asked the server that was killed: %s", got)
	}
}

// inStep waits until all replicas of each shard have the same rows.
func inStep(t *testing.T, nodes [][]*oldNode) {
	t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	for _, shard := range nodes {
		for {
			seen := map[string]bool{}
			for _, n := range shard {
				s, err := n.ask("SELECT count(), sum(n) FROM http_x_local", nil)
				if err != nil {
					s = err.Error()
				}
				seen[s] = true
			}
			if len(seen) == 1 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("replicas of shard %d have %v", shard[0].shard, seen)
			}
			select {
			case <-t.Context().Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// insertOld cuts a block and inserts each piece into the local table of a live replica of its shard, beginning with first.
func insertOld(t *testing.T, nodes [][]*oldNode, from, to uint64, first int) {
	t.Helper()
	pieces, err := Cut(oldBlock(t, from, to), "zone_id", len(nodes))
	if err != nil {
		t.Fatal(err)
	}
	for i, piece := range pieces {
		var err error
		for j := range nodes[i] {
			if _, err = nodes[i][(first+j)%len(nodes[i])].ask(fmt.Sprintf(oldInsert, "http_x_local"), piece); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("shard %d: %v", i+1, err)
		}
	}
}

func rewriterFor(database string) *rewriter {
	return &rewriter{cluster: "edge", database: database, keeper: "/clickhouse/tables"}
}
