package event

import (
	"bytes"
	"net/netip"
	"testing"

	"capnproto.org/go/capnp/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/event/httpcapnp"
)

// fromLibrary compares every field of v with what the Go library reads in the message b.
func fromLibrary(t testing.TB, v View, b []byte) {
	t.Helper()
	m, err := capnp.Unmarshal(b)
	if err != nil {
		t.Fatalf("the library refuses the message: %v", err)
	}
	root, err := m.Root()
	if err != nil {
		t.Fatalf("the library refuses the root: %v", err)
	}
	s := root.Struct()
	for _, f := range HTTPFields() {
		off := capnp.DataOffset(f.Offset)
		same := true
		switch f.Kind {
		case KindTime, KindUint64:
			same = v.uint64(f.Offset) == s.Uint64(off)
		case KindUint32, KindFloat32:
			same = v.uint32(f.Offset) == s.Uint32(off)
		case KindUint16:
			same = v.uint16(f.Offset) == s.Uint16(off)
		case KindBool:
			same = v.bool(f.Offset, f.Bit) == s.Bit(capnp.BitOffset(f.Offset*8+f.Bit))
		case KindIP, KindText:
			p, err := s.Ptr(uint16(f.Offset))
			if err != nil {
				t.Fatalf("the library refuses %s: %v", f.Name, err)
			}
			if f.Kind == KindText {
				same = bytes.Equal(v.text(f.Offset), p.TextBytes())
			} else {
				same = bytes.Equal(v.bytes(f.Offset), p.Data())
			}
		}
		if !same {
			t.Fatalf("%s differs from what the library reads", f.Name)
		}
	}
}

// byLibrary writes e with the Go library, in the segments that the arena makes.
func byLibrary(t testing.TB, e *HTTP, arena capnp.Arena) []byte {
	t.Helper()
	m, seg, err := capnp.NewMessage(arena)
	if err != nil {
		t.Fatal(err)
	}
	r, err := httpcapnp.NewRootHttpRequest(seg)
	if err != nil {
		t.Fatal(err)
	}
	v, _, _ := ReadHTTP(e.Append(nil))
	s := capnp.Struct(r)
	fields := HTTPFields()
	for i := range fields {
		f := fields[len(fields)-1-i] // backwards, so that objects lie in another order than ours
		off := capnp.DataOffset(f.Offset)
		switch f.Kind {
		case KindTime, KindUint64:
			s.SetUint64(off, v.uint64(f.Offset))
		case KindUint32, KindFloat32:
			s.SetUint32(off, v.uint32(f.Offset))
		case KindUint16:
			s.SetUint16(off, v.uint16(f.Offset))
		case KindBool:
			s.SetBit(capnp.BitOffset(f.Offset*8+f.Bit), v.bool(f.Offset, f.Bit))
		case KindIP:
			err = s.SetData(uint16(f.Offset), v.bytes(f.Offset))
		case KindText:
			err = s.SetNewText(uint16(f.Offset), string(v.text(f.Offset)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// long returns an event that the library needs several segments for, if its arena makes them.
func long() *HTTP {
	e := sample()
	e.ClientRequestPath, e.Threat = bytes.Repeat([]byte("/path"), 2000), bytes.Repeat([]byte("?"), 3000)
	return e
}

func TestLibrary_ReadsWhatAppendWrites(t *testing.T) {
	for name, e := range map[string]*HTTP{"empty": {}, "all_fields": sample(), "typical": typical()} {
		t.Run(name, func(t *testing.T) {
			b := e.Append(nil)
			v, _, err := ReadHTTP(b)
			if err != nil {
				t.Fatal(err)
			}
			fromLibrary(t, v, b)
		})
	}
}

func TestLibrary_GeneratedCodeReadsWhatAppendWrites(t *testing.T) {
	m, err := capnp.Unmarshal(typical().Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	r, err := httpcapnp.ReadRootHttpRequest(m)
	if err != nil {
		t.Fatal(err)
	}
	host, err := r.ClientRequestHost()
	if err != nil {
		t.Fatal(err)
	}
	ip, err := r.ClientIP()
	if err != nil {
		t.Fatal(err)
	}
	addr, _ := netip.AddrFromSlice(ip)
	if host != "www.example.com" || addr.String() != "203.0.113.9" || r.EdgeResponseStatus() != 200 || !r.EdgeResponseCompleted() {
		t.Fatalf("host %q, address %v, status %d, completed %v", host, addr, r.EdgeResponseStatus(), r.EdgeResponseCompleted())
	}
}

func TestReadHTTP_ReadsWhatTheLibraryWrites(t *testing.T) {
	for name, arena := range map[string]capnp.Arena{
		"one_segment": capnp.SingleSegment(nil), "several_segments": capnp.MultiSegment(nil),
	} {
		t.Run(name, func(t *testing.T) {
			b := byLibrary(t, long(), arena)
			v, n, err := ReadHTTP(b)
			if err != nil || n != len(b) {
				t.Fatalf("read %d of %d bytes: %v", n, len(b), err)
			}
			var got HTTP
			v.Decode(&got)
			if d := cmp.Diff(long(), &got, equal); d != "" {
				t.Fatal(d)
			}
			if (b[0] != 0) != (name == "several_segments") {
				t.Fatalf("%d segments", int(b[0])+1)
			}
		})
	}
}

func FuzzReadHTTP(f *testing.F) {
	for _, e := range []*HTTP{{}, sample(), typical()} {
		b := e.Append(nil)
		f.Add(b)
		f.Add(b[:len(b)-8])
		f.Add(append(e.Append(nil), b...))
	}
	f.Add(byLibrary(f, long(), capnp.MultiSegment(nil)))
	for _, h := range hostile() {
		f.Add(h.bytes)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		backing := append(bytes.Clone(b), bytes.Repeat([]byte{0xEE}, 64)...)
		v, n, err := ReadHTTP(backing[:len(b)])
		if err != nil {
			var e *Error
			if !asError(err, &e) {
				t.Fatalf("error without a type: %v", err)
			}
			return
		}
		if n > len(b) || n > MaxMessage || n%8 != 0 {
			t.Fatalf("%d of %d bytes", n, len(b))
		}
		fromLibrary(t, v, b[:n:n])
		var first, second HTTP
		v.Decode(&first)
		if first.size() > maxSegment*8 {
			return // would be cut
		}
		again, m, err := ReadHTTP(first.Append(nil))
		if err != nil || m != framing+first.size() {
			t.Fatalf("written again, %d of %d bytes: %v", m, framing+first.size(), err)
		}
		again.Decode(&second)
		if d := cmp.Diff(first, second, equal); d != "" {
			t.Fatal(d)
		}
	})
}
