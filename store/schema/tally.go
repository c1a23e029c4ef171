package schema

import "encoding/binary"

// tally counts keys row group by row group: what becomes a map column, one row per group. Keys are small numbers, those of a
// dictionary or a bin.
//
// Rows are counted when all are there, a column at a time, not as they come: then what is looked at are one column and the counts of one
// group, which the processor's cache holds, where every row of another zone would touch a place in memory for each of its maps.
type tally struct {
	counts []count
	// slots has the place in counts of each key. Most of what is in it is left from earlier groups, and is true only if
	// that place belongs to this group and has this key.
	slots []uint32
}

type count struct {
	key uint32
	n   uint64
}

// noKey is the key of a row that is not counted.
const noKey = ^uint32(0)

// begin forgets all counts and makes room for keys below n.
func (t *tally) begin(n int) {
	t.counts = t.counts[:0]
	if n > len(t.slots) {
		t.slots = make([]uint32, max(n, 2*len(t.slots)))
	}
}

// add counts the rows of a group, each once or with its weight. Keys and weights are of all rows of the block. It gives the counts of
// the group, which may be shortened by keep.
func (t *tally) add(rows, keys []uint32, weights *word) []count {
	from := len(t.counts)
	for _, r := range rows {
		k := keys[r]
		if k == noKey {
			continue
		}
		at := int(t.slots[k])
		if at < from || at >= len(t.counts) || t.counts[at].key != k {
			at = len(t.counts)
			t.slots[k] = uint32(at)
			t.counts = append(t.counts, count{key: k})
		}
		if weights == nil {
			t.counts[at].n++
		} else {
			t.counts[at].n += weights.uint64(r)
		}
	}
	return t.counts[from:]
}

// keep leaves n of the counts that add gave last.
func (t *tally) keep(last []count, n int) { t.counts = t.counts[:len(t.counts)-len(last)+n] }

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
