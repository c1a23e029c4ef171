package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// column is one column of a block.
type column struct {
	name, typ string
	shape     shape
}

// Cut cuts one Native block into one for each shard, by the zone in the named column; a shard without rows gets nil. Rows keep
// their order, and the same block is always cut into the same bytes. Pieces do not alias block.
func Cut(block []byte, zone string, shards int) ([][]byte, error) {
	if shards < 1 || shards > maxShards {
		return nil, fmt.Errorf("cut block: %d shards", shards)
	}
	r := &reader{b: block}
	columns := r.uvarint()
	rows := r.count(uint64(r.uvarint()))
	if r.err != nil {
		return nil, fmt.Errorf("cut block: %w", r.err)
	}
	out := make(pieces, shards)
	if rows == 0 {
		return out, nil
	}
	to, err := assign(*r, columns, rows, zone, shards)
	if err != nil {
		return nil, fmt.Errorf("cut block: %w", err)
	}
	counts := make([]int, shards)
	for _, t := range to {
		counts[t]++
	}
	for i := range out {
		out[i] = make([]byte, 0, int(float64(len(block))*float64(counts[i])/float64(rows)*1.05)+4096)
		out[i] = binary.AppendUvarint(out[i], uint64(columns))
		out[i] = binary.AppendUvarint(out[i], uint64(counts[i]))
	}
	for range columns {
		c, err := readColumn(r)
		if err != nil {
			return nil, fmt.Errorf("cut block: %w", err)
		}
		for i := range out {
			out[i] = appendText(appendText(out[i], c.name), c.typ)
		}
		c.shape.prefix(r, out)
		c.shape.cut(r, to, out)
		if r.err != nil {
			return nil, fmt.Errorf("cut block: column %s: %w", c.name, r.err)
		}
	}
	if len(r.b) > 0 {
		return nil, fmt.Errorf("cut block: %d bytes behind it", len(r.b))
	}
	for i := range out {
		if counts[i] == 0 {
			out[i] = nil
		}
	}
	return out, nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func readColumn(r *reader) (column, error) {
	c := column{name: r.text(), typ: r.text()}
	if r.err != nil {
		return c, r.err
	}
	var err error
	if c.shape, err = shapeOf(c.typ); err != nil {
		return c, fmt.Errorf("column %s: %w", c.name, err)
	}
	return c, nil
}

// assign gives the shard of each row. It reads up to the zone's column.
func assign(r reader, columns, rows int, zone string, shards int) ([]uint16, error) {
	here := make([]uint16, rows) // all to one piece, which nobody needs
	for range columns {
		c, err := readColumn(&r)
		if err != nil {
			return nil, err
		}
		if c.name != zone {
			skipped := make(pieces, 1)
			c.shape.prefix(&r, skipped)
			c.shape.cut(&r, here, skipped)
			if r.err != nil {
				return nil, fmt.Errorf("column %s: %w", c.name, r.err)
			}
			continue
		}
		to, err := zones(&r, c, rows, shards)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.name, err)
		}
		return to, nil
	}
	return nil, fmt.Errorf("no column %s", zone)
}

// zones reads the zone's column.
func zones(r *reader, c column, rows, shards int) ([]uint16, error) {
	to := make([]uint16, rows)
	switch s := c.shape.(type) {
	case text:
		last, shard := "", uint16(ShardOf("", shards))
		for i := range to {
			id := r.take(r.uvarint())
			if r.err != nil {
				return nil, r.err
			}
			if string(id) != last {
				last = string(id)
				shard = uint16(ShardOf(last, shards))
			}
			to[i] = shard
		}
	case dictionary:
		s.prefix(r, nil)
		words, keys := s.read(r, rows)
		if r.err != nil {
			return nil, r.err
		}
		shard := make([]uint16, len(words))
		for i, w := range words {
			_, n := binary.Uvarint(w)
			shard[i] = uint16(ShardOf(string(w[n:]), shards))
		}
		for i, k := range keys {
			to[i] = shard[k]
		}
	default:
		return nil, errors.New("is no text")
	}
	return to, nil
}
