package ingest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"time"

	"github.com/spate-io/spate/edge/accesslog"
	"github.com/spate-io/spate/event"
)

// Summary is what an import did. It encodes to JSON for scripts.
type Summary struct {
	Files     []FileResult      `json:"files"`
	Lines     uint64            `json:"lines"`  // with text, that were not imported before
	Events    uint64            `json:"events"` // requests among them
	Bad       uint64            `json:"bad"`    // refused
	Bytes     uint64            `json:"bytes"`  // of responses
	TextBytes uint64            `json:"text_bytes"`
	ByStatus  map[string]uint64 `json:"by_status"`
	ByDay     map[string]uint64 `json:"by_day"`            // UTC
	Reasons   map[string]uint64 `json:"reasons,omitempty"` // of refused lines
	First     *time.Time        `json:"first,omitempty"`
	Last      *time.Time        `json:"last,omitempty"`
	Gaps      []Gap             `json:"gaps,omitempty"`
	Seconds   float64           `json:"seconds"`
	LinesPerS float64           `json:"lines_per_second"`
	DryRun    bool              `json:"dry_run,omitempty"`

	total tally
	saved time.Time
}

// Gap is a span without events.
type Gap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// FileResult is what became of one file.
type FileResult struct {
	Name     string `json:"name"`
	Kind     string `json:"kind,omitempty"` // plain, gzip, ...
	Format   string `json:"format,omitempty"`
	Detected string `json:"detected,omitempty"` // why that format
	Lines    uint64 `json:"lines"`              // that were read
	NewLines uint64 `json:"new_lines"`          // not imported before
	Events   uint64 `json:"events"`
	Bad      uint64 `json:"bad"`
	Known    bool   `json:"known,omitempty"` // all of it was imported before
	Error    string `json:"error,omitempty"`
}

func newSummary(o Options) *Summary {
	return &Summary{Files: []FileResult{}, ByStatus: map[string]uint64{}, ByDay: map[string]uint64{}, Reasons: map[string]uint64{}, DryRun: o.DryRun, saved: time.Now()}
}

// slot is the resolution in which spans without events are found.
const slot = int64(10 * time.Minute)

// tally counts events.
type tally struct {
	events, bytes uint64
	status        [1000]uint32
	slots         map[int64]uint64
	lastSlot      int64
	lastCount     uint64
	first, last   int64
}

func (t *tally) reset() {
	clear(t.slots)
	*t = tally{slots: t.slots}
}

func (t *tally) add(e *event.HTTP) {
	at := e.EdgeStartTimestamp
	if t.events == 0 || at < t.first {
		t.first = at
	}
	if t.events == 0 || at > t.last {
		t.last = at
	}
	t.events++
	t.bytes += e.EdgeResponseBytes
	t.status[min(e.EdgeResponseStatus, 999)]++
	s := at / slot
	if at < 0 {
		s--
	}
	if s != t.lastSlot {
		t.flush()
		t.lastSlot = s
	}
	t.lastCount++
}

// flush moves the count of the slot that events fell into last.
func (t *tally) flush() {
	if t.lastCount > 0 {
		if t.slots == nil {
			t.slots = map[int64]uint64{}
		}
		t.slots[t.lastSlot] += t.lastCount
		t.lastCount = 0
	}
}

// add takes over the counts of a chunk.
func (s *Summary) add(j *job, bad int) {
	s.Lines += j.newLines
	s.Bad += uint64(bad)
	s.TextBytes += uint64(len(j.text))
	j.st.flush()
	if j.st.events == 0 {
		return
	}
	t := &s.total
	if t.events == 0 || j.st.first < t.first {
		t.first = j.st.first
	}
	if t.events == 0 || j.st.last > t.last {
		t.last = j.st.last
	}
	t.events += j.st.events
	t.bytes += j.st.bytes
	for i, n := range j.st.status {
		if n > 0 {
			s.ByStatus[statusName(i)] += uint64(n)
		}
	}
	if t.slots == nil {
		t.slots = map[int64]uint64{}
	}
	for k, n := range j.st.slots {
		t.slots[k] += n
	}
}

func statusName(i int) string {
	if i == 0 {
		return "unknown"
	}
	return strconv.Itoa(i)
}

// finish computes what follows from the counts.
func (s *Summary) finish(took, gap time.Duration) {
	t := &s.total
	s.Events, s.Bytes = t.events, t.bytes
	s.Seconds = took.Seconds()
	if s.Seconds > 0 {
		s.LinesPerS = float64(s.Lines) / s.Seconds
	}
	if t.events == 0 {
		return
	}
	first, last := time.Unix(0, t.first).UTC(), time.Unix(0, t.last).UTC()
	s.First, s.Last = &first, &last
	slots := make([]int64, 0, len(t.slots))
	for k, n := range t.slots {
		slots = append(slots, k)
		s.ByDay[time.Unix(0, k*slot).UTC().Format(time.DateOnly)] += n
	}
	sort.Slice(slots, func(i, j int) bool { return slots[i] < slots[j] })
	for i := 1; i < len(slots); i++ {
		from, to := (slots[i-1]+1)*slot, slots[i]*slot
		if to-from >= int64(gap) {
			s.Gaps = append(s.Gaps, Gap{time.Unix(0, from).UTC(), time.Unix(0, to).UTC()})
		}
	}
}

// reason gives what is counted of a refusal: field and reason without the place.
func reason(err error) string {
	var e *accesslog.Error
	if errors.As(err, &e) {
		return e.Field + ": " + e.Reason
	}
	return err.Error()
}

// badLog is the file for refused lines.
type badLog struct {
	f    *os.File
	w    *bufio.Writer
	left int
	more uint64
}

// maxBadText is how much of a refused line is kept.
const maxBadText = 2048

func openBadLog(path string, limit int) (*badLog, error) {
	b := &badLog{left: limit}
	if path == "" {
		return b, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("open file for bad lines: %w", err)
	}
	b.f, b.w = f, bufio.NewWriter(f)
	return b, nil
}

// add writes "FILE:LINE: reason<TAB>text".
func (b *badLog) add(file string, line uint64, cause error, text []byte) error {
	if b.w == nil {
		return nil
	}
	if b.left == 0 {
		b.more++
		return nil
	}
	b.left--
	for len(text) > 0 && (text[len(text)-1] == '\n' || text[len(text)-1] == '\r') {
		text = text[:len(text)-1]
	}
	if _, err := fmt.Fprintf(b.w, "%s:%d: %s\t%q\n", file, line, cause, text[:min(len(text), maxBadText)]); err != nil {
		return fmt.Errorf("write file for bad lines: %w", err)
	}
	return nil
}

func (b *badLog) close() error {
	if b.w == nil {
		return nil
	}
	if b.more > 0 {
		_, _ = fmt.Fprintf(b.w, "... and %d more\n", b.more)
	}
	if err := errors.Join(b.w.Flush(), b.f.Close()); err != nil {
		return fmt.Errorf("write file for bad lines: %w", err)
	}
	return nil
}

// Print writes the summary for people.
func (s *Summary) Print(w io.Writer) {
	for _, f := range s.Files {
		switch {
		case f.Error != "":
			fmt.Fprintf(w, "%s: %s\n", f.Name, f.Error)
		case f.Known:
			fmt.Fprintf(w, "%s: imported before\n", f.Name)
		case f.Lines > f.NewLines:
			fmt.Fprintf(w, "%s: %s, %s lines, %s of them new, %s bad\n", f.Name, f.Format, count(f.Lines), count(f.NewLines), count(f.Bad))
		default:
			fmt.Fprintf(w, "%s: %s, %s lines, %s bad\n", f.Name, f.Format, count(f.Lines), count(f.Bad))
		}
	}
	fmt.Fprintf(w, "\n%s lines, %s requests, %s bad, in %.1f s (%s lines/s); %s bytes sent\n",
		count(s.Lines), count(s.Events), count(s.Bad), s.Seconds, count(uint64(s.LinesPerS)), count(s.Bytes))
	if s.First != nil {
		fmt.Fprintf(w, "from %s to %s\n", s.First.Format(time.RFC3339), s.Last.Format(time.RFC3339))
	}
	table(w, "status", s.ByStatus)
	table(w, "day", s.ByDay)
	table(w, "refused because", s.Reasons)
	for i, g := range s.Gaps {
		if i == 20 {
			fmt.Fprintf(w, "... and %d more spans\n", len(s.Gaps)-i)
			break
		}
		fmt.Fprintf(w, "no data from %s to %s\n", g.From.Format(time.RFC3339), g.To.Format(time.RFC3339))
	}
}

// table prints counts by name; long ones are cut in the middle.
func table(w io.Writer, title string, counts map[string]uint64) {
	if len(counts) == 0 {
		return
	}
	keys := make([]string, 0, len(counts))
	for k := range counts {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	fmt.Fprintf(w, "%s\n", title)
	for i, k := range keys {
		if len(keys) > 40 && i == 20 {
			fmt.Fprintf(w, "  ... %d more ...\n", len(keys)-40)
		}
		if len(keys) <= 40 || i < 20 || i >= len(keys)-20 {
			fmt.Fprintf(w, "  %-28s %14s\n", k, count(counts[k]))
		}
	}
}

// count writes a number with commas.
func count(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
