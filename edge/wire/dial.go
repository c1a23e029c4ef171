package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

// Dialer makes connections to one gateway. Dial may be called from any goroutine; the caller closes what it gives.
type Dialer interface {
	Dial(ctx context.Context) (net.Conn, error)
}

// TLSDialer connects to a TCP address with TLS, both sides showing certificates.
type TLSDialer struct {
	Address string
	// Config gives the configuration of each new connection, so that rotated certificates are taken up. An empty
	// ServerName becomes the host of Address.
	Config func() (*tls.Config, error)
}

var _ Dialer = (*TLSDialer)(nil)

// String is the address.
func (d *TLSDialer) String() string { return d.Address }

// Dial connects and completes the handshake.
func (d *TLSDialer) Dial(ctx context.Context) (net.Conn, error) {
	cfg, err := d.Config()
	if err != nil {
		return nil, fmt.Errorf("tls of %s: %w", d.Address, err)
	}
	cfg = cfg.Clone()
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(d.Address)
		if err != nil {
			return nil, fmt.Errorf("address %s: %w", d.Address, err)
		}
		cfg.ServerName = host
	}
	cfg.MinVersion = tls.VersionTLS13
	td := tls.Dialer{NetDialer: &net.Dialer{KeepAlive: 15 * time.Second}, Config: cfg}
	return td.DialContext(ctx, "tcp", d.Address) //nolint:wrapcheck // says operation and address
}

// InProcess gives a Dialer whose connections are pipes; serve is run in a goroutine of its own with the other end, which it
// closes, and ends when the connection does.
func InProcess(serve func(net.Conn)) Dialer { return inProcess(serve) }

type inProcess func(net.Conn)

// String is the kind of the connection.
func (inProcess) String() string { return "in-process" }

// Dial makes a pipe.
func (serve inProcess) Dial(ctx context.Context) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	here, there := Pipe(256 << 10)
	go serve(there)
	return here, nil
}
