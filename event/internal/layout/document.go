package layout

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/spate-io/spate/event"
)

// The generated part of the page lies between these two lines.
const (
	begin = "<!-- fields: begin -->\n"
	end   = "<!-- fields: end -->\n"
)

// Document returns the page with the part between its markers made anew.
func Document(page []byte) ([]byte, error) {
	head, rest, ok := bytes.Cut(page, []byte(begin))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return nil, errors.New("no markers for the table of fields")
	}
	var b bytes.Buffer
	b.Write(head)
	b.WriteString(begin)
	b.WriteString(tables())
	b.WriteString(end)
	b.Write(tail)
	return b.Bytes(), nil
}

func tables() string {
	var data, pointers strings.Builder
	data.WriteString("\n| byte | size | ordinal | field | type | unit | meaning |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	pointers.WriteString("\n| index | byte | ordinal | field | type | meaning |\n| --- | --- | --- | --- | --- | --- |\n")
	used := 0
	for _, f := range event.HTTPFields() {
		name := strings.ToLower(f.Name[:1]) + f.Name[1:]
		switch {
		case f.Kind.Pointer():
			fmt.Fprintf(&pointers, "| %d | %d | @%d | `%s` | %s | %s |\n", f.Offset, event.HTTPDataSize+f.Offset*8, f.Ordinal, name, f.Kind, f.Doc)
		case f.Kind == event.KindBool:
			fmt.Fprintf(&data, "| %d, bit %d | 1 bit | @%d | `%s` | %s | | %s |\n", f.Offset, f.Bit, f.Ordinal, name, f.Kind, f.Doc)
			used = f.Offset + 1
		default:
			fmt.Fprintf(&data, "| %d | %d | @%d | `%s` | %s | %s | %s |\n", f.Offset, f.Kind.Size(), f.Ordinal, name, f.Kind, f.Unit, f.Doc)
		}
	}
	fmt.Fprintf(&data, "| %d | %d | | | | | zero |\n", used, event.HTTPDataSize-used)
	return "\n**Data section**, " + fmt.Sprint(event.HTTPDataSize) + " bytes, offsets from its start:\n" + data.String() +
		"\n**Pointer section**, " + fmt.Sprint(event.HTTPPointers) + " pointers, bytes from the start of the data section:\n" +
		pointers.String() + "\n"
}
