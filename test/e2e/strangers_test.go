package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	edgewire "github.com/spate-io/spate/edge/wire"
	"github.com/spate-io/spate/internal/certs"
)

// Whoever is no edge is refused, told of in the log once and not for each attempt, and an edge that works goes on working. So
// does one whose neighbour with a good certificate sends nonsense.
func TestGateway_StrangersAndNonsense(t *testing.T) {
	served := freePort(t)
	s := newSpate(t, fmt.Sprintf("store: {serve: {listen: %q}}\n", served))
	s.start()
	dir := filepath.Join(s.dir, "data", "certs")
	for _, name := range []string{"web1", "web2"} {
		if _, err := s.run("certs", "edge", name); err != nil {
			t.Fatal(err)
		}
	}
	log := newNumbered(t)
	followAsEdge(t, s, dir, log)
	log.add(500)
	log.stored(served, 20*time.Second)

	other := t.TempDir()
	if err := certs.Ensure(other, "web1"); err != nil {
		t.Fatal(err)
	}
	authority, err := certs.Init(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authority.At(time.Now().Add(-2 * certs.LeafLife)).Edge("old"); err != nil {
		t.Fatal(err)
	}
	for name, attack := range map[string]func() error{
		"other_authority": func() error { return greet(s.gateway, dir, certs.EdgeFiles(other, "web1"), 0) },
		"expired":         func() error { return greet(s.gateway, dir, certs.EdgeFiles(dir, "old"), 0) },
		"no_certificate":  func() error { return greet(s.gateway, dir, certs.Files{}, 0) },
		"tls_1_2":         func() error { return greet(s.gateway, dir, certs.EdgeFiles(dir, "web2"), tls.VersionTLS12) },
		"plain_tcp":       func() error { return plain(s.gateway, "GET / HTTP/1.1\r\n\r\n") },
		"silent":          func() error { return plain(s.gateway, "\x16") },
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				if err := attack(); err == nil {
					t.Fatal("was let in")
				}
				if name == "silent" {
					break // each waits for the gateway's patience to end
				}
			}
		})
	}
	for name, sent := range map[string][]byte{
		"noise":     []byte(strings.Repeat("nonsense", 4096)),
		"too_large": {3, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if err := nonsense(s.gateway, dir, sent); err != nil {
				t.Fatal(err)
			}
		})
	}
	log.add(500)
	log.stored(served, 20*time.Second)
	b, err := os.ReadFile(s.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte("part=gateway")); n == 0 || n > 25 {
		t.Errorf("the gateway wrote %d lines", n)
	}
}

// followAsEdge runs `spate forward` as web1, following a log.
func followAsEdge(t *testing.T, s *spate, dir string, log *numbered) {
	t.Helper()
	files := certs.EdgeFiles(dir, "web1")
	yaml := fmt.Sprintf(`data_dir: %s
http: {listen: %q}
edge:
  edge: web1
  inputs: [{type: file, path: %s}]
  destinations: [{name: core, addresses: [%q], ca: %s, certificate: %s, key: %s}]
`, t.TempDir(), freePort(t), log.path, s.gateway, files.CA, files.Certificate, files.Key)
	path := filepath.Join(t.TempDir(), "edge.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "edge.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(spateBinary(t), "forward", "--config", path)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			b, _ := os.ReadFile(out.Name())
			t.Logf("the edge's log:\n%s", tail(b, 20))
		}
	})
}

// dial opens TLS to the gateway with some certificate, trusting the gateway's authority.
func dial(address, dir string, files certs.Files, version uint16) (*tls.Conn, error) {
	pem, err := os.ReadFile(certs.CAFile(dir))
	if err != nil {
		return nil, err
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12, MaxVersion: version}
	c.RootCAs.AppendCertsFromPEM(pem)
	if files.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
		if err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", address, c)
}

// greet says hello as web1 and gives why it was not welcome.
func greet(address, dir string, files certs.Files, version uint16) error {
	c, err := dial(address, dir, files, version)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(15 * time.Second))
	if err := edgewire.NewWriter(c).Hello(edgewire.Hello{Min: 1, Max: 1, Edge: "web1"}); err != nil {
		return err
	}
	typ, _, err := edgewire.NewReader(c, 0).Next()
	if err == nil && typ == edgewire.TypeGoAway {
		return errors.New("told to go away")
	}
	return err
}

// plain sends bytes without TLS and gives an error when the gateway hangs up, as it must.
func plain(address, text string) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	_, _ = c.Write([]byte(text))
	_ = c.SetReadDeadline(time.Now().Add(15 * time.Second))
	b, err := io.ReadAll(c)
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return nil // it still holds the line: as good as let in
	}
	return fmt.Errorf("hung up after %d bytes", len(b))
}

// nonsense is an edge with a good certificate that is welcome and then sends bytes that are no frames. The gateway must
// hang up.
func nonsense(address, dir string, b []byte) error {
	c, err := dial(address, dir, certs.EdgeFiles(dir, "web2"), 0)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(15 * time.Second))
	if err := edgewire.NewWriter(c).Hello(edgewire.Hello{Min: 1, Max: 1, Edge: "web2"}); err != nil {
		return err
	}
	if typ, _, err := edgewire.NewReader(c, 0).Next(); err != nil || typ == edgewire.TypeGoAway {
		return fmt.Errorf("a good edge was not welcome: %v, %v", typ, err)
	}
	_, _ = c.Write(b)
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("the gateway still listens")
	}
	return nil
}
