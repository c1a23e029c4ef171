package schema

import "encoding/binary"

// tally counts by group and key: what becomes a map column, one row per group. Keys are small numbers, those of a
// dictionary or a bin. The same pair as the one before, which is the usual case, costs a comparison.
type tally struct {
	slots []uint32 // open addressing by hash of group and key: place in list and one, 0 for none
	list  []count
	last  uint32
}

type count struct {
	group, key uint32
	n          uint64
}

const firstSlots = 1 << 8

func (t *tally) add(group, key uint32, n uint64) {
	if int(t.last) < len(t.list) {
		if c := &t.list[t.last]; c.group == group && c.key == key {
			c.n += n
			return
		}
	}
	if 2*len(t.list) >= len(t.slots) {
		t.grow()
	}
	at := t.find(group, key)
	if t.slots[at] == 0 {
		t.list = append(t.list, count{group: group, key: key})
		t.slots[at] = uint32(len(t.list))
	}
	t.last = t.slots[at] - 1
	t.list[t.last].n += n
}

// find gives the slot of a pair, or the free one where it belongs.
func (t *tally) find(group, key uint32) uint32 {
	mask := uint32(len(t.slots) - 1)
	at := uint32(mix(uint64(group)<<32|uint64(key))) & mask
	for t.slots[at] != 0 {
		if c := &t.list[t.slots[at]-1]; c.group == group && c.key == key {
			break
		}
		at = (at + 1) & mask
	}
	return at
}

func (t *tally) grow() {
	t.slots = make([]uint32, max(firstSlots, 2*len(t.slots)))
	for i, c := range t.list {
		t.slots[t.find(c.group, c.key)] = uint32(i + 1)
	}
}

func (t *tally) reset() {
	clear(t.slots)
	t.list, t.last = t.list[:0], 0
}

// mix is the finaliser of splitmix64: it spreads the bits of a number over all of its low ones.
func mix(v uint64) uint64 {
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// visitors collects the client addresses of each group. It drops most repetitions, by remembering what it saw last; the
// store drops the others.
type visitors struct {
	recent []visitor
	list   []visitor
}

type visitor struct {
	group uint32
	ip    [16]byte
}

const recentVisitors = 1 << 12

func (v *visitors) add(group uint32, ip [16]byte) {
	if v.recent == nil {
		v.forget()
	}
	low, high := binary.LittleEndian.Uint64(ip[:8]), binary.LittleEndian.Uint64(ip[8:])
	seen := &v.recent[mix(low^mix(high^uint64(group)))%recentVisitors]
	now := visitor{group, ip}
	if *seen == now {
		return
	}
	*seen = now
	v.list = append(v.list, now)
}

func (v *visitors) forget() {
	if v.recent == nil {
		v.recent = make([]visitor, recentVisitors)
	}
	for i := range v.recent {
		v.recent[i].group = noGroup
	}
}

const noGroup = ^uint32(0)

func (v *visitors) reset() {
	v.forget()
	v.list = v.list[:0]
}
