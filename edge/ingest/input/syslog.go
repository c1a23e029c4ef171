package input

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spate-io/spate/edge/forward"
)

// maxMessage is the longest syslog message.
const maxMessage = 128 << 10

// maxConns is how many senders may be connected over TCP.
const maxConns = 1024

// syslogServer takes access-log lines that come as syslog messages, RFC 3164 or 5424. Over UDP and unix datagrams nobody can
// tell the sender to wait: what comes faster than it can be spooled is lost by the kernel. TCP waits.
type syslogServer struct {
	base
	addr atomic.Value

	mu     sync.Mutex // over what follows
	feed   *feed
	stream [16]byte
	at     uint64
}

func (s *syslogServer) address() string {
	a, _ := s.addr.Load().(string)
	return a
}

func (s *syslogServer) run(ctx context.Context, up func()) error {
	network, address, err := splitListen(s.cfg.Listen)
	if err != nil {
		return err
	}
	s.feed = s.newFeed()
	_, _ = rand.Read(s.stream[:]) // never fails
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { s.flushLoop(ctx) })
	if network == "tcp" {
		return s.serveTCP(ctx, address, up)
	}
	return s.servePackets(ctx, network, address, up)
}

// flushLoop hands over what was gathered, at the latest after the flush time.
func (s *syslogServer) flushLoop(ctx context.Context) {
	t := time.NewTicker(s.cfg.Flush.D())
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.mu.Lock()
			err := s.flush(ctx)
			s.mu.Unlock()
			if err != nil {
				return
			}
		case <-ctx.Done():
			s.mu.Lock()
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			if err := s.flush(last); err != nil {
				s.log.Warn("last messages lost", "err", err)
			}
			cancel()
			s.mu.Unlock()
			return
		}
	}
}

// flush hands over the events. Call it with the lock.
func (s *syslogServer) flush(ctx context.Context) error {
	events, count := s.feed.take()
	if count == 0 {
		return nil
	}
	s.at += uint64(count)
	return s.deps.Sink.Put(ctx, forward.Chunk{Events: events, Count: count, Origin: forward.Origin{Stream: s.stream, Position: s.at}})
}

// message takes one message.
func (s *syslogServer) message(ctx context.Context, msg []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line := messageText(msg); len(line) > 0 {
		s.feed.line(line)
	}
	if len(s.feed.events) >= chunkEvents {
		return s.flush(ctx)
	}
	return nil
}

// servePackets reads datagrams.
func (s *syslogServer) servePackets(ctx context.Context, network, address string, up func()) error {
	if network == "unixgram" {
		if info, err := os.Stat(address); err == nil && info.Mode()&os.ModeSocket != 0 {
			_ = os.Remove(address) // of a run before
		}
		defer os.Remove(address)
	}
	var lc net.ListenConfig
	conn, err := lc.ListenPacket(ctx, network, address)
	if err != nil {
		return fmt.Errorf("listen for syslog: %w", err)
	}
	defer conn.Close()
	if b, ok := conn.(interface{ SetReadBuffer(int) error }); ok {
		_ = b.SetReadBuffer(8 << 20) // the kernel gives what it allows
	}
	if network == "unixgram" {
		_ = os.Chmod(address, 0o666) // like /dev/log
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	s.addr.Store(conn.LocalAddr().String())
	up()
	buf := make([]byte, maxMessage)
	for {
		n, _, err := conn.ReadFrom(buf)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read syslog: %w", err)
		}
		if err := s.message(ctx, buf[:n]); err != nil {
			return err
		}
	}
}

// serveTCP takes connections, each with octet counting or line ends.
func (s *syslogServer) serveTCP(ctx context.Context, address string, up func()) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen for syslog: %w", err)
	}
	defer ln.Close()
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	s.addr.Store(ln.Addr().String())
	up()
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, maxConns)
	for {
		conn, err := ln.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept syslog: %w", err)
		}
		select {
		case slots <- struct{}{}:
		default:
			s.metrics.refused.WithLabelValues("connections").Inc()
			conn.Close()
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer stop()
			defer conn.Close()
			if err := s.conn(ctx, conn); err != nil && ctx.Err() == nil {
				s.metrics.refused.WithLabelValues("framing").Inc()
				s.log.Warn("syslog connection closed", "peer", conn.RemoteAddr().String(), "err", err)
			}
		})
	}
}

// conn reads the messages of one connection.
func (s *syslogServer) conn(ctx context.Context, r io.Reader) error {
	b := bufio.NewReaderSize(r, maxMessage)
	for {
		head, err := b.Peek(1)
		if err != nil {
			return ignoreEOF(err)
		}
		var msg []byte
		if head[0] >= '1' && head[0] <= '9' {
			msg, err = counted(b)
		} else if msg, err = b.ReadSlice('\n'); errors.Is(err, io.EOF) && len(msg) > 0 {
			err = nil
		}
		if err != nil {
			return ignoreEOF(err)
		}
		if err := s.message(ctx, msg); err != nil {
			return err
		}
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// counted reads "LENGTH MESSAGE" (RFC 6587).
func counted(b *bufio.Reader) ([]byte, error) {
	digits, err := b.ReadSlice(' ')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(digits)))
	if err != nil || n < 1 || n > maxMessage {
		return nil, fmt.Errorf("message length %q", digits[:min(len(digits), 20)])
	}
	msg := make([]byte, n)
	_, err = io.ReadFull(b, msg)
	return msg, err
}
