package load

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// span is a range of offsets, both ends in it.
type span struct{ first, last int64 }

// intentVersion begins the metadata of a commit that announces an insert: "spate1 FIRST-LAST". The commit's offset is
// FIRST, so whoever reads it without knowing about intents starts at the right place.
const intentVersion = "spate1"

func (s span) intent() string { return fmt.Sprintf("%s %d-%d", intentVersion, s.first, s.last) }

// token is the name of the insert of this range: the same for every attempt, in every process. The topic's id is in it,
// because offsets begin again when a topic is made anew, and its records must not look like those of the old one.
func (s span) token(topic string, id [16]byte, partition int32) string {
	return fmt.Sprintf("%s:%x/%d/%d-%d", topic, id[:8], partition, s.first, s.last)
}

// parseIntent reads the metadata of a commit. ok is false when it announces nothing.
func parseIntent(metadata string) (s span, ok bool, err error) {
	if metadata == "" {
		return span{}, false, nil
	}
	version, rest, _ := strings.Cut(metadata, " ")
	if version != intentVersion {
		return span{}, false, fmt.Errorf("commit metadata %q: not an intent", metadata)
	}
	first, last, _ := strings.Cut(rest, "-")
	var e1, e2 error
	s.first, e1 = strconv.ParseInt(first, 10, 64)
	s.last, e2 = strconv.ParseInt(last, 10, 64)
	if e1 != nil || e2 != nil || s.first < 0 || s.last < s.first {
		return span{}, false, fmt.Errorf("commit metadata %q: no range", metadata)
	}
	return s, true, nil
}

// errFenced says that this loader no longer has the partition: another one may have it already.
var errFenced = errors.New("partition belongs to another loader")

// commit writes a partition's position and metadata as this member of the group in its current generation, so that a
// loader that was taken for dead cannot write. It retries what passes, until ctx is done.
func (l *Loader) commit(ctx context.Context, partition int32, offset int64, metadata string) error {
	s := l.state()
	start := time.Now()
	wait := 20 * time.Millisecond
	for {
		member, generation := s.cl.GroupMetadata()
		err := l.commitOnce(ctx, s, member, generation, partition, offset, metadata)
		switch {
		case err == nil:
			l.metrics.commit.Observe(time.Since(start).Seconds())
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.FencedInstanceID):
			if m, _ := s.cl.GroupMetadata(); m == member {
				l.metrics.fenced.Inc()
				return fmt.Errorf("%w: %w", errFenced, err)
			}
		case errors.Is(err, kerr.RebalanceInProgress), errors.Is(err, kerr.IllegalGeneration):
			// The group is between two generations. The partition stays ours until the client says otherwise, and
			// then ctx ends.
		default:
			l.log.Warn("commit offset, trying again", "partition", partition, "offset", offset, "err", err)
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, time.Second)
	}
}

func (l *Loader) commitOnce(ctx context.Context, s *session, member string, generation int32, partition int32, offset int64, metadata string) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = l.cfg.Group, member, generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = l.topic, s.topicID
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = partition, offset, &metadata
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	resp, err := req.RequestWith(ctx, s.cl)
	if err != nil {
		return err
	}
	for _, rt := range resp.Topics {
		for _, rp := range rt.Partitions {
			return kerr.ErrorForCode(rp.ErrorCode)
		}
	}
	return errors.New("commit was answered without its partition")
}

// committed reads a partition's position and metadata. offset is -1 when nothing was ever committed.
func (l *Loader) committed(ctx context.Context, partition int32) (offset int64, metadata string, err error) {
	resp, err := kadm.NewClient(l.state().cl).FetchOffsetsForTopics(ctx, l.cfg.Group, l.topic)
	if err != nil {
		return 0, "", fmt.Errorf("read committed offset of partition %d: %w", partition, err)
	}
	o, ok := resp.Lookup(l.topic, partition)
	if !ok {
		return -1, "", nil
	}
	if o.Err != nil {
		return 0, "", fmt.Errorf("read committed offset of partition %d: %w", partition, o.Err)
	}
	return o.At, o.Metadata, nil
}

// bounds returns the start and the end offset of every partition.
func (l *Loader) bounds(ctx context.Context) (starts, ends map[int32]int64, err error) {
	adm := kadm.NewClient(l.state().cl)
	first, err := adm.ListStartOffsets(ctx, l.topic)
	if err == nil {
		starts, err = l.byPartition(first)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read start offsets: %w", err)
	}
	last, err := adm.ListEndOffsets(ctx, l.topic)
	if err == nil {
		ends, err = l.byPartition(last)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read end offsets: %w", err)
	}
	return starts, ends, nil
}

func (l *Loader) byPartition(listed kadm.ListedOffsets) (map[int32]int64, error) {
	out := make(map[int32]int64)
	for _, o := range listed[l.topic] {
		if o.Err != nil {
			return nil, fmt.Errorf("partition %d: %w", o.Partition, o.Err)
		}
		out[o.Partition] = o.Offset
	}
	return out, nil
}

func lookupError(ok bool, err error) error {
	if !ok {
		return errors.New("partition is not in the answer")
	}
	return err
}

// sleep waits, or returns ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
