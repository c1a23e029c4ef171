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
	ips   visitors

	groups []uint32 // of each row of the block, its place in list

	// What encode works with.
	rows  grouped
	tally tally
	keys  []uint32
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
	m.groups = append(m.groups, g)
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
	if len(v.Threat()) > 0 {
		s[sumThreats]++
	}
	if e.PageView {
		s[sumViews]++
	}
	if d := durationUs(v.EdgeStartTimestamp(), v.EdgeEndTimestamp()); d >= 0 {
		s[sumTimed]++
		s[sumDuration] += uint64(d)
		s[maxDuration] = max(s[maxDuration], uint64(d))
	}
	if v.OriginTries() > 0 {
		s[sumOrigin]++
		s[sumOriginDuration] += uint64(v.OriginResponseDurationUs())
	}
	m.ips.add(g, address(client))
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

// keysOf gives the key that each row of the block has in a map, [noKey] for rows that it does not count. Nil means that it counts none.
// The slice is valid until the next call.
func (m *minutes) keysOf(b *HTTPBlock, place int) []uint32 {
	switch place {
	case mapStatus:
		return m.each(b, func(row uint32) uint32 { return uint32(b.status.uint16(row)) })
	case mapResponseBins:
		return m.each(b, func(row uint32) uint32 { return binKey(clampInt64(b.edgeBytes.uint64(row))) })
	case mapDurationBins:
		return m.each(b, func(row uint32) uint32 {
			if d := int64(b.duration.uint64(row)); d >= 0 {
				return binKey(d)
			}
			return noKey
		})
	case mapOriginBins:
		return m.each(b, func(row uint32) uint32 {
			if b.tries.uint16(row) > 0 {
				return binKey(int64(b.originDuration.uint32(row)))
			}
			return noKey
		})
	case mapThreat, mapThreatCountry:
		if len(b.threat.list) == 1 && b.threat.list[0] == "" {
			return nil
		}
		keys := b.words(place).keys
		return m.each(b, func(row uint32) uint32 {
			if b.threat.list[b.threat.keys[row]] != "" {
				return keys[row]
			}
			return noKey
		})
	case mapViewEngine:
		return m.each(b, func(row uint32) uint32 {
			if b.page.data[row] != 0 && b.bot.list[b.bot.keys[row]] == "search_engine" {
				return b.browser.keys[row]
			}
			return noKey
		})
	}
	return b.words(place).keys
}

// each collects the keys of all rows.
func (m *minutes) each(b *HTTPBlock, key func(row uint32) uint32) []uint32 {
	m.keys = m.keys[:0]
	for row := range uint32(b.rows) {
		m.keys = append(m.keys, key(row))
	}
	return m.keys
}

func binKey(v int64) uint32 { return uint32(uint16(histogram.BinOf(v))) }

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
	m.list, m.sums, m.groups, m.last = m.list[:0], m.sums[:0], m.groups[:0], 0
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
	m.rows.sort(len(m.list), len(m.groups), func(row int) uint32 { return m.groups[row] })
	for place := range mapColumns {
		columns[place].put(b)
		m.encodeMap(b, block, place)
	}
	columns[mapColumns].put(b)
	m.encodeClients(b)
}

// encodeMap writes a map column: the ends of the rows, all keys, all values.
func (m *minutes) encodeMap(b *proto.Buffer, block *HTTPBlock, place int) {
	d, keys := block.words(place), m.keysOf(block, place)
	var weights *word
	if place == mapCountryBytes || place == mapContentBytes {
		weights = block.edgeBytes
	}
	size := 1 << 16
	if d != nil {
		size = len(d.list)
	}
	m.tally.begin(size)
	for g := range m.list {
		if keys != nil {
			counts := m.tally.add(m.rows.of(g), keys, weights)
			if d != nil {
				m.tally.keep(counts, bound(counts))
			}
		}
		b.PutUInt64(uint64(len(m.tally.counts)))
	}
	for _, c := range m.tally.counts {
		if d != nil {
			b.PutString(keyText(place, d, c.key))
		} else {
			b.Buf = binary.LittleEndian.AppendUint16(b.Buf, uint16(c.key))
		}
	}
	for _, c := range m.tally.counts {
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
	m.rows.sort(len(m.list), len(list), func(i int) uint32 { return list[i].group })
	for g := range m.list {
		b.PutUInt64(uint64(m.rows.starts[g+1]))
	}
	for _, i := range m.rows.order {
		b.Buf = append(b.Buf, list[i].ip[:]...)
	}
}

// grouped is a list of numbers in the order of their groups, and within a group from low to high.
type grouped struct{ starts, order []uint32 }

// sort puts the numbers below n into the order of their groups, of which there are so many.
func (o *grouped) sort(groups, n int, group func(int) uint32) {
	o.starts = append(o.starts[:0], make([]uint32, groups+2)...)
	for i := range n {
		o.starts[group(i)+2]++
	}
	for g := 2; g < len(o.starts); g++ {
		o.starts[g] += o.starts[g-1]
	}
	o.order = append(o.order[:0], make([]uint32, n)...)
	for i := range n {
		at := &o.starts[group(i)+1]
		o.order[*at] = uint32(i)
		*at++
	}
}

// of gives the numbers of a group.
func (o *grouped) of(g int) []uint32 { return o.order[o.starts[g]:o.starts[g+1]] }
