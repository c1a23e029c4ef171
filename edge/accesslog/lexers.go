package accesslog

import (
	"fmt"
	"regexp"
	"strings"
)

// These look at format strings, once; no line ever meets them.
var (
	nginxValue = regexp.MustCompile(`\$\{?([a-z_][a-z0-9_]*)\}?`)
	envoyValue = regexp.MustCompile(`%([A-Z][A-Z0-9_]+)(?:\(([^)]*)\))?(?::(\d+))?%`)
)

// lexNginx cuts a log_format string.
func lexNginx(s string) []token {
	var toks []token
	at := 0
	for _, m := range nginxValue.FindAllStringSubmatchIndex(s, -1) {
		toks = append(toks, token{lit: s[at:m[0]]})
		name := s[m[2]:m[3]]
		t := token{field: nginxField(name), name: name}
		if name == "time_local" {
			t.spaces = 1
		}
		toks = append(toks, t)
		at = m[1]
	}
	return append(toks, token{lit: s[at:]})
}

// nginxField maps a variable to what it holds.
func nginxField(name string) field {
	if f, ok := nginxFields[name]; ok {
		return f
	}
	return fIgnore
}

// nginxFields are the variables of nginx and its modules that have a place in the event.
var nginxFields = map[string]field{
	"remote_addr": fClient, "realip_remote_addr": fIgnore, "remote_port": fClientPort, "remote_user": fUser,
	"http_x_forwarded_for": fXFF, "proxy_add_x_forwarded_for": fXFF, "the_real_ip": fClient, "http_cf_connecting_ip": fClient,
	"time_local": fTime, "time_iso8601": fTime, "msec": fTime,
	"request": fRequest, "request_method": fMethod, "request_uri": fURI, "uri": fPath, "document_uri": fPath,
	"args": fQuery, "query_string": fQuery, "server_protocol": fProtocol, "scheme": fScheme, "https": fHTTPS,
	"host": fHost, "http_host": fHost, "server_name": fServerName, "server_addr": fServerAddr, "server_port": fServerPort,
	"http_referer": fReferer, "http_user_agent": fUserAgent, "sent_http_content_type": fContentType,
	"status": fStatus, "body_bytes_sent": fBody, "bytes_sent": fBytes, "request_length": fReqBytes, "request_time": fDurSec,
	"gzip_ratio": fGzipRatio, "connection": fConnID, "connection_requests": fConnRequests, "pipe": fPipelined,
	"request_completion": fCompleted, "tcpinfo_rtt": fRTTUs, "request_id": fRequestID, "req_id": fRequestID,
	"limit_req_status": fLimitReq, "ssl_protocol": fTLSProtocol, "ssl_cipher": fTLSCipher, "ssl_server_name": fSNI,
	"ssl_session_reused": fTLSReused, "ssl_client_verify": fMTLS, "upstream_addr": fUpAddr, "upstream_status": fUpStatus,
	"upstream_connect_time": fUpConnectSec, "upstream_header_time": fUpHeaderSec, "upstream_response_time": fUpResponseSec,
	"upstream_bytes_received": fUpBytesIn, "upstream_response_length": fUpBytesIn, "upstream_bytes_sent": fUpBytesOut,
	"upstream_cache_status": fCache,
}

// lexApache cuts a LogFormat string.
func lexApache(s string) ([]token, error) {
	var toks []token
	lit := func(v string) { toks = append(toks, token{lit: v}) }
	for i := 0; i < len(s); {
		j := strings.IndexByte(s[i:], '%')
		if j < 0 {
			lit(s[i:])
			break
		}
		lit(s[i : i+j])
		i += j + 1
		if i < len(s) && s[i] == '%' {
			lit("%")
			i++
			continue
		}
		for i < len(s) && strings.IndexByte("!0123456789,<>", s[i]) >= 0 {
			i++
		}
		arg := ""
		if i < len(s) && s[i] == '{' {
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				return nil, fmt.Errorf("format %q: brace is not closed", s)
			}
			arg = s[i+1 : i+end]
			i += end + 1
		}
		if i == len(s) {
			return nil, fmt.Errorf("format %q: ends in the middle of a directive", s)
		}
		c := s[i : i+1]
		i++
		if c == "^" && i+1 < len(s) {
			c = s[i-1 : i+2]
			i += 2
		}
		toks = append(toks, apacheTokens(c, arg)...)
	}
	return toks, nil
}

// apacheTokens gives the tokens of %{arg}c.
func apacheTokens(c, arg string) []token {
	name := "%" + c
	if arg != "" {
		name = "%{" + arg + "}" + c
	}
	one := func(f field) []token { return []token{{field: f, name: name}} }
	switch c {
	case "t":
		return apacheTime(name, arg)
	case "T":
		if f, ok := map[string]field{"": fDurSec, "s": fDurSec, "ms": fDurMs, "us": fDurUs}[arg]; ok {
			return one(f)
		}
	case "p":
		if arg == "remote" {
			return one(fClientPort)
		}
		return one(fServerPort)
	case "i":
		if f, ok := requestHeaders[strings.ToLower(arg)]; ok {
			return one(f)
		}
	case "o":
		if strings.EqualFold(arg, "content-type") {
			return one(fContentType)
		}
	case "x", "e":
		if f, ok := map[string]field{"SSL_PROTOCOL": fTLSProtocol, "SSL_CIPHER": fTLSCipher, "SSL_TLS_SNI": fSNI, "HTTPS": fHTTPS,
			"SSL_SESSION_RESUMED": fTLSReused, "SSL_CLIENT_VERIFY": fMTLS, "UNIQUE_ID": fRequestID}[arg]; ok {
			return one(f)
		}
	default:
		if f, ok := apacheFields[c]; ok {
			return one(f)
		}
	}
	return one(fIgnore)
}

// apacheFields are the directives without argument.
var apacheFields = map[string]field{
	"h": fClient, "a": fClient, "u": fUser, "r": fRequest, "m": fMethod, "U": fPath, "q": fQuery, "H": fProtocol, "s": fStatus,
	"b": fBody, "B": fBody, "O": fBytes, "I": fReqBytes, "D": fDurUs, "v": fHost, "V": fHost, "A": fServerAddr, "X": fConnStatus,
	"L": fRequestID,
}

// requestHeaders are the request headers that have a place in the event; shared with Envoy.
var requestHeaders = map[string]field{
	"referer": fReferer, "referrer": fReferer, "user-agent": fUserAgent, "host": fHost, "x-forwarded-for": fXFF,
	"x-request-id": fRequestID, ":authority": fHost, ":method": fMethod, ":path": fURI, ":scheme": fScheme,
}

// apacheTime gives the tokens of %t, %{sec}t, %{begin:%Y-%m-%d %H:%M:%S}t and so on. Apache's time is when the request came in,
// unless the format says end.
func apacheTime(name, arg string) []token {
	f := fTimeStart
	if rest, ok := strings.CutPrefix(arg, "end:"); ok {
		f, arg = fTime, rest
	} else if rest, ok := strings.CutPrefix(arg, "begin:"); ok {
		arg = rest
	}
	t := token{field: f, name: name}
	switch arg {
	case "":
		return []token{{lit: "["}, t, {lit: "]"}}
	case "sec", "msec", "usec":
		return []token{t}
	case "msec_frac":
		t.field = fTimeSecFrac
		return []token{t}
	}
	before, body, after := bracketed(arg)
	switch body {
	case "%d/%b/%Y:%H:%M:%S %z", "%d/%b/%Y:%T %z":
		t.spaces = 1
	case "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %T", "%F %T":
		t.spaces = 1
	case "%Y-%m-%d %H:%M:%S %z", "%Y-%m-%d %T %z", "%F %T %z":
		t.spaces = 2
	case "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%T%z", "%FT%T%z", "%FT%TZ", "%Y-%m-%dT%H:%M:%SZ", "%FT%T", "%s":
	case "%Y-%m-%d", "%F", "%y-%m-%d", "%y/%m/%d", "%Y/%m/%d":
		t.field = fDate
	case "%H:%M:%S", "%T":
		t.field = fTimeOfDay
	default:
		t.field = fIgnore
		t.spaces = strings.Count(body, " ")
	}
	return []token{{lit: before}, t, {lit: after}}
}

func bracketed(s string) (before, body, after string) {
	if len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' {
		return "[", s[1 : len(s)-1], "]"
	}
	return "", s, ""
}

// lexEnvoy cuts an Envoy format string.
func lexEnvoy(s string) []token {
	var toks []token
	at := 0
	for _, m := range envoyValue.FindAllStringSubmatchIndex(s, -1) {
		toks = append(toks, token{lit: s[at:m[0]]})
		name, arg := s[m[2]:m[3]], ""
		if m[4] >= 0 {
			arg = s[m[4]:m[5]]
		}
		toks = append(toks, token{field: envoyField(name, arg), name: name})
		at = m[1]
	}
	return append(toks, token{lit: strings.TrimSuffix(strings.TrimSuffix(s[at:], "\n"), `\n`)})
}

// envoyField maps a command operator to what it holds.
func envoyField(name, arg string) field {
	switch name {
	case "REQ":
		for _, h := range strings.Split(arg, "?") { // "a?b" is a, or else b
			if f, ok := requestHeaders[strings.ToLower(h)]; ok {
				return f
			}
		}
		return fIgnore
	case "RESP":
		switch strings.ToLower(arg) {
		case "x-envoy-upstream-service-time":
			return fUpResponseMs
		case "content-type":
			return fContentType
		}
		return fIgnore
	case "START_TIME":
		if arg == "" || arg == "%s" || strings.HasPrefix(arg, "%Y-%m-%dT%H:%M:%S") {
			return fTimeStart
		}
		return fIgnore
	}
	if f, ok := envoyFields[name]; ok {
		return f
	}
	return fIgnore
}

var envoyFields = map[string]field{
	"PROTOCOL": fProtocol, "RESPONSE_CODE": fStatus, "BYTES_RECEIVED": fReqBytes, "BYTES_SENT": fBody, "DURATION": fDurMs,
	"UPSTREAM_HOST": fUpAddr, "DOWNSTREAM_REMOTE_ADDRESS": fClientAddrPort, "DOWNSTREAM_DIRECT_REMOTE_ADDRESS": fIgnore,
	"DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT": fClient, "DOWNSTREAM_REMOTE_PORT": fClientPort,
	"DOWNSTREAM_LOCAL_PORT": fServerPort, "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT": fServerAddr, "REQUESTED_SERVER_NAME": fSNI,
	"DOWNSTREAM_TLS_VERSION": fTLSProtocol, "DOWNSTREAM_TLS_CIPHER": fTLSCipher, "CONNECTION_ID": fConnID,
	"UPSTREAM_WIRE_BYTES_RECEIVED": fUpBytesIn, "UPSTREAM_WIRE_BYTES_SENT": fUpBytesOut,
	"DOWNSTREAM_WIRE_BYTES_SENT": fBytes, "REQUEST_ID": fRequestID, "UPSTREAM_REQUEST_ATTEMPT_COUNT": fIgnore,
}
