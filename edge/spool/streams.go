package spool

import (
	"bytes"
	"slices"
)

// streams holds the position of each stream and when it last moved.
type streams map[[16]byte]streamState

type streamState struct {
	position uint64
	updated  int64 // ns
}

// advance moves a stream forward, never back.
func (s streams) advance(o Origin, now int64) {
	if e, ok := s[o.Stream]; !ok || o.Position > e.position {
		s[o.Stream] = streamState{o.Position, now}
	}
}

// sorted gives the streams in a fixed order.
func (s streams) sorted() [][16]byte {
	keys := make([][16]byte, 0, len(s))
	for k := range s {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	return keys
}

// forget drops the streams that have been still for longest until at most limit are left. It drops an eighth more than it
// must, so that it is not called for every new stream.
func (s streams) forget(limit int) (gone int) {
	if len(s) <= limit {
		return 0
	}
	times := make([]int64, 0, len(s))
	for _, e := range s {
		times = append(times, e.updated)
	}
	slices.Sort(times)
	gone = min(len(s), len(s)-limit+limit/8)
	last, left := times[gone-1], gone
	for k, e := range s {
		if e.updated < last {
			delete(s, k)
			left--
		}
	}
	for k, e := range s {
		if left == 0 {
			break
		}
		if e.updated == last {
			delete(s, k)
			left--
		}
	}
	return gone
}
