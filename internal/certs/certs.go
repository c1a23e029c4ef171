// Package certs makes and reads the certificates between edges and gateways: a private authority, a certificate for each
// gateway and one for each edge, all ECDSA P-256 in PEM files in one directory.
//
// The name of an edge is in its certificate and nowhere else: what an edge may call itself are the common name and the DNS
// names of a certificate that is for client authentication and signed by the authority.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spate-io/spate/event/batch"
)

// Lifetimes. A certificate is signed anew by Ensure in the last third of its own.
const (
	AuthorityLife = 10 * 365 * 24 * time.Hour
	LeafLife      = 365 * 24 * time.Hour
	skew          = 10 * time.Minute // clocks of edges may be behind
)

// Files are the places of one side's certificate.
type Files struct {
	CA          string // certificates of the authorities that the other side's may be signed by
	Certificate string // own chain
	Key         string
}

// CAFile is the authority's certificate in dir.
func CAFile(dir string) string { return filepath.Join(dir, "ca.crt") }

// GatewayFiles are the gateway's files in dir.
func GatewayFiles(dir string) Files { return files(dir, "gateway") }

// EdgeFiles are an edge's files in dir.
func EdgeFiles(dir, edge string) Files { return files(dir, "edge-"+edge) }

func files(dir, name string) Files {
	return Files{CA: CAFile(dir), Certificate: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key")}
}

// Authority signs certificates.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	now  func() time.Time
}

// Init opens the authority in dir, making it when there is none. The directory gets mode 0700, keys 0600, certificates 0644.
func Init(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make certificate directory: %w", err)
	}
	a := &Authority{dir: dir, now: time.Now}
	pair, err := tls.LoadX509KeyPair(CAFile(dir), filepath.Join(dir, "ca.key"))
	switch {
	case err == nil:
		key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
		if !ok || !pair.Leaf.IsCA {
			return nil, fmt.Errorf("%s is not an authority with an ECDSA key", CAFile(dir))
		}
		a.cert, a.key = pair.Leaf, key
		return a, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read authority: %w", err)
	}
	for _, n := range []string{CAFile(dir), filepath.Join(dir, "ca.key")} {
		if _, err := os.Stat(n); err == nil {
			return nil, fmt.Errorf("%s is there without the other half of the authority", n)
		}
	}
	return a, a.create()
}

func (a *Authority) create() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make authority key: %w", err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Spate private authority"},
		NotBefore: a.now().Add(-skew), NotAfter: a.now().Add(AuthorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return fmt.Errorf("sign authority: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("read authority: %w", err)
	}
	a.key = key
	return write(Files{Certificate: CAFile(a.dir), Key: filepath.Join(a.dir, "ca.key")}, der, key)
}

// Gateway makes a certificate for gateways that are reached by these host names and addresses.
func (a *Authority) Gateway(hosts ...string) (Files, error) {
	tmpl := a.leaf("gateway", x509.ExtKeyUsageServerAuth)
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, h)
		}
	}
	return a.sign(GatewayFiles(a.dir), tmpl)
}

// Edge makes a certificate for an edge of that name, which may send batches of the other names too.
func (a *Authority) Edge(name string, others ...string) (Files, error) {
	for _, n := range append([]string{name}, others...) {
		if !batch.ValidEdge(n) {
			return Files{}, fmt.Errorf("edge name %q: must be of a-z, 0-9, '.', '_' and '-'", n)
		}
	}
	tmpl := a.leaf(name, x509.ExtKeyUsageClientAuth)
	tmpl.DNSNames = append([]string{name}, others...)
	return a.sign(EdgeFiles(a.dir, name), tmpl)
}

func (a *Authority) leaf(name string, use x509.ExtKeyUsage) *x509.Certificate {
	end := a.now().Add(LeafLife)
	if end.After(a.cert.NotAfter) {
		end = a.cert.NotAfter
	}
	return &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name},
		NotBefore: a.now().Add(-skew), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use}, BasicConstraintsValid: true,
	}
}

func (a *Authority) sign(f Files, tmpl *x509.Certificate) (Files, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Files{}, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return Files{}, fmt.Errorf("sign %s: %w", tmpl.Subject.CommonName, err)
	}
	return f, write(f, der, key)
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return big.NewInt(time.Now().UnixNano())
	}
	return n.Add(n, big.NewInt(1))
}

// write puts a certificate and its key into their files, each replaced whole, the key first: a reader that finds the two
// not matching keeps what it has.
func write(f Files, der []byte, key *ecdsa.PrivateKey) error {
	k, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Key, err)
	}
	if err := replace(f.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: k}), 0o600); err != nil {
		return err
	}
	return replace(f.Certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}

func replace(name string, b []byte, mode fs.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}

// Ensure makes what `spate up` needs in dir on its first start: the authority, a gateway certificate for this host, and one
// for each edge. What is there stays, unless less than a third of its life is left.
func Ensure(dir string, edges ...string) error {
	a, err := Init(dir)
	if err != nil {
		return err
	}
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if h, err := os.Hostname(); err == nil && h != "" && h != "localhost" {
		hosts = append(hosts, h)
	}
	if !a.good(GatewayFiles(dir)) {
		if _, err := a.Gateway(hosts...); err != nil {
			return err
		}
	}
	for _, e := range edges {
		if a.good(EdgeFiles(dir, e)) {
			continue
		}
		if _, err := a.Edge(e); err != nil {
			return err
		}
	}
	return nil
}

// good says whether a certificate is there, is this authority's, and has a third of its life left.
func (a *Authority) good(f Files) bool {
	pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil || pair.Leaf.CheckSignatureFrom(a.cert) != nil {
		return false
	}
	life := pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore)
	return a.now().Before(pair.Leaf.NotAfter.Add(-life / 3))
}

// Names gives the edges that a client certificate may speak for: its common name and its DNS names, each once.
func Names(c *x509.Certificate) []string {
	var names []string
	seen := map[string]bool{}
	for _, n := range append([]string{c.Subject.CommonName}, c.DNSNames...) {
		if batch.ValidEdge(n) && !seen[n] {
			seen[n] = true
			names = append(names, n)
		}
	}
	return names
}

// At gives the same authority with its clock at t: what it signs is valid from t on.
func (a *Authority) At(t time.Time) *Authority {
	b := *a
	b.now = func() time.Time { return t }
	return &b
}
