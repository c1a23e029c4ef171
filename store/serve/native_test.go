package serve

import (
	"bytes"
	"testing"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/google/go-cmp/cmp"
)

// mixed is a block with every kind of layout.
func mixed(t testing.TB) (proto.Input, []byte) {
	t.Helper()
	var n proto.ColUInt64
	s := new(proto.ColStr)
	lc := new(proto.ColStr).LowCardinality()
	arr := proto.NewArray(proto.NewArray[string](new(proto.ColStr)))
	m := proto.NewMap[string, uint64](new(proto.ColStr).LowCardinality(), new(proto.ColUInt64))
	nul := proto.NewColNullable[string](new(proto.ColStr))
	fs := &proto.ColFixedStr{Size: 3}
	tuple := proto.ColTuple{new(proto.ColUInt8), new(proto.ColStr)}
	for i := range 5 {
		n.Append(uint64(i))
		s.Append("s\x00")
		lc.Append([]string{"a", "b"}[i%2])
		arr.Append([][]string{{"x"}, {}, {"y", "z"}}[:i%4])
		m.Append(map[string]uint64{"k": uint64(i)})
		nul.Append(proto.Nullable[string]{Set: i%2 == 0, Value: "v"})
		fs.Append([]byte("abc"))
		tuple[0].(*proto.ColUInt8).Append(uint8(i))
		tuple[1].(*proto.ColStr).Append("t")
	}
	in := proto.Input{{Name: "n", Data: &n}, {Name: "s", Data: s}, {Name: "lc", Data: lc}, {Name: "arr", Data: arr}, {Name: "m", Data: m}, {Name: "nul", Data: nul}, {Name: "fs", Data: fs}, {Name: "tuple", Data: tuple}}
	return in, encode(t, in, 0)
}

func encode(t testing.TB, in proto.Input, revision int) []byte {
	t.Helper()
	var b proto.Buffer
	block := proto.Block{Columns: len(in), Rows: in[0].Data.Rows(), Info: proto.BlockInfo{BucketNum: -1}}
	if revision > 0 {
		block.Info.Encode(&b)
	}
	if err := block.EncodeRawBlock(&b, revision, in); err != nil {
		t.Fatal(err)
	}
	return b.Buf
}

func TestNativeWriter_EqualsWhatTheLibraryWrites(t *testing.T) {
	in, plain := mixed(t)
	for _, revision := range []int{54405, 54454, 54513} {
		var b bytes.Buffer
		w := &nativeWriter{dst: &b, revision: revision}
		if _, err := w.Write(append(bytes.Clone(plain), plain...)); err != nil {
			t.Fatal(err)
		}
		one := encode(t, in, revision)
		if diff := cmp.Diff(append(bytes.Clone(one), one...), b.Bytes()); diff != "" {
			t.Errorf("revision %d: %s", revision, diff)
		}
	}
}

func TestNativeWriter_RefusesEveryShortBlock(t *testing.T) {
	_, plain := mixed(t)
	for n := 1; n < len(plain); n++ {
		if _, err := (&nativeWriter{dst: &bytes.Buffer{}, revision: 54454}).Write(plain[:n]); err == nil {
			t.Fatalf("%d of %d bytes passed", n, len(plain))
		}
	}
}

func FuzzNativeWriter(f *testing.F) {
	_, plain := mixed(f)
	f.Add(plain)
	f.Add([]byte("\x01\x05\x01a\x06String\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		if _, err := (&nativeWriter{dst: &out, revision: 54453}).Write(b); err == nil && out.Len() < len(b) {
			t.Errorf("%d bytes became %d", len(b), out.Len())
		}
	})
}
