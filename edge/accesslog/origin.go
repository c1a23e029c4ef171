package accesslog

import (
	"bytes"
	"crypto/tls"
)

// setOrigin does the fields about upstreams and caches. Where nginx asked several upstreams, it writes one value for each:
// ", " between servers, " : " between groups after an internal redirect. Times and bytes are added up, the status and the
// address are those of the last.
func (r *record) setOrigin(f field, v []byte, raw bool) string {
	e := r.e
	if isDash(v) {
		return ""
	}
	switch f {
	case fUpAddr:
		v = r.text(v, raw)
		tries := 0
		for {
			item, rest, more := nextOrigin(v)
			tries++
			e.OriginAddress = item
			if !more {
				break
			}
			v = rest
		}
		if e.OriginTries == 0 {
			e.OriginTries = uint16(min(tries, 65535))
		}
	case fUpStatus:
		for more := true; more; {
			var item []byte
			item, v, more = nextOrigin(v)
			if isDash(item) || string(item) == "-1" {
				e.OriginResponseStatus = 0
				continue
			}
			n, ok := parseUint(item)
			if !ok || n > 999 {
				return "not a status"
			}
			e.OriginResponseStatus = uint16(n)
		}
	case fUpConnectSec:
		return originSum32(v, 6, &e.OriginConnectDurationUs)
	case fUpHeaderSec:
		return originSum32(v, 6, &e.OriginResponseHeaderReceiveDurationUs)
	case fUpResponseSec:
		return originSum32(v, 6, &e.OriginResponseDurationUs)
	case fUpConnectMs:
		return originSum32(v, 3, &e.OriginConnectDurationUs)
	case fUpHeaderMs:
		return originSum32(v, 3, &e.OriginResponseHeaderReceiveDurationUs)
	case fUpResponseMs:
		return originSum32(v, 3, &e.OriginResponseDurationUs)
	case fUpResponseNs:
		n, ok := parseUint(v)
		if !ok {
			return "not a number"
		}
		e.OriginResponseDurationUs = clamp32(n / 1000)
	case fUpBytesIn:
		return originSum(v, 0, &e.OriginResponseBytes)
	case fUpBytesOut:
		return originSum(v, 0, &e.OriginRequestBytes)
	case fOriginURL:
		v = r.text(v, raw)
		if i := bytes.Index(v, schemeEnd); i >= 0 {
			v = v[i+3:]
		}
		e.OriginAddress, _, _ = bytes.Cut(v, []byte("/"))
	case fCache:
		e.CacheCacheStatus, r.scratch = lower(r.text(v, raw), r.scratch)
	case fCacheResult:
		switch string(v) {
		case "Hit", "OriginShieldHit":
			e.CacheCacheStatus = textHit
		case "RefreshHit":
			e.CacheCacheStatus = textRevalidated
		case "Miss":
			e.CacheCacheStatus = textMiss
		}
	case fCacheHit:
		if string(v) == "true" {
			r.have |= haveCacheHit
		}
	case fCacheSeen:
		if string(v) == "true" {
			r.have |= haveCacheSeen
		}
	case fSquidResult:
		return r.setSquidResult(v)
	}
	return ""
}

// nextOrigin cuts the first value from a list.
func nextOrigin(v []byte) (item, rest []byte, more bool) {
	for i, c := range v {
		if c == ',' {
			return bytes.TrimSpace(v[:i]), bytes.TrimLeft(v[i+1:], " "), true
		}
		if c == ' ' && i+2 < len(v) && v[i+1] == ':' && v[i+2] == ' ' {
			return v[:i], v[i+3:], true
		}
	}
	return bytes.TrimSpace(v), nil, false
}

func originSum(v []byte, scale int, to *uint64) string {
	var sum uint64
	for more := true; more; {
		var item []byte
		item, v, more = nextOrigin(v)
		if isDash(item) || item[0] == '-' {
			continue
		}
		n, ok := parseFixed(item, scale)
		if !ok || sum+n < sum {
			return "not a number, or list of numbers"
		}
		sum += n
	}
	*to = sum
	return ""
}

func originSum32(v []byte, scale int, to *uint32) string {
	var sum uint64
	reason := originSum(v, scale, &sum)
	*to = clamp32(sum)
	return reason
}

// setSquidResult takes "TCP_MISS_ABORTED/000": how the cache answered, and the status.
func (r *record) setSquidResult(v []byte) string {
	i := bytes.IndexByte(v, '/')
	if i < 0 {
		return "no '/' between result and status"
	}
	code := v[:i]
	switch {
	case bytes.Contains(code, []byte("REFRESH_UNMODIFIED")):
		r.e.CacheCacheStatus = textRevalidated
	case bytes.Contains(code, []byte("REFRESH")):
		r.e.CacheCacheStatus = textExpire
	case bytes.Contains(code, []byte("HIT")):
		r.e.CacheCacheStatus = textHit
	case bytes.Contains(code, []byte("MISS")):
		r.e.CacheCacheStatus = textMiss
	case bytes.Contains(code, []byte("TUNNEL")), bytes.Contains(code, []byte("CLIENT_REFRESH")):
		r.e.CacheCacheStatus = textBypass
	case !isMethod(code):
		return "not a result code"
	}
	return r.setStatus(v[i+1:])
}

// setTLS does the fields about the connection's encryption. "none", "NONE" and "-" are its absence.
func (r *record) setTLS(f field, v []byte, raw bool) string {
	e := r.e
	if isDash(v) || len(v) == 4 && (string(v) == "none" || string(v) == "NONE") {
		return ""
	}
	switch f {
	case fTLSProtocol:
		if v = tlsProtocol(r.text(v, raw)); !isTLSProtocol(v) {
			return "not a TLS version"
		}
		e.ClientSSLProtocol = v
	case fTLSVersionID:
		n, ok := parseUint(v)
		if !ok {
			return "not the number of a TLS version"
		}
		switch n {
		case tls.VersionTLS13:
			e.ClientSSLProtocol = textTLS13
		case tls.VersionTLS12:
			e.ClientSSLProtocol = textTLS12
		case tls.VersionTLS11:
			e.ClientSSLProtocol = textTLS11
		case tls.VersionTLS10:
			e.ClientSSLProtocol = textTLS10
		case 0x0300:
			e.ClientSSLProtocol = textSSL30
		}
	case fTLSCipher:
		e.ClientSSLCipher = r.text(v, raw)
	case fTLSCipherID:
		n, ok := parseUint(v)
		if !ok || n > 65535 {
			return "not the number of a cipher suite"
		}
		from := len(r.scratch)
		r.scratch = append(r.scratch, cipherName(uint16(n))...)
		e.ClientSSLCipher = r.scratch[from:len(r.scratch):len(r.scratch)]
	case fSNI:
		e.ClientSSLServerName = r.text(v, raw)
		if r.hostFrom == hostNone {
			return r.setHost(e.ClientSSLServerName, hostServer)
		}
	case fTLSReused:
		e.ClientSSLSessionReused = string(v) == "r" || string(v) == "true" || string(v) == "Resumed" || string(v) == "1"
	case fMTLS:
		e.ClientMTLSAuthStatus = r.text(v, raw)
	}
	return ""
}

// tlsProtocol gives OpenSSL's spelling for what Go, Envoy and others write.
func tlsProtocol(v []byte) []byte {
	switch string(v) {
	case "1.3", "TLS13", "TLS 1.3", "TLS1.3", "tls1.3", "TLSV1.3":
		return textTLS13
	case "1.2", "TLS12", "TLS 1.2", "TLS1.2", "tls1.2", "TLSV1.2":
		return textTLS12
	case "1.1", "TLS11", "TLS 1.1", "TLS1.1", "tls1.1":
		return textTLS11
	case "1.0", "TLS10", "TLS 1.0", "TLS1.0", "TLSv1.0", "tls1.0":
		return textTLS10
	}
	return v
}

// isTLSProtocol tells whether v may name a version; cipher suites and other neighbours do not pass.
func isTLSProtocol(v []byte) bool {
	for _, p := range [...]string{"TLS", "SSL", "DTLS", "QUIC", "unknown", "UNKNOWN"} {
		if len(v) <= 10 && len(v) >= len(p) && string(v[:len(p)]) == p {
			return bytes.IndexByte(v, '_') < 0
		}
	}
	return len(v) == 0
}

// cipherName names a cipher suite; those that Go's servers choose without the allocations of tls.CipherSuiteName.
func cipherName(id uint16) string {
	switch id {
	case tls.TLS_AES_128_GCM_SHA256:
		return "TLS_AES_128_GCM_SHA256"
	case tls.TLS_AES_256_GCM_SHA384:
		return "TLS_AES_256_GCM_SHA384"
	case tls.TLS_CHACHA20_POLY1305_SHA256:
		return "TLS_CHACHA20_POLY1305_SHA256"
	case tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:
		return "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
	case tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384:
		return "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
	case tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256:
		return "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
	case tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384:
		return "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
	case tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256:
		return "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"
	case tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256:
		return "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
	}
	return tls.CipherSuiteName(id)
}
