package schema

import (
	"slices"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/anonymize"
	"github.com/spate-io/spate/internal/enrich"
	"github.com/spate-io/spate/store"
)

// HTTPBlock builds one Native block for the raw table, column by column, and one for the flow table with what the rows
// add up to. It is reused: memory grows to the largest block. Not safe for concurrent use.
type HTTPBlock struct {
	rows    int
	cols    []blockColumn
	names   []string
	buf     proto.Buffer
	minutes minutes
	flow    proto.Buffer
	mask    *anonymize.Masker

	start, duration                                                       *word
	clientBytes, edgeBytes, edgeBody, originSent, originReceived, connID  *word
	connRequests, rtt, originConnect, originHeader, originDuration        *word
	ratio                                                                 *word
	srcPort, serverPort, status, originStatus, tries                      *word
	reused, completed, pipelined                                          *word
	clientIP, serverIP                                                    *word
	host, method, scheme, protocol, agent, contentType                    *dict
	sslProtocol, sslCipher, sslName, mtls, origin, cache                  *dict
	serverName, edgeName, colo, limit, threat                             *dict
	path, query, referer, user, forwarded, ray                            *text
	zoneID, zoneName, country, device, browser, os, bot, ipClass, content *dict
	asn, cached, page                                                     *word
}

// NewHTTPBlock gives an empty block. The masker must belong to it alone; nil stores addresses as they are.
func NewHTTPBlock(mask *anonymize.Masker) *HTTPBlock {
	b := &HTTPBlock{mask: mask}
	b.bind()
	return b
}

// bind makes the columns and gives each its place. The test of the field table checks that none is missing.
func (b *HTTPBlock) bind() {
	types := map[string]string{}
	for _, c := range HTTPColumns() {
		types[c.Name] = c.Type
	}
	w := func(name string) *word {
		c := &word{header: header{name, types[name]}}
		b.add(name, c)
		return c
	}
	t := func(name string) *text {
		c := &text{header: header{name, types[name]}}
		b.add(name, c)
		return c
	}
	d := func(name string) *dict {
		c := newDict(name)
		b.add(name, &c)
		return &c
	}
	b.zoneID = d("ZoneID")
	b.start, b.duration = w("EdgeStartTimestamp"), w("EdgeDurationUs")
	b.clientBytes, b.edgeBytes, b.edgeBody = w("ClientRequestBytes"), w("EdgeResponseBytes"), w("EdgeResponseBodyBytes")
	b.originSent, b.originReceived = w("OriginRequestBytes"), w("OriginResponseBytes")
	b.connID, b.connRequests, b.rtt = w("ConnectionID"), w("ConnectionRequests"), w("ClientTCPRTTUs")
	b.originConnect, b.originHeader, b.originDuration = w("OriginConnectDurationUs"), w("OriginResponseHeaderReceiveDurationUs"), w("OriginResponseDurationUs")
	b.ratio = w("EdgeResponseCompressionRatio")
	b.srcPort, b.serverPort = w("ClientSrcPort"), w("EdgeServerPort")
	b.status, b.originStatus, b.tries = w("EdgeResponseStatus"), w("OriginResponseStatus"), w("OriginTries")
	b.reused, b.completed, b.pipelined = w("ClientSSLSessionReused"), w("EdgeResponseCompleted"), w("ClientRequestPipelined")
	b.clientIP, b.serverIP = w("ClientIP"), w("EdgeServerIP")
	b.host, b.method, b.scheme = d("ClientRequestHost"), d("ClientRequestMethod"), d("ClientRequestScheme")
	b.path, b.query, b.protocol = t("ClientRequestPath"), t("ClientRequestQuery"), d("ClientRequestProtocol")
	b.referer, b.agent, b.user = t("ClientRequestReferer"), d("ClientRequestUserAgent"), t("ClientRequestUser")
	b.forwarded, b.contentType = t("ClientXForwardedFor"), d("EdgeResponseContentType")
	b.sslProtocol, b.sslCipher, b.sslName, b.mtls = d("ClientSSLProtocol"), d("ClientSSLCipher"), d("ClientSSLServerName"), d("ClientMTLSAuthStatus")
	b.origin, b.cache, b.ray = d("OriginAddress"), d("CacheCacheStatus"), t("RayID")
	b.serverName, b.edgeName, b.colo, b.limit, b.threat = d("EdgeServerName"), d("EdgeName"), d("EdgeColoCode"), d("EdgeLimitReqStatus"), d("Threat")
	b.zoneName, b.country, b.asn, b.device = d("ZoneName"), d("ClientCountry"), w("ClientASN"), d("ClientDeviceType")
	b.browser, b.os, b.bot, b.ipClass = d("UserAgentBrowser"), d("UserAgentOS"), d("BotClass"), d("ClientIPClass")
	b.content, b.cached, b.page = d("EdgeResponseContentClass"), w("Cached"), w("PageView")
}

func (b *HTTPBlock) add(name string, c blockColumn) {
	b.names = append(b.names, name)
	b.cols = append(b.cols, c)
}

// Append adds one event with its enrichment. Nothing of v or e is kept.
func (b *HTTPBlock) Append(v event.View, e *enrich.Result) {
	b.rows++
	client := b.mask.Address(v.ClientIP())
	b.clientIP.ip(client)
	b.appendNumbers(v)
	b.appendTexts(v)
	b.zoneID.string(e.ZoneID)
	b.zoneName.string(e.ZoneName)
	b.country.string(e.ClientCountry)
	b.asn.u32(e.ClientASN)
	b.device.string(e.ClientDeviceType)
	b.browser.string(e.UserAgentBrowser)
	b.os.string(e.UserAgentOS)
	b.bot.string(e.BotClass)
	b.ipClass.string(e.ClientIPClass)
	b.content.string(e.EdgeResponseContentClass)
	b.cached.bool(e.Cached)
	b.page.bool(e.PageView)
	b.minutes.add(b, v, e, client)
}

func (b *HTTPBlock) appendNumbers(v event.View) {
	start, end := v.EdgeStartTimestamp(), v.EdgeEndTimestamp()
	b.start.i64(microseconds(start))
	b.duration.i64(durationUs(start, end))
	b.clientBytes.u64(v.ClientRequestBytes())
	b.edgeBytes.u64(v.EdgeResponseBytes())
	b.edgeBody.u64(v.EdgeResponseBodyBytes())
	b.originSent.u64(v.OriginRequestBytes())
	b.originReceived.u64(v.OriginResponseBytes())
	b.connID.u64(v.ConnectionID())
	b.connRequests.u32(v.ConnectionRequests())
	b.rtt.u32(v.ClientTCPRTTUs())
	b.originConnect.u32(v.OriginConnectDurationUs())
	b.originHeader.u32(v.OriginResponseHeaderReceiveDurationUs())
	b.originDuration.u32(v.OriginResponseDurationUs())
	b.ratio.f32(v.EdgeResponseCompressionRatio())
	b.srcPort.u16(v.ClientSrcPort())
	b.serverPort.u16(v.EdgeServerPort())
	b.status.u16(v.EdgeResponseStatus())
	b.originStatus.u16(v.OriginResponseStatus())
	b.tries.u16(v.OriginTries())
	b.reused.bool(v.ClientSSLSessionReused())
	b.completed.bool(v.EdgeResponseCompleted())
	b.pipelined.bool(v.ClientRequestPipelined())
	b.serverIP.ip(v.EdgeServerIP())
}

func (b *HTTPBlock) appendTexts(v event.View) {
	b.host.bytes(v.ClientRequestHost())
	b.method.bytes(v.ClientRequestMethod())
	b.scheme.bytes(v.ClientRequestScheme())
	b.path.bytes(v.ClientRequestPath())
	b.query.bytes(v.ClientRequestQuery())
	b.protocol.bytes(v.ClientRequestProtocol())
	b.referer.bytes(v.ClientRequestReferer())
	b.agent.bytes(v.ClientRequestUserAgent())
	b.user.bytes(v.ClientRequestUser())
	b.forwarded.bytes(b.mask.Text(v.ClientXForwardedFor()))
	b.contentType.bytes(v.EdgeResponseContentType())
	b.sslProtocol.bytes(v.ClientSSLProtocol())
	b.sslCipher.bytes(v.ClientSSLCipher())
	b.sslName.bytes(v.ClientSSLServerName())
	b.mtls.bytes(v.ClientMTLSAuthStatus())
	b.origin.bytes(v.OriginAddress())
	b.cache.bytes(v.CacheCacheStatus())
	b.ray.bytes(v.RayID())
	b.serverName.bytes(v.EdgeServerName())
	b.edgeName.bytes(v.EdgeName())
	b.colo.bytes(v.EdgeColoCode())
	b.limit.bytes(v.EdgeLimitReqStatus())
	b.threat.bytes(v.Threat())
}

// lastTime is near the end of what the rollups' 32-bit times hold: 2106-01-01, in microseconds.
const lastTime = 4_291_747_200_000_000

// microseconds rounds down, and moves times that no table can hold to the nearest that it can.
func microseconds(ns int64) int64 {
	return min(max(ns/1000, 0), lastTime)
}

// durationUs is the time from start to end in microseconds, -1 when the source knew no end. A clock that went back gives 0.
func durationUs(start, end int64) int64 {
	if end == 0 {
		return -1
	}
	return max(end/1000-start/1000, 0)
}

// Rows gives the number of events in the block.
func (b *HTTPBlock) Rows() int { return b.rows }

// Columns gives the names of the block's columns in its order. The slice is the caller's.
func (b *HTTPBlock) Columns() []string { return slices.Clone(b.names) }

// Inserts gives what has to be inserted, in this order, so that the rows are in the raw table and in all rollups. Each
// insert's token is derived from the given one; an empty token gives none. They are valid until the next call of Inserts,
// Append or Reset.
//
// Both must be brought to an end: the rollups know nothing of rows that only the raw table got. Repeating both, in a new
// process too, is right as long as token and rows are the same.
func (b *HTTPBlock) Inserts(token string) []store.Insert {
	b.flow.Reset()
	b.minutes.encode(&b.flow, b)
	columns := flowColumns()
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	flow := store.Insert{Table: HTTPFlow, Columns: names, Block: b.flow.Buf}
	if !b.minutes.long() {
		flow.Settings = map[string]string{"optimize_on_insert": "0"}
	}
	if token != "" {
		flow.Token = token + "/flow"
	}
	return []store.Insert{{Table: HTTPRequests, Columns: b.names, Block: b.Bytes(), Token: token}, flow}
}

// Bytes gives the block for the raw table in Native form. The slice is valid until the next call of Bytes or Reset.
func (b *HTTPBlock) Bytes() []byte {
	b.buf.Reset()
	b.buf.PutInt(len(b.cols))
	b.buf.PutInt(b.rows)
	for _, c := range b.cols {
		c.encode(&b.buf)
	}
	return b.buf.Buf
}

// Reset empties the block and keeps its memory.
func (b *HTTPBlock) Reset() {
	b.rows = 0
	for _, c := range b.cols {
		c.reset()
	}
	b.minutes.reset()
}
