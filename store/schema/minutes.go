package schema

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/histogram"
	"github.com/spate-io/spate/internal/enrich"
)

// OtherKey is the key under which a map of a rollup counts what it has no room for. See maxKeys.
const OtherKey = "(other)"

// maxKeys is how many keys a map may have for one zone, colo and minute of one block. Where there are more, those that
// were seen only once, and then the rarest, are counted as [OtherKey]: a client that makes up host names or methods
// fills neither the rollups nor the dashboard.
const maxKeys = 300

// minutes adds up the rows of a block by zone, colo and minute, which is what the flow table takes. It does for a tenth
// of the time what a materialized view on the raw table does; a test compares it with SQL over the same rows.
// docs/adr/0005 has the measurement.
type minutes struct {
	known map[minute]uint32
	list  []minute
	last  uint32
	sums  [][sumColumns]uint64
	maps  [mapColumns]tally
	ips   visitors

	starts, order []uint32 // scratch of encode
	counts        []count
}

// minute is what a row of the flow table is about. Zone and colo are numbers of the block's dictionaries, time is in
// minutes since 1970.
type minute struct{ zone, colo, time uint32 }

// Places of the sums and maps, in the order of RollupColumns.
const (
	sumRequests = iota
	sumCached
	sumEncrypted
	sumViews
	sumThreats
	sum4xx
	sum5xx
	sumRequestBytes
	sumResponseBytes
	sumCachedBytes
	sumEncryptedBytes
	sumTimed
	sumDuration
	sumOrigin
	sumOriginDuration
	maxDuration
	sumColumns
)

const (
	mapStatus = iota
	mapCountry
	mapContent
	mapCache
	mapSSL
	mapMethod
	mapProtocol
	mapBrowser
	mapOS
	mapDevice
	mapBot
	mapIPClass
	mapHost
	mapThreat
	mapThreatCountry
	mapViewEngine
	mapCountryBytes
	mapContentBytes
	mapDurationBins
	mapOriginBins
	mapResponseBins
	mapColumns
)

// group gives the number of the minute that a row belongs to.
func (m *minutes) group(key minute) uint32 {
	if int(m.last) < len(m.list) && m.list[m.last] == key {
		return m.last
	}
	g, ok := m.known[key]
	if !ok {
		if m.known == nil {
			m.known = map[minute]uint32{}
		}
		g = uint32(len(m.list))
		m.known[key] = g
		m.list = append(m.list, key)
		m.sums = append(m.sums, [sumColumns]uint64{})
	}
	m.last = g
	return g
}

const microsecondsOfMinute = 60_000_000

// add counts the row that was appended to the block's columns last.
func (m *minutes) add(b *HTTPBlock, v event.View, e *enrich.Result, client netip.Addr) {
	start := microseconds(v.EdgeStartTimestamp())
	g := m.group(minute{b.zoneID.index, b.colo.index, uint32(start / microsecondsOfMinute)})
	s := &m.sums[g]
	bytes, status := v.EdgeResponseBytes(), v.EdgeResponseStatus()
	s[sumRequests]++
	s[sumRequestBytes] += v.ClientRequestBytes()
	s[sumResponseBytes] += bytes
	if e.Cached {
		s[sumCached]++
		s[sumCachedBytes] += bytes
	}
	if len(v.ClientSSLProtocol()) > 0 {
		s[sumEncrypted]++
		s[sumEncryptedBytes] += bytes
	}
	switch {
	case status >= 500:
		s[sum5xx]++
	case status >= 400:
		s[sum4xx]++
	}
	m.addTimes(g, s, v)
	m.maps[mapStatus].add(g, uint32(status), 1)
	m.maps[mapResponseBins].add(g, uint32(uint16(histogram.BinOf(clampInt64(bytes)))), 1)
	m.addKeys(g, b, bytes)
	if len(v.Threat()) > 0 {
		s[sumThreats]++
		m.maps[mapThreat].add(g, b.threat.index, 1)
		m.maps[mapThreatCountry].add(g, b.country.index, 1)
	}
	if e.PageView {
		s[sumViews]++
		if e.BotClass == "search_engine" {
			m.maps[mapViewEngine].add(g, b.browser.index, 1)
		}
	}
	m.ips.add(g, address(client))
}

func (m *minutes) addTimes(g uint32, s *[sumColumns]uint64, v event.View) {
	if d := durationUs(v.EdgeStartTimestamp(), v.EdgeEndTimestamp()); d >= 0 {
		s[sumTimed]++
		s[sumDuration] += uint64(d)
		s[maxDuration] = max(s[maxDuration], uint64(d))
		m.maps[mapDurationBins].add(g, uint32(uint16(histogram.BinOf(d))), 1)
	}
	if v.OriginTries() > 0 {
		d := v.OriginResponseDurationUs()
		s[sumOrigin]++
		s[sumOriginDuration] += uint64(d)
		m.maps[mapOriginBins].add(g, uint32(uint16(histogram.BinOf(int64(d)))), 1)
	}
}

// addKeys counts the values that the row has in the block's dictionaries.
func (m *minutes) addKeys(g uint32, b *HTTPBlock, bytes uint64) {
	m.maps[mapCountry].add(g, b.country.index, 1)
	m.maps[mapContent].add(g, b.content.index, 1)
	m.maps[mapCache].add(g, b.cache.index, 1)
	m.maps[mapSSL].add(g, b.sslProtocol.index, 1)
	m.maps[mapMethod].add(g, b.method.index, 1)
	m.maps[mapProtocol].add(g, b.protocol.index, 1)
	m.maps[mapBrowser].add(g, b.browser.index, 1)
	m.maps[mapOS].add(g, b.os.index, 1)
	m.maps[mapDevice].add(g, b.device.index, 1)
	m.maps[mapBot].add(g, b.bot.index, 1)
	m.maps[mapIPClass].add(g, b.ipClass.index, 1)
	m.maps[mapHost].add(g, b.host.index, 1)
	m.maps[mapCountryBytes].add(g, b.country.index, bytes)
	m.maps[mapContentBytes].add(g, b.content.index, bytes)
}

// words gives the dictionary of a map whose keys are text, nil for one whose keys are numbers.
func (b *HTTPBlock) words(place int) *dict {
	switch place {
	case mapCountry, mapThreatCountry, mapCountryBytes:
		return b.country
	case mapContent, mapContentBytes:
		return b.content
	case mapCache:
		return b.cache
	case mapSSL:
		return b.sslProtocol
	case mapMethod:
		return b.method
	case mapProtocol:
		return b.protocol
	case mapBrowser, mapViewEngine:
		return b.browser
	case mapOS:
		return b.os
	case mapDevice:
		return b.device
	case mapBot:
		return b.bot
	case mapIPClass:
		return b.ipClass
	case mapHost:
		return b.host
	case mapThreat:
		return b.threat
	}
	return nil
}

// keyText gives the key of a map as text. Without TLS there is no protocol, which has a name in the rollups.
func keyText(place int, d *dict, key uint32) string {
	switch {
	case key == otherKey:
		return OtherKey
	case place == mapSSL && d.list[key] == "":
		return "none"
	}
	return d.list[key]
}

// long says whether the rows are several minutes of each zone, as in an imported log, so that there is something to combine
// for hours and longer when they are inserted. In live traffic there is not: that every table of the cascade combines what
// is combined already, row by row, would then be most of what the insert costs where many zones are in a block.
func (m *minutes) long() bool {
	const several = 4
	places := map[uint64]struct{}{}
	for _, k := range m.list {
		places[uint64(k.zone)<<32|uint64(k.colo)] = struct{}{}
	}
	return len(m.list) > several*len(places)
}

func clampInt64(v uint64) int64 { return int64(min(v, 1<<63-1)) }

func (m *minutes) reset() {
	clear(m.known)
	m.list, m.sums, m.last = m.list[:0], m.sums[:0], 0
	for i := range m.maps {
		m.maps[i].reset()
	}
	m.ips.reset()
}

// flowClients is the column of the flow table with the addresses of each row.
const flowClients = "clients"

// flowColumns gives names and types of the flow table's columns, as encode writes them.
func flowColumns() []header {
	list := []header{{ColZoneID, "String"}, {ColColo, "String"}, {ColTime, "DateTime('UTC')"}}
	for _, c := range RollupColumns() {
		list = append(list, c.flow())
	}
	return list
}

// encode writes the rows as one Native block.
func (m *minutes) encode(b *proto.Buffer, block *HTTPBlock) {
	columns := flowColumns()
	b.PutInt(len(columns))
	b.PutInt(len(m.list))
	columns[0].put(b)
	for _, k := range m.list {
		b.PutString(block.zoneID.list[k.zone])
	}
	columns[1].put(b)
	for _, k := range m.list {
		b.PutString(block.colo.list[k.colo])
	}
	columns[2].put(b)
	for _, k := range m.list {
		b.PutUInt32(k.time * 60)
	}
	columns = columns[3:]
	for i := range sumColumns {
		columns[i].put(b)
		for g := range m.sums {
			b.PutUInt64(m.sums[g][i])
		}
	}
	columns = columns[sumColumns:]
	for i := range m.maps {
		columns[i].put(b)
		m.encodeMap(b, i, block.words(i))
	}
	columns[mapColumns].put(b)
	m.encodeClients(b)
}

// encodeMap writes a map column: the ends of the rows, all keys, all values.
func (m *minutes) encodeMap(b *proto.Buffer, place int, d *dict) {
	list := m.maps[place].list
	m.sort(len(list), func(i int) uint32 { return list[i].group })
	m.counts = m.counts[:0]
	for g := range m.list {
		from := len(m.counts)
		for _, i := range m.order[m.starts[g]:m.starts[g+1]] {
			m.counts = append(m.counts, list[i])
		}
		if d != nil {
			m.counts = m.counts[:from+bound(m.counts[from:])]
		}
		b.PutUInt64(uint64(len(m.counts)))
	}
	for _, c := range m.counts {
		if d != nil {
			b.PutString(keyText(place, d, c.key))
		} else {
			b.Buf = binary.LittleEndian.AppendUint16(b.Buf, uint16(c.key))
		}
	}
	for _, c := range m.counts {
		b.PutUInt64(c.n)
	}
}

// otherKey stands for OtherKey among the numbers of dictionaries.
const otherKey = ^uint32(0)

// bound brings the counts of one row down to what a map may have, and gives how many are left.
func bound(counts []count) int {
	if len(counts) <= maxKeys {
		return len(counts)
	}
	slices.SortFunc(counts, func(a, b count) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.key, b.key))
	})
	keep := 0
	for keep < maxKeys && counts[keep].n > 1 {
		keep++
	}
	rest := count{key: otherKey}
	for _, c := range counts[keep:] {
		rest.n += c.n
	}
	counts[keep] = rest
	return keep + 1
}

func (m *minutes) encodeClients(b *proto.Buffer) {
	list := m.ips.list
	m.sort(len(list), func(i int) uint32 { return list[i].group })
	for g := range m.list {
		b.PutUInt64(uint64(m.starts[g+1]))
	}
	for _, i := range m.order {
		b.Buf = append(b.Buf, list[i].ip[:]...)
	}
}

// sort puts the numbers 0 to n-1 into order by group, those of group g from starts[g] to starts[g+1].
func (m *minutes) sort(n int, group func(int) uint32) {
	m.starts = append(m.starts[:0], make([]uint32, len(m.list)+2)...)
	for i := range n {
		m.starts[group(i)+2]++
	}
	for g := 2; g < len(m.starts); g++ {
		m.starts[g] += m.starts[g-1]
	}
	m.order = append(m.order[:0], make([]uint32, n)...)
	for i := range n {
		at := &m.starts[group(i)+1]
		m.order[*at] = uint32(i)
		*at++
	}
}
