package nginx_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// site is the configuration of the server under test: all that the event has fields for.
func site(plain, v6, secure, dead int) string {
	return fmt.Sprintf(`
large_client_header_buffers 8 32k;
client_max_body_size 1m;
gzip on; gzip_min_length 100;
types { text/html html; }
limit_req_zone $binary_remote_addr zone=slow:1m rate=1r/m;
proxy_cache_path {{dir}}/cache keys_zone=c:1m;
map $arg_threat $spate_threat { default ""; sqli "sqli"; }
log_format t '%s';
access_log access.log t;
upstream two { server 127.0.0.1:%d max_fails=0; server 127.0.0.1:%d backup; }

server {
    listen 127.0.0.1:%[3]d; server_name origin.internal; access_log off;
    location / { add_header X-From origin; return 200 "from the origin\n"; }
    location = /fail { return 503; }
    location = /redirect { add_header X-Accel-Redirect /inner/x; return 200; }
    location = /cacheable { add_header Cache-Control "max-age=60"; return 200 "cache me\n"; }
}
server {
    listen 127.0.0.1:%[3]d default_server; listen [::1]:%[4]d default_server ipv6only=on;
    listen 127.0.0.1:%[5]d ssl http2 default_server;
    ssl_certificate {{dir}}/cert.pem; ssl_certificate_key {{dir}}/key.pem; ssl_verify_client optional_no_ca;
    server_name default.test;
    include {{dir}}/spate/conf/spate_log.conf;
    root html;
    location = /created { return 201 "made\n"; }
    location = /gone { return 410; }
    location = /moved { return 301 /index.html; }
    location = /error { return 500; }
    location = /drop { return 444; }
    location = /limited { limit_req zone=slow; try_files /index.html =404; }
    location = /ctx { access_by_lua_block { ngx.ctx.spate_threat = "scraper" } try_files /index.html =404; }
    location = /otherctx { access_by_lua_block { ngx.ctx.x = 1 } try_files /index.html =404; }
    location = /post { proxy_set_header Host origin.internal; proxy_pass http://127.0.0.1:%[3]d/; }
    location /up/ { proxy_set_header Host origin.internal; proxy_pass http://127.0.0.1:%[3]d/; }
    location = /two { proxy_set_header Host origin.internal; proxy_pass http://two/; }
    location = /down { proxy_pass http://127.0.0.1:%[6]d/; }
    location /inner/ { internal; proxy_set_header Host origin.internal; proxy_pass http://two/; }
    location = /cached { proxy_cache c; proxy_set_header Host origin.internal; proxy_pass http://127.0.0.1:%[3]d/cacheable; }
}
server {
    listen 127.0.0.1:%[3]d; server_name shop.test *.shop.test;
    include {{dir}}/spate/conf/spate_log.conf;
    root html;
}
`, logFormat(), dead, plain, v6, secure, dead)
}

// client sends raw requests and reads whatever comes back.
type client struct {
	t    *testing.T
	addr string
}

// raw sends bytes on a new connection, says that there are no more if end is set, and reads until nginx closes it.
func (c client) raw(b string, end bool) string {
	c.t.Helper()
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(b)); err != nil {
		c.t.Fatal(err)
	}
	if end {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	return readAll(conn)
}

// many sends requests one after the other on one connection (pipelined), ended by one that closes it.
func (c client) many(requests []string) {
	c.t.Helper()
	answers := c.raw(strings.Join(requests, "")+"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n", false)
	if got := strings.Count(answers, "HTTP/1.1 "); got < len(requests)+1 {
		c.t.Fatalf("%d answers to %d requests, the first %.200q", got, len(requests)+1, requests[0])
	}
}

// odd are requests that try the borders of every field.
func odd() []string {
	long := strings.Repeat("abcdefgh/", 900)
	requests := []string{
		"GET / HTTP/1.1\r\nHost: a.test\r\nUser-Agent: \xff\xfe broken \xc3\x28 utf8\r\nReferer: http://x/\"quoted\"\\back\r\n",
		"GET /%ff%fe/\xe4\xf6\xfc?q=\xff&a=\"b\" HTTP/1.1\r\nHost: a.test\r\n",
		"GET /" + long + "?" + long + " HTTP/1.1\r\nHost: a.test\r\n",
		"GET /" + strings.Repeat("p", 20000) + "?" + strings.Repeat("q", 9000) + " HTTP/1.1\r\nHost: a.test\r\n",
		"GET /x HTTP/1.1\r\nHost: a.test\r\nUser-Agent: " + strings.Repeat("U", 30000) + "\r\n",
		"GET /empty HTTP/1.1\r\nHost: a.test\r\nUser-Agent:\r\nReferer: \r\nX-Forwarded-For:\r\n",
		"GET /? HTTP/1.1\r\nHost: a.test\r\n",
		"GET /a?b?c=d#e HTTP/1.1\r\nHost: a.test\r\n",
		"GET http://abs.test/absolute?x=1 HTTP/1.1\r\nHost: other.test\r\n",
		"GET http://abs.test HTTP/1.1\r\nHost: other.test\r\n",
		"GET /case HTTP/1.1\r\nHost: MiXeD.Test:8080\r\n",
		"GET /v6 HTTP/1.1\r\nHost: [::1]:99\r\n",
		"GET /shop HTTP/1.1\r\nHost: www.shop.test\r\n",
		"GET /dot HTTP/1.1\r\nHost: shop.test.\r\n",
		"HEAD /page.html HTTP/1.1\r\nHost: a.test\r\n",
		"OPTIONS / HTTP/1.1\r\nHost: a.test\r\n",
		"DELETE /index.html HTTP/1.1\r\nHost: a.test\r\n",
		"PROPFIND / HTTP/1.1\r\nHost: a.test\r\n",
		"BREW_ME-NOW / HTTP/1.1\r\nHost: a.test\r\n",
		"GET /auth HTTP/1.1\r\nHost: a.test\r\nAuthorization: Basic dXNlcjpwYXNz\r\n",
		"GET /nul HTTP/1.1\r\nHost: a.test\r\nAuthorization: Basic dQBzZXI6cA==\r\n",
		"GET /xff HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 10.0.0.1\r\nX-Forwarded-For: 10.0.0.2, 10.0.0.3\r\n",
		"GET /page.html HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n",
		"GET /threat?threat=sqli HTTP/1.1\r\nHost: a.test\r\n",
		"GET /ctx HTTP/1.1\r\nHost: a.test\r\n",
		"GET /otherctx HTTP/1.1\r\nHost: a.test\r\n",
		"POST /post HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\n" + strings.Repeat("b", 1000),
		"POST /post HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	}
	for _, path := range []string{
		"/created", "/gone", "/moved", "/limited", "/limited", "/missing", "/up/x?y=z", "/two", "/up/redirect",
		"/up/fail", "/down", "/cached", "/cached",
	} {
		requests = append(requests, "GET "+path+" HTTP/1.1\r\nHost: b.test\r\n")
	}
	for i, r := range requests {
		if !strings.Contains(r, "\r\n\r\n") {
			requests[i] += "\r\n"
		}
	}
	return requests
}

// garbage are bytes that are no request, or one after which nginx closes; each for a connection of its own.
func garbage() []string {
	return []string{
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n",
		"get / http/1.1\r\n\r\n",
		"GET\r\n\r\n",
		"GET / HTTP/9.9\r\n\r\n",
		"GET / HTTP/1.1\r\n\r\n",
		"GET /no-host HTTP/1.0\r\n\r\n",
		"GET /nine\r\n",
		"GET /%zz HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /../.. HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"GET / HTTP/1.1\r\nNo colon\x00here\r\n\r\n",
		"GET /" + strings.Repeat("x", 40000) + " HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test\r\nX: " + strings.Repeat("h", 40000) + "\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: nine\r\n\r\n",
		"POST /post HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9999999\r\n\r\n",
		"GET /error HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /drop HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: cut.test\r\n",
		"\r\n\r\nGET /blank-first HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n",
	}
}

// ordinary makes n requests as browsers send them, with a fixed seed.
func ordinary(n int) []string {
	r := mathrand.New(mathrand.NewPCG(7, 7))
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	requests := make([]string, n)
	for i := range requests {
		method := pick("GET", "GET", "GET", "GET", "HEAD", "POST", "PUT")
		b := fmt.Sprintf("%s %s%s HTTP/1.1\r\nHost: %s\r\n", method,
			pick("/", "/index.html", "/page.html", "/missing", "/created", "/moved", "/up/", "/gone"),
			pick("", "", "?a=1", "?"+strings.Repeat("z", r.IntN(300))),
			pick("a.test", "www.shop.test", "SHOP.test:80", "127.0.0.1"))
		if r.IntN(3) > 0 {
			b += "User-Agent: " + pick("Mozilla/5.0 (X11; Linux x86_64)", "curl/8.1", "-", "\xe4 agent") + "\r\n"
		}
		if r.IntN(2) > 0 {
			b += "Referer: " + pick("https://example.org/?q=\"x\"", "-", "a") + "\r\n"
		}
		if r.IntN(3) == 0 {
			b += "Accept-Encoding: gzip\r\nX-Forwarded-For: 192.0.2.1\r\n"
		}
		if method == "POST" || method == "PUT" {
			body := strings.Repeat("x", r.IntN(100))
			b += fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
		} else {
			b += "\r\n"
		}
		requests[i] = b
	}
	return requests
}

// certificate writes a self-signed certificate for the server and gives one for a client.
func (s *server) certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "default.test"}, DNSNames: []string{"default.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	s.write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// secure sends requests over TLS: by HTTP/2 and HTTP/1.1, with and without a client certificate, with resumed sessions.
func secure(t *testing.T, addr string, cert tls.Certificate) int {
	t.Helper()
	n := 0
	for _, h2 := range []bool{true, false} {
		for _, certs := range [][]tls.Certificate{nil, {cert}} {
			cfg := &tls.Config{
				InsecureSkipVerify: true, // self-signed
				ServerName:         "default.test", Certificates: certs, ClientSessionCache: tls.NewLRUClientSessionCache(4),
			}
			if h2 {
				cfg.NextProtos = []string{"h2"}
			} else {
				cfg.MaxVersion = tls.VersionTLS12
			}
			for range 2 { // the second connection resumes the session
				tr := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: h2}
				for range 5 {
					resp, err := (&http.Client{Transport: tr}).Get("https://" + addr + "/index.html?tls=1")
					if err != nil {
						t.Fatal(err)
					}
					_ = resp.Body.Close()
					n++
				}
				tr.CloseIdleConnections()
			}
		}
	}
	return n
}
