package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spate-io/spate/internal/kafkatest"
)

// numbered is a log whose lines have numbers, 1, 2, 3 ..., as their paths.
type numbered struct {
	t    *testing.T
	path string
	last int
}

func newNumbered(t *testing.T) *numbered {
	n := &numbered{t: t, path: filepath.Join(t.TempDir(), "access.log")}
	n.add(0)
	return n
}

func (n *numbered) add(lines int) {
	n.t.Helper()
	f, err := os.OpenFile(n.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer f.Close()
	now := time.Now().UTC().Format("02/Jan/2006:15:04:05 +0000")
	for range lines {
		n.last++
		if _, err := fmt.Fprintf(f, "192.0.2.%d - - [%s] \"GET /%d HTTP/1.1\" 200 23 \"-\" \"curl/8\"\n", n.last%250, now, n.last); err != nil {
			n.t.Fatal(err)
		}
	}
}

// stored waits until the store behind address has each line once, in the raw table and in the rollups.
func (n *numbered) stored(address string, limit time.Duration) {
	n.t.Helper()
	want := fmt.Sprintf("%d\t%d\t%d\t%d", n.last, n.last, n.last, n.last)
	waitFor(n.t, limit, fmt.Sprintf("%d lines in the store", n.last), func() error {
		got, err := ask(address, "SELECT count(), uniqExact(ClientRequestPath), (SELECT sum(requests) FROM http_requests_1m), (SELECT sum(requests) FROM http_requests_1mo) FROM http_requests")
		if err == nil && got != want {
			err = fmt.Errorf("rows, distinct, by minute, by month: %q, want %q", got, want)
		}
		return err
	})
}

// ask runs a query on a served store.
func ask(address, sql string) (string, error) {
	res, err := client.Post("http://"+address, "text/plain", strings.NewReader(sql))
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", res.StatusCode, b)
	}
	return strings.TrimSpace(string(b)), err
}

// The whole of Spate on Apache Kafka, three brokers with TLS and SCRAM, replication 3 and min.insync 2: brokers are killed one
// after the other, and Spate itself; each line of a log that grows meanwhile is stored once.
func TestKafka_EveryLineOnceThroughKills(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	cluster, secure := kafkatest.StartSecure(t, 3)
	for name, value := range map[string]string{
		"ADDRESS": "kafka://" + cluster.Addr(), "REPLICATION": "3", "MIN_INSYNC": "2", "TLS_ENABLED": "true", "TLS_CA": secure.CA,
		"SASL_MECHANISM": "scram-sha-512", "SASL_USER": secure.User, "SASL_PASSWORD": secure.Password,
	} {
		t.Setenv("SPATE_BUS_"+name, value)
	}
	log, served := newNumbered(t), freePort(t)
	s := newSpate(t, fmt.Sprintf("edge: {inputs: [{type: file, path: %s}]}\nload: {session_timeout: 6s}\nstore: {serve: {listen: %q}}\n", log.path, served))
	s.start()
	log.add(3000)
	log.stored(served, 30*time.Second)

	cluster.Kill(0)
	log.add(3000)
	s.kill()
	log.add(3000)
	if out, err := s.run("bus", "lag"); err != nil || !strings.Contains(out, "http_requests") {
		t.Errorf("spate bus lag from outside: %v\n%s", err, out)
	}
	s.start()
	log.stored(served, 60*time.Second)
	cluster.Start(0)

	log.add(3000)
	s.kill()
	s.start()
	log.add(3000)
	log.stored(served, 60*time.Second)
	if out, err := s.run("ledger", "--since", "1h", "--wait", "30s"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
