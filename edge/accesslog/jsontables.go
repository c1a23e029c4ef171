package accesslog

// jsonFormats are the JSON logs that are known without being described. Where programs let operators choose the keys, these
// are their defaults and the usual names.
func jsonFormats() []Format {
	type entry struct {
		name, doc string
		table     jsonTable
		rank      int
	}
	var out []Format
	for _, e := range []entry{
		{"cloudflare", "Cloudflare Logpush http_requests, NDJSON; also Logpull", jsonTable{cloudflareKeys, []string{"EdgeStartTimestamp", "EdgeResponseStatus"}}, 60},
		{"gcp-lb", "Google Cloud external Application Load Balancer, JSON", jsonTable{gcpKeys, []string{"httpRequest", "timestamp"}}, 60},
		{"traefik-json", "Traefik, JSON", jsonTable{traefikKeys, []string{"DownstreamStatus", "RequestMethod"}}, 60},
		{"caddy", "Caddy, JSON", jsonTable{caddyKeys, []string{"request", "ts", "status"}}, 60},
		{"envoy-json", "Envoy, Istio and Envoy Gateway, JSON", jsonTable{envoyKeys, []string{"start_time", "response_code"}}, 60},
		{"nginx-json", "nginx log_format escape=json with keys named like variables, or the usual short names", jsonTable{nginxKeys(), nil}, 50},
	} {
		t := e.table
		out = append(out, Format{Name: e.name, Doc: e.doc, rank: e.rank, make: t.parser})
	}
	return out
}

// nginxKeys are the variables' own names, and names that people give them.
func nginxKeys() map[string]field {
	keys := map[string]field{
		"ip": fClient, "client_ip": fClient, "clientip": fClient, "remote_ip": fClient, "client": fClient, "remote": fClient,
		"xff": fXFF, "x_forwarded_for": fXFF, "http_x_forwarded_for": fXFF, "user": fUser,
		"time": fTime, "@timestamp": fTime, "timestamp": fTime, "ts": fTime, "date": fTime, "time_iso8601": fTime,
		"method": fMethod, "verb": fMethod, "uri": fURI, "url": fURL, "path": fURI, "protocol": fProtocol, "proto": fProtocol,
		"query": fQuery, "vhost": fHost, "domain": fHost, "referer": fReferer, "referrer": fReferer, "http_referrer": fReferer,
		"user_agent": fUserAgent, "agent": fUserAgent, "ua": fUserAgent, "useragent": fUserAgent, "http_user_agent": fUserAgent,
		"code": fStatus, "response_code": fStatus, "status_code": fStatus, "response_status": fStatus,
		"bytes": fBody, "size": fBody, "length": fBody, "body_bytes": fBody, "responsetime": fDurSec, "response_time": fDurSec,
		"duration": fDurSec, "generation_time_milli": fDurMs, "upstream_time": fUpResponseSec, "upstreamtime": fUpResponseSec,
		"upstream": fUpAddr, "upstreamhost": fUpAddr, "cache_status": fCache, "content_type": fContentType,
	}
	for name, f := range nginxFields {
		keys[name] = f
	}
	return keys
}

var caddyKeys = map[string]field{
	"ts": fTime, "request>client_ip": fClientStrict, "request>remote_ip": fClientStrict, "request>remote_addr": fClientAddrPort,
	"request>remote_port": fClientPort, "request>proto": fProtocol, "request>method": fMethod, "request>host": fHost,
	"request>uri": fURI, "request>headers>User-Agent": fUserAgent, "request>headers>Referer": fReferer,
	"request>headers>X-Forwarded-For": fXFF, "request>headers>X-Request-Id": fRequestID, "request>tls>resumed": fTLSReused,
	"request>tls>version": fTLSVersionID, "request>tls>cipher_suite": fTLSCipherID, "request>tls>server_name": fSNI,
	"bytes_read": fReqBytes, "user_id": fUser, "duration": fDurSec, "size": fBody, "status": fStatus,
	"resp_headers>Content-Type": fContentType,
}

var traefikKeys = map[string]field{
	"StartUTC": fTimeStart, "StartLocal": fTimeStart, "Duration": fDurNs, "ClientHost": fClient, "ClientPort": fClientPort,
	"ClientUsername": fUser, "RequestHost": fHost, "RequestMethod": fMethod, "RequestPath": fURI, "RequestProtocol": fProtocol,
	"RequestScheme": fScheme, "RequestContentSize": fReqBodyBytes, "request_User-Agent": fUserAgent, "request_Referer": fReferer,
	"request_X-Forwarded-For": fXFF, "request_X-Request-Id": fRequestID, "downstream_Content-Type": fContentType,
	"DownstreamStatus": fStatus, "DownstreamContentSize": fBody, "OriginStatus": fUpStatus, "OriginDuration": fUpResponseNs,
	"OriginContentSize": fUpBytesIn, "ServiceAddr": fUpAddr, "GzipRatio": fGzipRatio, "TLSVersion": fTLSProtocol,
	"TLSCipher": fTLSCipher,
}

var envoyKeys = map[string]field{
	"start_time": fTimeStart, "method": fMethod, "path": fURI, "x-envoy-origin-path": fURI, "protocol": fProtocol,
	"response_code": fStatus, "bytes_received": fReqBytes, "bytes_sent": fBody, "duration": fDurMs,
	"upstream_service_time": fUpResponseMs, "x-envoy-upstream-service-time": fUpResponseMs, "x_forwarded_for": fXFF,
	"x-forwarded-for": fXFF, "user_agent": fUserAgent, "user-agent": fUserAgent, "request_id": fRequestID,
	"x-request-id": fRequestID, "authority": fHost, ":authority": fHost, "upstream_host": fUpAddr, "requested_server_name": fSNI,
	"downstream_remote_address": fClientAddrPort, "referer": fReferer, "content_type": fContentType,
}

var gcpKeys = map[string]field{
	"timestamp": fTimeStart, "httpRequest>requestMethod": fMethod, "httpRequest>requestUrl": fURL,
	"httpRequest>requestSize": fReqBytes, "httpRequest>status": fStatus, "httpRequest>responseSize": fBytes,
	"httpRequest>userAgent": fUserAgent, "httpRequest>remoteIp": fClientStrict, "httpRequest>serverIp": fUpAddr,
	"httpRequest>referer": fReferer, "httpRequest>latency": fDurSec, "httpRequest>protocol": fProtocol,
	"httpRequest>cacheLookup": fCacheSeen, "httpRequest>cacheHit": fCacheHit, "insertId": fRequestID,
}

var cloudflareKeys = map[string]field{
	"EdgeStartTimestamp": fTimeStart, "EdgeEndTimestamp": fTime, "ClientIP": fClientStrict, "ClientSrcPort": fClientPort,
	"ClientRequestHost": fHost, "ClientRequestMethod": fMethod, "ClientRequestURI": fURI, "ClientRequestPath": fPath,
	"ClientRequestProtocol": fProtocol, "ClientRequestScheme": fScheme, "ClientRequestReferer": fReferer,
	"ClientRequestUserAgent": fUserAgent, "ClientRequestBytes": fReqBytes, "ClientSSLProtocol": fTLSProtocol,
	"ClientSSLCipher": fTLSCipher, "ClientTCPRTTMs": fRTTMs, "ClientMTLSAuthStatus": fMTLS, "CacheCacheStatus": fCache,
	"EdgeColoCode": fColo, "EdgeResponseBytes": fBytes, "EdgeResponseBodyBytes": fBody, "EdgeResponseStatus": fStatus,
	"EdgeResponseContentType": fContentType, "EdgeResponseCompressionRatio": fGzipRatio, "EdgeServerIP": fServerAddr,
	"OriginIP": fUpAddr, "OriginResponseStatus": fUpStatus, "OriginResponseDurationMs": fUpResponseMs,
	"OriginResponseTime": fUpResponseNs, "OriginResponseBytes": fUpBytesIn, "OriginTCPHandshakeDurationMs": fUpConnectMs,
	"OriginResponseHeaderReceiveDurationMs": fUpHeaderMs, "RayID": fRequestID,
}
