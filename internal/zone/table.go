package zone

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"
)

// table maps hosts to zones. Any number of goroutines may call find while one calls put: nodes never change after they
// can be reached, a bucket's head is swapped atomically.
type table struct {
	seed    maphash.Seed
	buckets []atomic.Pointer[node]
	used    int // only the writer looks
}

type node struct {
	hash uint64
	host string
	zone *Zone
	next *node
}

// newTable gives an empty table with room for n hosts.
func newTable(n int) *table {
	size := 64
	for size < n {
		size *= 2
	}
	return &table{seed: maphash.MakeSeed(), buckets: make([]atomic.Pointer[node], size)}
}

func (t *table) find(host []byte) *Zone {
	h := maphash.Bytes(t.seed, host)
	for n := t.buckets[h&uint64(len(t.buckets)-1)].Load(); n != nil; n = n.next {
		if n.hash == h && n.host == string(host) {
			return n.zone
		}
	}
	return nil
}

// covering gives the zone of the longest suffix of host, at a label's start, that has one.
func (t *table) covering(host []byte) *Zone {
	for {
		if z := t.find(host); z != nil {
			return z
		}
		dot := bytes.IndexByte(host, '.')
		if dot < 0 {
			return nil
		}
		host = host[dot+1:]
	}
}

// put adds a host, unless it is there: the first zone to name a host keeps it. It gives the table to use from now on, a
// larger one when t was full.
func (t *table) put(host string, z *Zone) *table {
	if t.find([]byte(host)) != nil {
		return t
	}
	if t.used >= len(t.buckets) {
		t = t.grown()
	}
	t.add(host, z)
	return t
}

func (t *table) add(host string, z *Zone) {
	h := maphash.String(t.seed, host)
	b := &t.buckets[h&uint64(len(t.buckets)-1)]
	b.Store(&node{hash: h, host: host, zone: z, next: b.Load()})
	t.used++
}

func (t *table) grown() *table {
	g := newTable(4 * t.used)
	for i := range t.buckets {
		for n := t.buckets[i].Load(); n != nil; n = n.next {
			g.add(n.host, n.zone)
		}
	}
	return g
}
