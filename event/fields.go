package event

// Kind says how a field lies in a message and which Go type carries it.
type Kind uint8

// The kinds of fields. The first seven lie in the data section, KindIP and KindText behind a pointer.
const (
	KindTime    Kind = iota + 1 // signed 64 bit, ns since the Unix epoch: int64
	KindUint64                  // uint64
	KindUint32                  // uint32
	KindUint16                  // uint16
	KindFloat32                 // float32
	KindBool                    // one bit: bool
	KindIP                      // Data of 0, 4 or 16 bytes in network order: netip.Addr
	KindText                    // Text, that is bytes and a NUL: []byte without the NUL
)

// String returns the name of the kind's type in http.capnp.
func (k Kind) String() string {
	switch k {
	case KindTime:
		return "Int64"
	case KindUint64:
		return "UInt64"
	case KindUint32:
		return "UInt32"
	case KindUint16:
		return "UInt16"
	case KindFloat32:
		return "Float32"
	case KindBool:
		return "Bool"
	case KindIP:
		return "Data"
	case KindText:
		return "Text"
	}
	return "invalid"
}

// Pointer reports whether fields of this kind lie behind a pointer.
func (k Kind) Pointer() bool { return k == KindIP || k == KindText }

// Size returns how many bytes a field of this kind takes in its section: 8 for a pointer, 0 for a bool, which takes
// one bit of its byte.
func (k Kind) Size() int {
	switch k {
	case KindTime, KindUint64, KindIP, KindText:
		return 8
	case KindUint32, KindFloat32:
		return 4
	case KindUint16:
		return 2
	case KindBool:
	}
	return 0
}

// Field is one row of the table that everything which knows the fields of an event is made from or checked against.
type Field struct {
	Name    string // as in Go and in the store; http.capnp has the first letter in lower case
	Kind    Kind
	Ordinal int    // in http.capnp
	Offset  int    // bytes from the start of the data section; for pointer kinds the index in the pointer section
	Bit     int    // bit in the byte at Offset, for KindBool
	Unit    string // "ns", "us", "bytes", or empty
	Doc     string // meaning, as in http.capnp
}

// Sizes of the struct's sections, as this version of the schema lays them out.
const (
	HTTPDataSize = 104 // bytes of the data section
	HTTPPointers = 25  // pointers of 8 bytes each
)

// HTTPFields returns the table of the fields of an HTTP event in the order of their ordinals. The slice is the caller's.
func HTTPFields() []Field {
	return []Field{
		{"EdgeStartTimestamp", KindTime, 0, 0, 0, "ns", "ns since the Unix epoch: first byte of the request read"},
		{"EdgeEndTimestamp", KindTime, 1, 8, 0, "ns", "ns since the Unix epoch: last byte of the response sent"},
		{"ClientRequestBytes", KindUint64, 2, 16, 0, "bytes", "request line, headers and body"},
		{"EdgeResponseBytes", KindUint64, 3, 24, 0, "bytes", "headers and body, as sent"},
		{"EdgeResponseBodyBytes", KindUint64, 4, 32, 0, "bytes", "body alone, as sent"},
		{"OriginRequestBytes", KindUint64, 5, 40, 0, "bytes", "sent to the upstream, all tries"},
		{"OriginResponseBytes", KindUint64, 6, 48, 0, "bytes", "received from the upstream, all tries"},
		{"ConnectionID", KindUint64, 7, 56, 0, "", "serial of the client connection in its worker's lifetime"},
		{"ConnectionRequests", KindUint32, 8, 64, 0, "", "which request on that connection, from 1"},
		{"ClientTCPRTTUs", KindUint32, 9, 68, 0, "us", "smoothed round-trip time the kernel has for the client"},
		{"OriginConnectDurationUs", KindUint32, 10, 72, 0, "us", "upstream connect time, all tries"},
		{"OriginResponseHeaderReceiveDurationUs", KindUint32, 11, 76, 0, "us", "until the upstream's header was there, all tries"},
		{"OriginResponseDurationUs", KindUint32, 12, 80, 0, "us", "until the upstream's last byte, all tries"},
		{"EdgeResponseCompressionRatio", KindFloat32, 13, 84, 0, "", "original size / compressed size, 0 when not compressed"},
		{"ClientSrcPort", KindUint16, 14, 88, 0, "", ""},
		{"EdgeServerPort", KindUint16, 15, 90, 0, "", ""},
		{"EdgeResponseStatus", KindUint16, 16, 92, 0, "", ""},
		{"OriginResponseStatus", KindUint16, 17, 94, 0, "", "of the last try, 0 when no upstream was asked"},
		{"OriginTries", KindUint16, 18, 96, 0, "", "upstream servers asked"},
		{"ClientSSLSessionReused", KindBool, 19, 98, 0, "", ""},
		{"EdgeResponseCompleted", KindBool, 20, 98, 1, "", "the whole response went out"},
		{"ClientRequestPipelined", KindBool, 21, 98, 2, "", ""},

		{"ClientIP", KindIP, 22, 0, 0, "", "4 or 16 bytes in network order; empty when unknown (unix socket)"},
		{"EdgeServerIP", KindIP, 23, 1, 0, "", "as clientIP"},
		{"ClientRequestHost", KindText, 24, 2, 0, "", "lower case, no port"},
		{"ClientRequestMethod", KindText, 25, 3, 0, "", ""},
		{"ClientRequestScheme", KindText, 26, 4, 0, "", ""},
		{"ClientRequestPath", KindText, 27, 5, 0, "", "as the client sent it, without the query"},
		{"ClientRequestQuery", KindText, 28, 6, 0, "", "without the question mark"},
		{"ClientRequestProtocol", KindText, 29, 7, 0, "", "HTTP/1.1, HTTP/2.0, HTTP/3.0"},
		{"ClientRequestReferer", KindText, 30, 8, 0, "", ""},
		{"ClientRequestUserAgent", KindText, 31, 9, 0, "", ""},
		{"ClientRequestUser", KindText, 32, 10, 0, "", "of basic authentication"},
		{"ClientXForwardedFor", KindText, 33, 11, 0, "", ""},
		{"EdgeResponseContentType", KindText, 34, 12, 0, "", ""},
		{"ClientSSLProtocol", KindText, 35, 13, 0, "", "TLSv1.3; empty without TLS"},
		{"ClientSSLCipher", KindText, 36, 14, 0, "", ""},
		{"ClientSSLServerName", KindText, 37, 15, 0, "", "SNI"},
		{"ClientMTLSAuthStatus", KindText, 38, 16, 0, "", "SUCCESS, NONE, FAILED:reason"},
		{"OriginAddress", KindText, 39, 17, 0, "", "address and port, or unix path, of the last try"},
		{"CacheCacheStatus", KindText, 40, 18, 0, "", "hit, miss, bypass, expired, stale, updating, revalidated; empty"},
		{"RayID", KindText, 41, 19, 0, "", "request id"},
		{"EdgeServerName", KindText, 42, 20, 0, "", "server block that answered"},
		{"EdgeName", KindText, 43, 21, 0, "", ""},
		{"EdgeColoCode", KindText, 44, 22, 0, "", ""},
		{"EdgeLimitReqStatus", KindText, 45, 23, 0, "", "PASSED, DELAYED, REJECTED, ...; empty without limit_req"},
		{"Threat", KindText, 46, 24, 0, "", "set by the operator; empty when harmless"},
	}
}
