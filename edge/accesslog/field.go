package accesslog

// field says what a value in a line is. Each has one way to be read (record.set) and one place in the event.
type field uint8

const (
	fIgnore field = iota

	fTime        // common-log time, ISO time, or seconds, ms, us, ns since the epoch: told apart by their form; end of the request
	fTimeStart   // the same, start of the request
	fDate        // date alone
	fTimeOfDay   // time of day alone, end of the request
	fTimeSecFrac // milliseconds within the second (Apache %{msec_frac}t)
	fDurSec      // seconds with fraction, or with a unit (ms, us, s)
	fDurMs       // milliseconds
	fDurUs       // microseconds
	fDurNs       // nanoseconds

	fClient        // address, name, "unix:", or list of which the first counts
	fClientStrict  // address only
	fClientNotName // address, "unix:" or localhost, no other name
	fClientPort
	fClientAddrPort // address:port
	fXFF            // X-Forwarded-For
	fXFFChecked     // X-Forwarded-For that must look like a list of addresses
	fUser

	fRequest // request line
	fMethod
	fURI // path and query
	fURL // absolute URL, or path and query
	fPath
	fQuery // with or without '?'
	fProtocol
	fScheme
	fHTTPS // "on" or empty
	fHost  // port is cut off
	fVhost // host that must look like one: has a dot or a port, is no address
	fReferer
	fUserAgent
	fContentType

	fStatus
	fBody  // bytes of the response body
	fBytes // bytes of the response with headers
	fReqBytes
	fReqBodyBytes
	fGzipRatio
	fCompleted  // nginx $request_completion
	fConnStatus // Apache %X
	fPipelined  // nginx $pipe

	fServerAddr
	fServerPort
	fServerName
	fConnID
	fConnRequests
	fRTTUs
	fRTTMs
	fRequestID
	fColo
	fLimitReq
	fThreat

	fUpAddr // lists in nginx form: "a, b : c"
	fUpStatus
	fUpConnectSec
	fUpHeaderSec
	fUpResponseSec
	fUpConnectMs
	fUpHeaderMs
	fUpResponseMs
	fUpResponseNs
	fUpBytesIn
	fUpBytesOut
	fOriginURL   // http://host:port
	fCache       // hit, miss, ... in any case
	fCacheResult // CloudFront's Hit, RefreshHit, Miss, Error ...
	fCacheHit    // boolean
	fCacheSeen   // boolean: the cache was asked
	fSquidResult // TCP_MISS/200

	fTLSProtocol
	fTLSVersionID // number of the TLS version
	fTLSCipher
	fTLSCipherID // number of the cipher suite
	fSNI
	fTLSReused // "r", "true", "Resumed"
	fMTLS

	fieldCount
)

// fieldNames are what errors and documents call them.
var fieldNames = [fieldCount]string{
	fClientNotName: "ClientIP", fXFFChecked: "ClientXForwardedFor", fOriginURL: "OriginAddress",
	fIgnore: "ignored", fTime: "EdgeEndTimestamp", fTimeStart: "EdgeStartTimestamp", fDate: "date", fTimeOfDay: "time",
	fTimeSecFrac: "EdgeStartTimestamp", fDurSec: "duration", fDurMs: "duration", fDurUs: "duration", fDurNs: "duration",
	fClient: "ClientIP", fClientStrict: "ClientIP", fClientPort: "ClientSrcPort", fClientAddrPort: "ClientIP", fXFF: "ClientXForwardedFor",
	fUser: "ClientRequestUser", fRequest: "request", fMethod: "ClientRequestMethod", fURI: "ClientRequestPath",
	fURL: "ClientRequestPath", fPath: "ClientRequestPath", fQuery: "ClientRequestQuery", fProtocol: "ClientRequestProtocol",
	fScheme: "ClientRequestScheme", fHTTPS: "ClientRequestScheme", fHost: "ClientRequestHost", fVhost: "ClientRequestHost",
	fReferer: "ClientRequestReferer", fUserAgent: "ClientRequestUserAgent", fContentType: "EdgeResponseContentType",
	fStatus: "EdgeResponseStatus", fBody: "EdgeResponseBodyBytes", fBytes: "EdgeResponseBytes", fReqBytes: "ClientRequestBytes",
	fReqBodyBytes: "ClientRequestBytes", fGzipRatio: "EdgeResponseCompressionRatio", fCompleted: "EdgeResponseCompleted",
	fConnStatus: "EdgeResponseCompleted", fPipelined: "ClientRequestPipelined", fServerAddr: "EdgeServerIP",
	fServerPort: "EdgeServerPort", fServerName: "EdgeServerName", fConnID: "ConnectionID", fConnRequests: "ConnectionRequests",
	fRTTUs: "ClientTCPRTTUs", fRTTMs: "ClientTCPRTTUs", fRequestID: "RayID", fColo: "EdgeColoCode", fLimitReq: "EdgeLimitReqStatus", fThreat: "Threat",
	fUpAddr: "OriginAddress", fUpStatus: "OriginResponseStatus", fUpConnectSec: "OriginConnectDurationUs",
	fUpHeaderSec: "OriginResponseHeaderReceiveDurationUs", fUpResponseSec: "OriginResponseDurationUs",
	fUpConnectMs: "OriginConnectDurationUs", fUpHeaderMs: "OriginResponseHeaderReceiveDurationUs", fUpResponseMs: "OriginResponseDurationUs",
	fUpResponseNs: "OriginResponseDurationUs", fUpBytesIn: "OriginResponseBytes", fUpBytesOut: "OriginRequestBytes",
	fCache: "CacheCacheStatus", fCacheResult: "CacheCacheStatus", fCacheHit: "CacheCacheStatus", fCacheSeen: "CacheCacheStatus", fSquidResult: "CacheCacheStatus",
	fTLSProtocol: "ClientSSLProtocol", fTLSVersionID: "ClientSSLProtocol", fTLSCipher: "ClientSSLCipher",
	fTLSCipherID: "ClientSSLCipher", fSNI: "ClientSSLServerName", fTLSReused: "ClientSSLSessionReused", fMTLS: "ClientMTLSAuthStatus",
}

func (f field) String() string {
	if f < fieldCount {
		return fieldNames[f]
	}
	return "unknown"
}

// list tells whether nginx writes several values, one per upstream, with ", " and " : " between them.
func (f field) list() bool {
	return f >= fUpAddr && f <= fUpResponseSec || f == fUpBytesIn || f == fUpBytesOut || f == fXFF
}
