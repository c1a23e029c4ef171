package certs

import (
	"context"
	"crypto/tls"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestEnsure_MakesAllOnceWithModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if err := Ensure(dir, "e1", "import"); err != nil {
		t.Fatal(err)
	}
	before := map[string][]byte{}
	for name, mode := range map[string]fs.FileMode{
		"ca.crt": 0o644, "ca.key": 0o600, "gateway.crt": 0o644, "gateway.key": 0o600,
		"edge-e1.crt": 0o644, "edge-e1.key": 0o600, "edge-import.crt": 0o644, "edge-import.key": 0o600,
	} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil || st.Mode().Perm() != mode {
			t.Fatalf("%s: %v %v, want %v", name, st, err, mode)
		}
		before[name], _ = os.ReadFile(filepath.Join(dir, name))
	}
	if st, _ := os.Stat(dir); st.Mode().Perm() != 0o700 {
		t.Fatal(st.Mode())
	}
	if err := Ensure(dir, "e1", "import", "e2"); err != nil {
		t.Fatal(err)
	}
	for name, b := range before {
		if now, _ := os.ReadFile(filepath.Join(dir, name)); !slices.Equal(now, b) {
			t.Fatalf("%s was made anew", name)
		}
	}
}

func TestEnsure_RenewsInTheLastThird(t *testing.T) {
	dir := t.TempDir()
	a, err := Init(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.At(time.Now().Add(-LeafLife * 3 / 4)).Edge("e1"); err != nil {
		t.Fatal(err)
	}
	old, _ := os.ReadFile(EdgeFiles(dir, "e1").Certificate)
	if err := Ensure(dir, "e1"); err != nil {
		t.Fatal(err)
	}
	if now, _ := os.ReadFile(EdgeFiles(dir, "e1").Certificate); slices.Equal(now, old) {
		t.Fatal("a certificate with a quarter of its life left was kept")
	}
}

func TestInit_RefusesHalfAnAuthority(t *testing.T) {
	dir := t.TempDir()
	if err := Ensure(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := Init(dir); err == nil {
		t.Fatal("the authority's certificate was about to be overwritten")
	}
}

func TestNames(t *testing.T) {
	dir := t.TempDir()
	a, err := Init(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := a.Edge("e1", "import", "e1")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	if got := Names(pair.Leaf); !slices.Equal(got, []string{"e1", "import"}) {
		t.Fatal(got)
	}
	if _, err := a.Edge("Bad Name"); err == nil {
		t.Fatal("a bad name was signed")
	}
}

// shake makes one connection and gives what each side says of it, and the name that the server saw.
func shake(t *testing.T, server *tls.Config, client *Client) (name string, err error) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type seen struct {
		name string
		err  error
	}
	got := make(chan seen, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			got <- seen{"", err}
			return
		}
		defer c.Close()
		tc := c.(*tls.Conn)
		if err := tc.HandshakeContext(context.Background()); err != nil {
			got <- seen{"", err}
			return
		}
		got <- seen{tc.ConnectionState().PeerCertificates[0].Subject.CommonName, nil}
	}()
	cfg, err := client.Config()
	if err != nil {
		t.Fatal(err)
	}
	cfg.ServerName = "localhost"
	c, err := (&tls.Dialer{NetDialer: &net.Dialer{}, Config: cfg}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		<-got
		return "", err
	}
	defer c.Close()
	s := <-got
	return s.name, s.err
}

func TestServer_TakesUpRotatedFiles(t *testing.T) {
	dir := t.TempDir()
	if err := Ensure(dir, "e1"); err != nil {
		t.Fatal(err)
	}
	server, err := Server(GatewayFiles(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	client := NewClient(EdgeFiles(dir, "e1"), nil)
	now := time.Now()
	client.s.now = func() time.Time { return now }
	if name, err := shake(t, server, client); name != "e1" || err != nil {
		t.Fatal(name, err)
	}
	// Both sides get certificates of another authority; neither is restarted.
	for _, f := range []string{"ca.crt", "ca.key", "gateway.crt", "edge-e1.crt"} {
		if err := os.Remove(filepath.Join(dir, f)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Ensure(dir, "e1"); err != nil {
		t.Fatal(err)
	}
	if _, err := shake(t, server, client); err != nil {
		t.Fatalf("before the files are looked at again both have the old ones: %v", err)
	}
	now = now.Add(checkEvery)
	deadline := time.Now().Add(10 * time.Second)
	for {
		name, err := shake(t, server, client)
		if err == nil && name == "e1" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the new files were not taken up: %v", err)
		}
		<-time.After(20 * time.Millisecond)
	}
	// A broken file leaves the old certificate in use.
	if err := os.WriteFile(EdgeFiles(dir, "e1").Certificate, []byte("not a certificate"), 0o644); err != nil {
		t.Fatal(err)
	}
	now = now.Add(checkEvery)
	if _, err := shake(t, server, client); err != nil {
		t.Fatal(err)
	}
}
