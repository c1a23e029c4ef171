package kafkatest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Secure is what a client needs for a cluster that speaks TLS with SCRAM-SHA-512 only.
type Secure struct {
	CA             string // PEM file with the authority of the brokers' certificate
	User, Password string

	pool      *x509.CertPool
	cert, key string // PEM
}

// StartSecure runs n brokers that want TLS and SCRAM-SHA-512 of their clients.
func StartSecure(t testing.TB, n int) (*Cluster, *Secure) {
	t.Helper()
	s := newSecure(t)
	return start(t, n, s), s
}

// newSecure makes a certificate for 127.0.0.1 that signs itself.
func newSecure(t testing.TB) *Secure {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kafka"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	s := &Secure{
		CA: filepath.Join(t.TempDir(), "ca.pem"), User: "spate", Password: "swordfish", pool: x509.NewCertPool(),
		cert: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		key:  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})),
	}
	s.pool.AppendCertsFromPEM([]byte(s.cert))
	if err := os.WriteFile(s.CA, []byte(s.cert), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// properties are the lines of the brokers' configuration.
func (s *Secure) properties() string {
	oneLine := func(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", `\n`) }
	var b bytes.Buffer
	fmt.Fprintln(&b, "sasl.enabled.mechanisms=SCRAM-SHA-512")
	fmt.Fprintln(&b, "listener.name.client.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;")
	fmt.Fprintln(&b, "listener.name.client.ssl.keystore.type=PEM")
	fmt.Fprintln(&b, "listener.name.client.ssl.keystore.certificate.chain="+oneLine(s.cert))
	fmt.Fprintln(&b, "listener.name.client.ssl.keystore.key="+oneLine(s.key))
	return b.String()
}

// options let a client in. A nil Secure needs none.
func (s *Secure) options() []kgo.Opt {
	if s == nil {
		return nil
	}
	return []kgo.Opt{
		kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.pool}),
		kgo.SASL(scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism()),
	}
}
