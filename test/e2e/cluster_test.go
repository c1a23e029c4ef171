package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shard is a process that stands for a server of a cluster: its engine knows the cluster and its own place, and has the
// tables of the plan as far as one server without Keeper can have them.
type shard struct {
	t    *testing.T
	file string
	addr string
	cmd  *exec.Cmd
	log  bytes.Buffer
}

func newShard(t *testing.T, i, shards int) *shard {
	t.Helper()
	dir := t.TempDir()
	s := &shard{t: t, file: filepath.Join(dir, "spate.yaml"), addr: freePort(t)}
	var remote strings.Builder
	for j := range shards {
		host := "192.0.2.1" // nobody's
		if i == j {
			host = "127.0.0.1"
		}
		fmt.Fprintf(&remote, "<shard><replica><host>%s</host><port>9000</port></replica></shard>", host)
	}
	xml := fmt.Sprintf("<clickhouse><tcp_port>9000</tcp_port><remote_servers><edge>%s</edge></remote_servers></clickhouse>", remote.String())
	yaml := fmt.Sprintf("data_dir: %s\nhttp:\n  listen: %s\nstore:\n  serve:\n    listen: %s\n", filepath.Join(dir, "data"), freePort(t), s.addr)
	engine := filepath.Join(dir, "data", "store", "engine.d")
	if err := os.MkdirAll(engine, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{s.file: yaml, filepath.Join(engine, "cluster.xml"): xml} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("a shard's log:\n%s", tail(s.log.Bytes(), 20))
		}
	})
	s.start()
	for _, kind := range []string{"engine = 'MaterializedView'", "1"} { // what it made for itself
		names, err := s.ask("SELECT name FROM system.tables WHERE database = 'default' AND " + kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields(names) {
			s.must("DROP TABLE IF EXISTS " + name + " SYNC")
		}
	}
	return s
}

func (s *shard) start() {
	s.t.Helper()
	s.cmd = exec.Command(spateBinary(s.t), "store", "serve", "--config", s.file)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	waitFor(s.t, 60*time.Second, "a shard", func() error {
		_, err := text("http://" + s.addr + "/ping")
		return err
	})
}

func (s *shard) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *shard) ask(sql string) (string, error) {
	return text("http://" + s.addr + "/?query=" + url.QueryEscape(sql))
}

func (s *shard) must(sql string) {
	s.t.Helper()
	resp, err := client.Post("http://"+s.addr+"/", "", bytes.NewReader([]byte(sql)))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%.100s: %s", sql, resp.Status)
	}
}

var (
	onCluster   = regexp.MustCompile(" ON CLUSTER `edge`")
	replicated  = regexp.MustCompile(`ENGINE = Replicated(\w+)\('[^']*', '[^']*'(?:, )?([^)]*)\)`)
	remembers   = regexp.MustCompile(`\breplicated_deduplication_window = (\d+), replicated_deduplication_window_seconds = \d+`)
	distributed = regexp.MustCompile(`ENGINE = Distributed\('edge', '\w+', '(\w+)', cityHash64\(\w+\)\)`)
)

// make runs the plan.
func (s *shard) make(plan string) {
	s.t.Helper()
	for _, sql := range strings.Split(plan, ";\n\n") {
		if strings.TrimSpace(sql) == "" {
			continue
		}
		sql = replicated.ReplaceAllString(onCluster.ReplaceAllString(sql, ""), "ENGINE = $1($2)")
		sql = remembers.ReplaceAllString(sql, "non_replicated_deduplication_window = $1")
		s.must(distributed.ReplaceAllString(sql, "ENGINE = Merge(currentDatabase(), '^$1$$')"))
	}
}

// rows gives how many requests a shard has.
func (s *shard) rows() int {
	n := 0
	if got, err := s.ask("SELECT count() FROM http_requests_local"); err == nil {
		_, _ = fmt.Sscan(got, &n) // no number is none
	}
	return n
}

// A store of two shards, and logs of many sites. One shard is killed, the other takes its pieces of inserts that are half done
// then; Spate is killed and started again; the shard comes back. Every request is on the shard of its zone, once, and in all
// rollups.
func TestCluster_KilledShardAndKilledLoader(t *testing.T) {
	const sites, lines = 12, 300
	shards := []*shard{newShard(t, 0, 2), newShard(t, 1, 2)}
	logs := t.TempDir()
	path := func(site int) string { return filepath.Join(logs, fmt.Sprintf("%d.log", site)) }
	var inputs strings.Builder
	for site := range sites {
		fmt.Fprintf(&inputs, "    - {type: file, path: %s, host: www.site%d.test}\n", path(site), site)
	}
	s := newSpate(t, fmt.Sprintf(`edge:
  inputs:
%[3]sstore:
  address: clickhouse://%[1]s,%[2]s/?quarantine=100ms
  cluster:
    name: edge
    copies: 1
    shards:
      - replicas: [%[1]s]
      - replicas: [%[2]s]
`, shards[0].addr, shards[1].addr, inputs.String()))
	plan, err := s.run("store", "plan")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range shards {
		one.make(plan)
	}
	part := 0
	write := func() {
		for site := range sites {
			from := site*10*lines + part*lines
			appendLines(t, path(site), from, from+lines)
		}
		part++
	}
	write()
	s.start()
	checkClusterShards(t, shards, sites*lines*part)
	shards[1].kill()
	before := shards[0].rows()
	write()
	waitFor(t, 60*time.Second, "half an insert", func() error {
		if shards[0].rows() == before {
			return fmt.Errorf("the shard that lives has %d", before)
		}
		return nil
	})
	s.kill()
	s.start()
	write()
	shards[1].start()
	checkClusterShards(t, shards, sites*lines*part)
	s.stop()
}

// checkClusterShards waits until the shards have n requests together, each where it belongs.
func checkClusterShards(t *testing.T, shards []*shard, n int) {
	t.Helper()
	waitFor(t, 90*time.Second, "all requests on their shards", func() error {
		var sum [4]int
		for i, one := range shards {
			got, err := one.ask(fmt.Sprintf("SELECT count(), uniqExact(ClientRequestPath), countIf(cityHash64(ZoneID) %% 2 = %d), "+
				"(SELECT sum(requests) FROM http_requests_1m_local), (SELECT sum(requests) FROM http_colos_1mo_local) FROM http_requests_local", i))
			if err != nil {
				return err
			}
			var rows, paths, here, minutes, months int
			if _, err := fmt.Sscan(got, &rows, &paths, &here, &minutes, &months); err != nil {
				return err
			}
			if rows != here || rows == 0 {
				return fmt.Errorf("%d of %d rows on shard %d are there by right", here, rows, i+1)
			}
			for j, n := range []int{rows, paths, minutes, months} {
				sum[j] += n
			}
		}
		if sum != [4]int{n, n, n, n} {
			return fmt.Errorf("rows, paths, and requests of minutes and months, of %d: %v", n, sum)
		}
		return nil
	})
}
