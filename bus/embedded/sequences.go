package embedded

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
)

// sequenceWindows rebuilds, from the log, what the engine knows of each producer's last batches, so that a batch that was
// written but not acknowledged before a crash is recognised when its producer sends it again.
type sequenceWindows struct {
	list []*partitionProducers
}

// partitionProducers are the producers of one partition.
type partitionProducers struct {
	topic     string
	partition int32
	byID      map[int64]*sequenceWindow
}

// sequenceWindow is one entry of the engine's seq_windows.json.
type sequenceWindow struct {
	PID     int64            `json:"pid"`
	Topic   string           `json:"topic"`
	Part    int32            `json:"partition"`
	Entries [5]sequenceEntry `json:"entries"`
	Count   uint8            `json:"count"`
	At      uint8            `json:"at"` // where the next entry goes
	Epoch   int16            `json:"epoch"`
	Seen    bool             `json:"seen"`
	NextSeq int32            `json:"next_seq"`
}

type sequenceEntry struct {
	FirstSeq int32 `json:"first_seq"`
	NextSeq  int32 `json:"next_seq"`
	Offset   int64 `json:"offset"`
}

// of returns the producers of the partition whose folder is name: topic-number.
func (s *sequenceWindows) of(name string) (*partitionProducers, error) {
	cut := strings.LastIndexByte(name, '-')
	if cut < 0 {
		return nil, fmt.Errorf("folder %q is no partition", name)
	}
	topic, err := url.PathUnescape(name[:cut])
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseInt(name[cut+1:], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("folder %q is no partition: %w", name, err)
	}
	p := &partitionProducers{topic: topic, partition: int32(n), byID: make(map[int64]*sequenceWindow)}
	s.list = append(s.list, p)
	return p, nil
}

// see takes in the next batch of the partition.
func (p *partitionProducers) see(h *batchHeader) {
	id := h.producer()
	if id < 0 {
		return
	}
	w := p.byID[id]
	if w == nil || w.Epoch != h.epoch() {
		w = &sequenceWindow{PID: id, Topic: p.topic, Part: p.partition, Epoch: h.epoch(), Seen: true}
		p.byID[id] = w
	}
	w.NextSeq = int32((int64(h.sequence()) + int64(h.records())) % math.MaxInt32)
	w.Entries[w.At] = sequenceEntry{FirstSeq: h.sequence(), NextSeq: w.NextSeq, Offset: h.first()}
	w.At = (w.At + 1) % uint8(len(w.Entries))
	w.Count = min(w.Count+1, uint8(len(w.Entries)))
}

// write stores all windows where the engine looks for them.
func (s *sequenceWindows) write(dir string) error {
	out := struct {
		Version int               `json:"version"`
		Windows []*sequenceWindow `json:"windows"`
	}{Version: engineVersion}
	for _, p := range s.list {
		for _, w := range p.byID {
			out.Windows = append(out.Windows, w)
		}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return writeSynced(filepath.Join(dir, "seq_windows.json"), raw)
}
