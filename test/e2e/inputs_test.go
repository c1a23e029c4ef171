package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Lines come in three ways at once, with a rotation and a kill -9 in between; each is counted once.
func TestInputs_FollowSyslogAndPush(t *testing.T) {
	logs := t.TempDir()
	path := filepath.Join(logs, "access.log")
	syslog, push := freeUDPPort(t), freePort(t)
	s := newSpate(t, fmt.Sprintf(`
edge:
  inputs:
    - {type: file, path: %s, host: followed.test}
    - {type: syslog, listen: "udp://%s", host: syslog.test, format: combined}
    - {type: http, listen: "%s", token: let-me-push-lines, host: pushed.test}
`, path, syslog, push))
	s.start()

	appendLines(t, path, 0, 1000)
	rotated := filepath.Join(logs, "access.log.1")
	if err := os.Rename(path, rotated); err != nil {
		t.Fatal(err)
	}
	appendLines(t, rotated, 1000, 1100) // nginx goes on with the old file until it is told
	appendLines(t, path, 1100, 1500)
	conn, err := net.Dial("udp", syslog)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := range 50 {
		fmt.Fprintf(conn, "<190>Nov 21 10:00:%02d web1 nginx: %s", i, line(i))
	}
	for range 2 { // a client that did not hear the answer sends again under the same key
		pushLines(t, push, "first", 0, 300)
	}
	s.expect(map[string]int{"followed.test": 1500, "syslog.test": 50, "pushed.test": 300})

	s.kill()
	appendLines(t, path, 1500, 2000)
	s.start()
	pushLines(t, push, "second", 300, 400)
	s.expect(map[string]int{"followed.test": 2000, "syslog.test": 50, "pushed.test": 400})
}

func line(i int) string {
	at := time.Now().UTC().Add(-time.Minute).Format("02/Jan/2006:15:04:05 -0700")
	return fmt.Sprintf(`192.0.2.%d - - [%s] "GET /n/%d HTTP/1.1" 200 %d "-" "Mozilla/5.0"`, i%250, at, i, 100+i) + "\n"
}

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		b.WriteString(line(i))
	}
	return b.String()
}

func appendLines(t *testing.T, path string, from, to int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(lines(from, to)); err != nil {
		t.Fatal(err)
	}
}

func pushLines(t *testing.T, addr, key string, from, to int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/", strings.NewReader(lines(from, to)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer let-me-push-lines")
	req.Header.Set("Idempotency-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		t.Fatalf("push answers %s", resp.Status)
	}
}

// expect waits until each zone has that many requests in the last half hour.
func (s *spate) expect(want map[string]int) {
	s.t.Helper()
	waitFor(s.t, 30*time.Second, "the inputs' lines", func() error {
		for name, n := range want {
			var zones struct{ Result []struct{ ID string } }
			if err := s.get("/client/v4/zones?name="+name, &zones); err != nil {
				return err
			}
			if len(zones.Result) != 1 {
				return fmt.Errorf("no zone %s yet", name)
			}
			var dash struct {
				Result struct {
					Totals struct{ Requests struct{ All int } }
				}
			}
			if err := s.get("/client/v4/zones/"+zones.Result[0].ID+"/analytics/dashboard?since=-30&until=0&continuous=false", &dash); err != nil {
				return err
			}
			if got := dash.Result.Totals.Requests.All; got != n {
				return fmt.Errorf("%s has %d requests, want %d", name, got, n)
			}
		}
		return nil
	})
}

func freeUDPPort(t *testing.T) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().String()
}
