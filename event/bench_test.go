package event

import (
	"testing"

	"capnproto.org/go/capnp/v3"

	"github.com/spate-io/spate/event/httpcapnp"
)

// readTen reads the ten fields that a rollup needs.
func readTen(v View) int {
	return int(v.EdgeStartTimestamp()) + int(v.EdgeEndTimestamp()) + int(v.EdgeResponseBytes()) + int(v.ClientRequestBytes()) +
		int(v.EdgeResponseStatus()) + len(v.ClientRequestHost()) + len(v.ClientRequestMethod()) + len(v.ClientRequestPath()) +
		len(v.CacheCacheStatus()) + len(v.ClientSSLProtocol())
}

var sink int

func BenchmarkHTTP_Append(b *testing.B) {
	e, dst := typical(), make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		dst = e.Append(dst[:0])
	}
	b.SetBytes(int64(len(dst)))
}

func BenchmarkReadHTTP_Check(b *testing.B) {
	m := typical().Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		v, _, _ := ReadHTTP(m)
		sink += v.data
	}
}

func BenchmarkView_TenFields(b *testing.B) {
	v, _, _ := ReadHTTP(typical().Append(nil))
	b.ReportAllocs()
	for b.Loop() {
		sink += readTen(v)
	}
}

func BenchmarkView_Decode(b *testing.B) {
	v, _, _ := ReadHTTP(typical().Append(nil))
	var e HTTP
	b.ReportAllocs()
	for b.Loop() {
		v.Decode(&e)
	}
}

func BenchmarkLibrary_Write(b *testing.B) {
	e := typical()
	b.ReportAllocs()
	for b.Loop() {
		m, seg, _ := capnp.NewMessage(capnp.SingleSegment(nil))
		r, _ := httpcapnp.NewRootHttpRequest(seg)
		writeLibrary(r, e)
		out, _ := m.Marshal()
		sink += len(out)
	}
}

// writeLibrary sets what typical has with generated code.
func writeLibrary(r httpcapnp.HttpRequest, e *HTTP) {
	r.SetEdgeStartTimestamp(e.EdgeStartTimestamp)
	r.SetEdgeEndTimestamp(e.EdgeEndTimestamp)
	r.SetClientRequestBytes(e.ClientRequestBytes)
	r.SetEdgeResponseBytes(e.EdgeResponseBytes)
	r.SetEdgeResponseBodyBytes(e.EdgeResponseBodyBytes)
	r.SetConnectionID(e.ConnectionID)
	r.SetConnectionRequests(e.ConnectionRequests)
	r.SetClientTCPRTTUs(e.ClientTCPRTTUs)
	r.SetOriginResponseDurationUs(e.OriginResponseDurationUs)
	r.SetClientSrcPort(e.ClientSrcPort)
	r.SetEdgeServerPort(e.EdgeServerPort)
	r.SetEdgeResponseStatus(e.EdgeResponseStatus)
	r.SetOriginResponseStatus(e.OriginResponseStatus)
	r.SetEdgeResponseCompleted(e.EdgeResponseCompleted)
	ip := e.ClientIP.As4()
	_ = r.SetClientIP(ip[:])
	ip = e.EdgeServerIP.As4()
	_ = r.SetEdgeServerIP(ip[:])
	_ = r.SetClientRequestHost(string(e.ClientRequestHost))
	_ = r.SetClientRequestMethod(string(e.ClientRequestMethod))
	_ = r.SetClientRequestScheme(string(e.ClientRequestScheme))
	_ = r.SetClientRequestPath(string(e.ClientRequestPath))
	_ = r.SetClientRequestQuery(string(e.ClientRequestQuery))
	_ = r.SetClientRequestProtocol(string(e.ClientRequestProtocol))
	_ = r.SetClientRequestReferer(string(e.ClientRequestReferer))
	_ = r.SetClientRequestUserAgent(string(e.ClientRequestUserAgent))
	_ = r.SetEdgeResponseContentType(string(e.EdgeResponseContentType))
	_ = r.SetClientSSLProtocol(string(e.ClientSSLProtocol))
	_ = r.SetClientSSLCipher(string(e.ClientSSLCipher))
	_ = r.SetClientSSLServerName(string(e.ClientSSLServerName))
	_ = r.SetOriginAddress(string(e.OriginAddress))
	_ = r.SetCacheCacheStatus(string(e.CacheCacheStatus))
	_ = r.SetRayID(string(e.RayID))
	_ = r.SetEdgeServerName(string(e.EdgeServerName))
	_ = r.SetEdgeName(string(e.EdgeName))
	_ = r.SetEdgeColoCode(string(e.EdgeColoCode))
}

func BenchmarkLibrary_ReadTenFields(b *testing.B) {
	raw := typical().Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		m, _ := capnp.Unmarshal(raw)
		r, _ := httpcapnp.ReadRootHttpRequest(m)
		host, _ := r.ClientRequestHostBytes()
		method, _ := r.ClientRequestMethodBytes()
		path, _ := r.ClientRequestPathBytes()
		cache, _ := r.CacheCacheStatusBytes()
		ssl, _ := r.ClientSSLProtocolBytes()
		sink += int(r.EdgeStartTimestamp()) + int(r.EdgeEndTimestamp()) + int(r.EdgeResponseBytes()) + int(r.ClientRequestBytes()) +
			int(r.EdgeResponseStatus()) + len(host) + len(method) + len(path) + len(cache) + len(ssl)
	}
}
