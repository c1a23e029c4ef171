package asndb

import (
	"cmp"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"
	"slices"
	"strconv"
)

// Range is one row of the source: addresses from First to Last, both included, and their autonomous system.
type Range struct {
	First, Last netip.Addr
	ASN         uint32
}

// ReadCSV reads rows of first address, last address, number, and further columns, as the npm package @ip-location-db/asn has
// them.
func ReadCSV(r io.Reader) ([]Range, error) {
	c := csv.NewReader(r)
	c.FieldsPerRecord, c.ReuseRecord = -1, true
	var list []Range
	for {
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := c.FieldPos(0)
		if len(row) < 3 {
			return nil, fmt.Errorf("line %d: want first, last, number", line)
		}
		first, err1 := netip.ParseAddr(row[0])
		last, err2 := netip.ParseAddr(row[1])
		asn, err3 := strconv.ParseUint(row[2], 10, 32)
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if first.BitLen() != last.BitLen() || last.Less(first) {
			return nil, fmt.Errorf("line %d: %s to %s is no range", line, first, last)
		}
		list = append(list, Range{first, last, uint32(asn)})
	}
}

// Build returns the bytes of the file for the ranges, in any order. Where ranges overlap, the one that begins last holds.
// Neighbours of one system become one range.
func Build(list []Range) ([]byte, error) {
	for _, r := range list {
		if r.First.BitLen() == 0 || r.First.BitLen() != r.Last.BitLen() || r.Last.Less(r.First) {
			return nil, fmt.Errorf("%s to %s is no range", r.First, r.Last)
		}
	}
	slices.SortStableFunc(list, func(a, b Range) int {
		return cmp.Or(cmp.Compare(a.First.BitLen(), b.First.BitLen()), a.First.Compare(b.First), b.Last.Compare(a.Last))
	})
	var s sweep
	for _, r := range list {
		s.closeBefore(r.First)
		s.begin(r.First, r.ASN)
		s.open = append(s.open, r)
	}
	s.closeBefore(netip.Addr{})
	return encode(s.starts, s.asns), nil
}

// sweep goes over ranges in the order of their first addresses. Index 0 is IPv4, 1 is IPv6.
type sweep struct {
	starts [2][]netip.Addr
	asns   [2][]uint32
	open   []Range // that cover the current address or ended before it, the one that began last at the end
}

// begin notes that the system asn begins at an address.
func (s *sweep) begin(at netip.Addr, asn uint32) {
	v := at.BitLen() / 128
	n := len(s.asns[v])
	if n > 0 && s.starts[v][n-1] == at {
		n--
		s.starts[v], s.asns[v] = s.starts[v][:n], s.asns[v][:n]
	}
	if n == 0 && asn == 0 || n > 0 && s.asns[v][n-1] == asn {
		return
	}
	s.starts[v], s.asns[v] = append(s.starts[v], at), append(s.asns[v], asn)
}

// closeBefore closes the open ranges that end before an address, or all if it is the zero Addr.
func (s *sweep) closeBefore(at netip.Addr) {
	for len(s.open) > 0 {
		top := s.open[len(s.open)-1]
		if at.BitLen() == top.Last.BitLen() && !top.Last.Less(at) {
			return
		}
		for len(s.open) > 0 && !top.Last.Less(s.open[len(s.open)-1].Last) {
			s.open = s.open[:len(s.open)-1]
		}
		next := top.Last.Next()
		if !next.IsValid() {
			continue // the last address of all
		}
		asn := uint32(0)
		if len(s.open) > 0 {
			asn = s.open[len(s.open)-1].ASN
		}
		s.begin(next, asn)
	}
}

func encode(starts [2][]netip.Addr, asns [2][]uint32) []byte {
	le := binary.LittleEndian
	b := []byte(magic)
	b = le.AppendUint32(b, uint32(len(starts[0])))
	b = le.AppendUint32(b, uint32(len(starts[1])))
	for _, a := range starts[0] {
		v := a.As4()
		b = le.AppendUint32(b, binary.BigEndian.Uint32(v[:]))
	}
	for _, n := range asns[0] {
		b = le.AppendUint32(b, n)
	}
	for _, a := range starts[1] {
		h := halves(a)
		b = le.AppendUint64(le.AppendUint64(b, h[0]), h[1])
	}
	for _, n := range asns[1] {
		b = le.AppendUint32(b, n)
	}
	return le.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}
