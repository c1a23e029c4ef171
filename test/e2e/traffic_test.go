package e2e

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// traffic sends requests of every kind that an edge meets, over a few connections that are kept alive.
type traffic struct {
	addrs []string // of nginx: one IPv4, one IPv6
	seed  uint64
}

// send makes n requests on 8 connections and returns when all are answered.
func (tr traffic) send(t *testing.T, n int) {
	t.Helper()
	const lanes = 8
	var wg sync.WaitGroup
	for first := range lanes {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewPCG(tr.seed, uint64(first)))
			l := &lane{addr: tr.addrs[first%len(tr.addrs)]}
			defer l.close()
			for i := first; i < n; i += lanes {
				if err := l.roundTrip(request(r, i)); err != nil {
					t.Errorf("request %d: %v", i, err)
					return
				}
			}
		}()
	}
	wg.Wait()
}

// wire is a request as bytes. Garbage gets an answer and a closed connection.
type wire struct {
	method string
	bytes  string
	closes bool
}

var (
	hosts   = []string{"alpha.test", "www.alpha.test", "beta.test", "SHOP.Example.co.uk", "cdn.example.org:8080", "xn--bcher-kva.example"}
	methods = []string{"GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}
	paths   = []string{"/", "/small", "/page.html", "/style.css", "/missing", "/teapot", "/broken", "/moved", "/big", "/api/items?id=7&q=a%20b"}
	agents  = []string{"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36", "curl/8.5.0", "", `quo"ted \ agent`, "\xff\xfe broken utf-8 \x80", "Googlebot/2.1 (+http://www.google.com/bot.html)"}
)

func request(r *rand.Rand, i int) wire {
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	method, path, host := pick(methods), pick(paths), pick(hosts)
	switch i % 100 {
	case 11:
		path = "/" + strings.Repeat("long-path/", 800) // 8 KB
	case 22:
		path = "/caf\xc3\xa9/\xff\xfe\x80?broken=\xc0\xaf"
	case 33:
		path = `/quo"tes'and\back?x="y"`
	case 44:
		return wire{method: "GET", bytes: "GET / HTTP/1.0\r\n\r\n", closes: true} // no Host at all
	case 55:
		return wire{method: "GET", bytes: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", closes: true} // TLS on a plain port
	case 66:
		return wire{method: "GET", bytes: "REALLYLONGUNREALMETHOD /x HTTP/1.1\r\nHost: alpha.test\r\n\r\n", closes: false}
	}
	body := ""
	if method == "POST" || method == "PUT" || method == "PATCH" {
		body = strings.Repeat("b", r.IntN(3000))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nReferer: \r\nX-Forwarded-For: 2001:db8::%x, 10.0.0.%d\r\n",
		method, path, host, pick(agents), r.IntN(0xffff), r.IntN(255))
	if body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return wire{method: method, bytes: b.String()}
}

// lane is one client connection, opened again whenever nginx closed it.
type lane struct {
	addr string
	conn net.Conn
	r    *bufio.Reader
}

func (l *lane) roundTrip(w wire) error {
	if l.conn == nil {
		c, err := net.DialTimeout("tcp", l.addr, 5*time.Second)
		if err != nil {
			return err
		}
		l.conn, l.r = c, bufio.NewReader(c)
	}
	_ = l.conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(l.conn, w.bytes); err != nil {
		return err
	}
	resp, err := http.ReadResponse(l.r, &http.Request{Method: w.method})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if w.closes || resp.Close || resp.StatusCode == http.StatusBadRequest {
		l.close()
	}
	return err
}

func (l *lane) close() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}
