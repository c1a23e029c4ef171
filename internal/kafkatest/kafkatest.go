// Package kafkatest runs Apache Kafka for tests: one broker or three, in KRaft mode, on free ports of this machine. Kafka
// comes from Maven Central, once, into .cache/kafka of the repository; a JVM and mvn must be there.
//
// Where they are not, tests skip, unless SPATE_LIVE=1 says that they must run.
package kafkatest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Cluster is a running set of brokers. It is stopped at the end of the test.
type Cluster struct {
	t       testing.TB
	lib     string
	nodes   []*node
	secure  *Secure
	voters  string
	cluster string
}

type node struct {
	id                       int
	dir                      string
	port, inner, controlPort int
	cmd                      *exec.Cmd
}

// Start runs n brokers and returns when all answer. Topics that say nothing have as many replicas as there are brokers,
// up to three.
func Start(t testing.TB, n int) *Cluster {
	t.Helper()
	return start(t, n, nil)
}

func start(t testing.TB, n int, secure *Secure) *Cluster {
	t.Helper()
	c := &Cluster{t: t, lib: library(t), secure: secure, cluster: "MkU3OEVBNTcwNTJENDM2Qk"}
	dir := t.TempDir()
	ports := freePorts(t, 3*n)
	voters := make([]string, n)
	for i := range n {
		c.nodes = append(c.nodes, &node{id: i + 1, dir: filepath.Join(dir, strconv.Itoa(i+1)), port: ports[3*i], inner: ports[3*i+1], controlPort: ports[3*i+2]})
		voters[i] = fmt.Sprintf("%d@127.0.0.1:%d", i+1, ports[3*i+2])
	}
	c.voters = strings.Join(voters, ",")
	t.Cleanup(c.stop)
	for i := range n {
		c.format(c.nodes[i])
	}
	for i := range n {
		c.Start(i)
	}
	for i := range n {
		c.await(i)
	}
	return c
}

// Addr returns the addresses of all brokers, with commas between them.
func (c *Cluster) Addr() string {
	out := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		out[i] = fmt.Sprintf("127.0.0.1:%d", n.port)
	}
	return strings.Join(out, ",")
}

// Kill ends broker i, counted from 0, at once.
func (c *Cluster) Kill(i int) {
	n := c.nodes[i]
	if n.cmd != nil {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
		n.cmd = nil
	}
}

// Start starts broker i again and does not wait for it.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	n := c.nodes[i]
	log, err := os.OpenFile(filepath.Join(n.dir, "broker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	n.cmd = c.java(n, "kafka.Kafka", "server.properties")
	n.cmd.Stdout, n.cmd.Stderr = log, log
	if err := n.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// java returns a command of Kafka's in a node's folder.
func (c *Cluster) java(n *node, args ...string) *exec.Cmd {
	base := []string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:disable", "-Dlog4j2.configurationFile=log4j2.properties"}
	base = append(base, "-cp", filepath.Join(c.lib, "*"))
	cmd := exec.Command("java", append(base, args...)...) //nolint:gosec // our own arguments
	cmd.Dir = n.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// format writes a node's configuration and its empty storage.
func (c *Cluster) format(n *node) {
	c.t.Helper()
	if err := os.MkdirAll(n.dir, 0o750); err != nil {
		c.t.Fatal(err)
	}
	replicas := min(len(c.nodes), 3)
	outer := "PLAINTEXT"
	extra := ""
	if c.secure != nil {
		outer = "SASL_SSL"
		extra = c.secure.properties()
	}
	properties := fmt.Sprintf(`process.roles=broker,controller
node.id=%d
controller.quorum.voters=%s
listeners=CLIENT://127.0.0.1:%d,INNER://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d
advertised.listeners=CLIENT://127.0.0.1:%d,INNER://127.0.0.1:%d
listener.security.protocol.map=CLIENT:%s,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INNER
controller.listener.names=CONTROLLER
log.dirs=data
default.replication.factor=%d
min.insync.replicas=%d
offsets.topic.replication.factor=%d
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=%d
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=%d
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
controller.quorum.fetch.timeout.ms=1500
controller.quorum.election.timeout.ms=500
num.network.threads=2
num.io.threads=2
log.cleaner.enable=false
%s`, n.id, c.voters, n.port, n.inner, n.controlPort, n.port, n.inner, outer, replicas, min(2, replicas), replicas, replicas, replicas, extra)
	log4j := "rootLogger.level=WARN\nrootLogger.appenderRef.out.ref=out\nappender.out.type=Console\nappender.out.name=out\nappender.out.layout.type=PatternLayout\nappender.out.layout.pattern=%d %p %c %m%n\n"
	for name, text := range map[string]string{"server.properties": properties, "log4j2.properties": log4j} {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	args := []string{"kafka.tools.StorageTool", "format", "-t", c.cluster, "-c", "server.properties"}
	if c.secure != nil {
		args = append(args, "--add-scram", fmt.Sprintf("SCRAM-SHA-512=[name=%s,password=%s]", c.secure.User, c.secure.Password))
	}
	if out, err := c.java(n, args...).CombinedOutput(); err != nil {
		c.t.Fatalf("format kafka storage: %v\n%s", err, out)
	}
}

// await returns when broker i answers.
func (c *Cluster) await(i int) {
	c.t.Helper()
	n := c.nodes[i]
	cl, err := kgo.NewClient(append(c.secure.options(), kgo.SeedBrokers(fmt.Sprintf("127.0.0.1:%d", n.port)))...)
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	deadline := time.Now().Add(60 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := cl.Ping(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(n.dir, "broker.log"))
			c.t.Fatalf("kafka broker %d does not start: %v\n%s", n.id, err, log)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (c *Cluster) stop() {
	for i := range c.nodes {
		c.Kill(i)
	}
}

func freePorts(t testing.TB, n int) []int {
	t.Helper()
	var out []int
	for range n {
		ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close() //nolint:gocritic // all are held until all are known
		out = append(out, ln.Addr().(*net.TCPAddr).Port)
	}
	return out
}
