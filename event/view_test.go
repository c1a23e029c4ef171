package event

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/spate-io/spate/event/internal/goldentest"
)

func asError(err error, e **Error) bool { return errors.As(err, e) }

// hostileMessage is a message that must be refused, with the part and the kind of the error.
type hostileMessage struct {
	name  string
	bytes []byte
	part  string
	err   error
}

// hostile returns messages that are wrong in one place each.
func hostile() []hostileMessage {
	const ptrs = framing + headSize // where the pointer section begins
	le := binary.LittleEndian
	with := func(change func(b []byte)) []byte {
		b := sample().Append(nil)
		change(b)
		return b
	}
	pointer := func(i int, word uint64) []byte {
		return with(func(b []byte) { le.PutUint64(b[ptrs+i*8:], word) })
	}
	table := func(words ...uint32) []byte {
		var b []byte
		for _, w := range words {
			b = le.AppendUint32(b, w)
		}
		return b
	}
	list := func(off int32, n uint64) uint64 { return n<<35 | 2<<32 | uint64(uint32(off)<<2) | 1 }
	return []hostileMessage{
		{"nothing", nil, "framing", ErrShort},
		{"no_words", table(0, 0), "root", ErrPointer},
		{"too_many_words", table(0, MaxMessage/8), "framing", ErrTooLarge},
		{"size_overflow", table(0, 0xFFFFFFFF), "framing", ErrTooLarge},
		{"too_many_segments", table(512, 0), "framing", ErrTooLarge},
		{"segment_overflow", table(0xFFFFFFFF, 0), "framing", ErrTooLarge},
		{"table_cut", table(3, 1), "framing", ErrShort},
		{"second_segment_cut", append(table(1, 1, 9, 0), make([]byte, 16)...), "framing", ErrShort},
		{"root_is_list", with(func(b []byte) { b[8] |= 1 }), "root", ErrKind},
		{"root_is_capability", with(func(b []byte) { b[8] |= 3 }), "root", ErrKind},
		{"root_before_segment", with(func(b []byte) { le.PutUint32(b[8:], 0xFFFFFFF0) }), "root", ErrPointer},
		{"root_after_segment", with(func(b []byte) { le.PutUint32(b[8:], 4<<10) }), "root", ErrPointer},
		{"data_section_too_long", with(func(b []byte) { le.PutUint16(b[12:], 0xFFFF) }), "root", ErrPointer},
		{"pointer_section_too_long", with(func(b []byte) { le.PutUint16(b[14:], 0xFFFF) }), "root", ErrPointer},
		{"small_root_outside", append(table(0, 1), 0, 1, 0, 0, 1, 0, 0, 0), "root", ErrPointer},
		{"text_before_segment", pointer(5, list(-100, 9)), "ClientRequestPath", ErrPointer},
		{"text_after_segment", pointer(5, list(1000, 9)), "ClientRequestPath", ErrPointer},
		{"text_too_long", pointer(5, list(0, 1<<29-1)), "ClientRequestPath", ErrPointer},
		{"address_after_segment", pointer(0, list(1<<28, 4)), "ClientIP", ErrPointer},
		{"text_is_struct", pointer(9, 0), "", nil}, // null is fine; the row keeps the next ones honest
		{"text_is_struct_pointer", pointer(9, 1<<32), "ClientRequestUserAgent", ErrKind},
		{"text_is_capability", pointer(9, 3), "ClientRequestUserAgent", ErrKind},
		{"text_of_words", pointer(9, list(20, 1)|5<<32), "ClientRequestUserAgent", ErrKind},
		{"text_of_bits", pointer(9, list(20, 1)&^(7<<32)|1<<32), "ClientRequestUserAgent", ErrKind},
		{"text_without_nul", with(func(b []byte) {
			b[bytes.Index(b, []byte("ClientRequestPath/value\x00"))+23] = 'x'
		}), "ClientRequestPath", ErrText},
		{"text_of_no_bytes", pointer(24, list(0, 0)), "Threat", ErrText},
		{"far_to_missing_segment", pointer(24, 7<<32|2), "Threat", ErrPointer},
		{"far_outside", pointer(24, 0xFFFFFFF8|2), "Threat", ErrPointer},
		{"far_to_itself", pointer(24, (headSize+24*8)<<0|2), "Threat", ErrKind},
		{"double_far_outside", pointer(24, 0xFFFFFFF8|6), "Threat", ErrPointer},
		{"double_far_to_no_far", pointer(24, 0|6), "Threat", ErrKind},
		{"all_point_to_the_same", with(func(b []byte) {
			for i := 2; i < HTTPPointers; i++ {
				le.PutUint64(b[ptrs+i*8:], list(int32((len(b)-ptrs-i*8-8)/8-30), 240))
			}
		}), "ClientRequestPath", ErrPointer},
	}
}

func TestReadHTTP_HostileRefused(t *testing.T) {
	for _, h := range hostile() {
		t.Run(h.name, func(t *testing.T) {
			_, _, err := ReadHTTP(h.bytes)
			if h.err == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, h.err) || e.Part != h.part {
				t.Fatalf("got %v, want %s: %v", err, h.part, h.err)
			}
			if e.Offset < 0 || e.Offset > len(h.bytes) || !strings.HasPrefix(err.Error(), h.part+" at byte ") {
				t.Fatalf("error does not say where: %v", err)
			}
		})
	}
}

func TestReadHTTP_NullRootIsAnEmptyEvent(t *testing.T) {
	v, n, err := ReadHTTP(append([]byte{0, 0, 0, 0, 1, 0, 0, 0}, make([]byte, 8)...))
	if err != nil || n != 16 {
		t.Fatalf("read %d bytes: %v", n, err)
	}
	if v.EdgeStartTimestamp() != 0 || len(v.ClientRequestHost()) != 0 || v.ClientIP().IsValid() {
		t.Fatal("an empty message has fields")
	}
}

func TestView_AddressOfAnotherLength(t *testing.T) {
	e := &HTTP{RayID: []byte("1234567")}
	b := e.Append(nil)
	copy(b[framing+headSize:], b[framing+headSize+19*8:][:8]) // the address takes the bytes of the ray id
	le := binary.LittleEndian
	at := framing + headSize
	le.PutUint64(b[at:], listWord(headSize, fixedSize, 7))
	v, _, err := ReadHTTP(b)
	if err != nil || v.ClientIP().IsValid() {
		t.Fatalf("address %v: %v", v.ClientIP(), err)
	}
}

func TestWalk(t *testing.T) {
	b := typical().Append(sample().Append(nil))
	size := len(sample().Append(nil))
	var hosts []string
	collect := func(v View) error {
		hosts = append(hosts, string(v.ClientRequestHost()))
		return nil
	}
	n, err := Walk(b, collect)
	if err != nil || n != 2 || strings.Join(hosts, " ") != "ClientRequestHost/value www.example.com" {
		t.Fatalf("%d messages, %q: %v", n, hosts, err)
	}
	n, err = Walk(b[:len(b)-1], collect)
	if n != 1 || !errors.Is(err, ErrShort) || !strings.HasPrefix(err.Error(), "message 1 at byte "+strconv.Itoa(size)) {
		t.Fatalf("%d messages: %v", n, err)
	}
	stop := errors.New("stop")
	if n, err = Walk(b, func(View) error { return stop }); n != 0 || !errors.Is(err, stop) {
		t.Fatalf("%d messages: %v", n, err)
	}
	if n, err = Walk(nil, collect); n != 0 || err != nil {
		t.Fatalf("%d messages: %v", n, err)
	}
}

func TestHTTP_Golden(t *testing.T) {
	for name, e := range map[string]*HTTP{"empty": {}, "all_fields": sample(), "typical": typical()} {
		t.Run(name, func(t *testing.T) { goldentest.Check(t, name, e.Append(nil)) })
	}
}
