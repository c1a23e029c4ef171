package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spate-io/spate/edge/ingest/unpack"
)

// clfTime is how common and combined logs write times.
const clfTime = "02/Jan/2006:15:04:05 -0700"

// LengthenLog writes at least the given number of lines to w: those of a log in common or combined format at path, as
// often as it takes, each time moved to begin where the time before ended. Lines without a time are left out. The log, which
// may be compressed, is held in memory.
func LengthenLog(path string, lines int, w io.Writer) error {
	list, err := readTimes(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	first, last := list[0].at, list[0].at
	for _, l := range list {
		if l.at.Before(first) {
			first = l.at
		}
		if l.at.After(last) {
			last = l.at
		}
	}
	span := last.Sub(first) + time.Second
	out := bufio.NewWriterSize(w, 1<<20)
	var buf []byte
	for written, again := 0, 0; written < lines; again++ {
		var known time.Time
		for _, l := range list[:min(len(list), lines-written)] {
			if !l.at.Equal(known) || len(buf) == 0 {
				known = l.at
				buf = l.at.Add(time.Duration(again)*span).AppendFormat(buf[:0], clfTime)
			}
			_, _ = out.Write(l.before)
			_, _ = out.Write(buf)
			if _, err := out.Write(l.after); err != nil {
				return err
			}
		}
		written += len(list)
	}
	return out.Flush()
}

// timed is a line cut at its time.
type timed struct {
	before, after []byte // with the bracket, and the line end
	at            time.Time
}

func readTimes(path string) ([]timed, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in, err := unpack.NewReader(f)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	var list []timed
	for line := range bytes.Lines(text) {
		if line[len(line)-1] != '\n' {
			line = append(bytes.Clone(line), '\n')
		}
		from := bytes.IndexByte(line, '[') + 1
		to := from + len(clfTime)
		if from == 0 || to >= len(line) || line[to] != ']' {
			continue
		}
		at, err := time.Parse(clfTime, string(line[from:to]))
		if err != nil {
			continue
		}
		list = append(list, timed{line[:from], line[to:], at})
	}
	if len(list) == 0 {
		return nil, errors.New("no line of common or combined format")
	}
	return list, nil
}
