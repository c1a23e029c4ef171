package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topic is a topic as it should be. Zero values leave a property to the broker.
type Topic struct {
	Name           string
	Partitions     int32
	Replication    int16
	MinInsync      int16
	Retention      time.Duration
	RetentionBytes int64 // per partition
	MaxMessage     int64 // bytes of one record batch
	Compact        bool  // keep the newest record of each key, however old
}

// batchRoom is what a record batch needs around one value: its own header, the record's, and headers of dead letters.
const batchRoom = 16 << 10

// Topics returns all topics that Spate uses with this configuration, RequestsTopic first.
func (c *Config) Topics() []Topic {
	base := Topic{
		Partitions: c.TopicPartitions(), Replication: c.Replication, MinInsync: c.MinInsync,
		Retention: c.Retention.D(), RetentionBytes: int64(c.RetentionBytes), MaxMessage: int64(c.MaxMessage) + batchRoom,
	}
	requests, refused, window := base, base, base
	requests.Name = c.RequestsTopic()
	refused.Name, refused.Partitions = c.RefusedTopic(), 1
	window.Name, window.Compact, window.Retention, window.RetentionBytes = c.WindowTopic(), true, 0, 0
	return []Topic{requests, refused, window}
}

func (t Topic) configs() map[string]*string {
	out := make(map[string]*string)
	set := func(k string, v int64) {
		if v > 0 {
			s := strconv.FormatInt(v, 10)
			out[k] = &s
		}
	}
	set("min.insync.replicas", int64(t.MinInsync))
	set("retention.ms", t.Retention.Milliseconds())
	set("retention.bytes", t.RetentionBytes)
	set("max.message.bytes", t.MaxMessage)
	if t.Compact {
		policy := "compact"
		out["cleanup.policy"] = &policy
	}
	return out
}

// Existing is a topic as it is on the bus.
type Existing struct {
	ID         [16]byte
	Partitions int32
}

// EnsureTopics creates the topics that do not exist and returns what each is. A topic that exists stays as it is; its
// number of partitions is what counts from then on, not the one asked for. The error says which topic and why, for
// example that there are fewer brokers than replicas.
func EnsureTopics(ctx context.Context, cl *kgo.Client, topics []Topic) (map[string]Existing, error) {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Name
	}
	out, err := describe(ctx, cl, names)
	if err != nil {
		return nil, err
	}
	created := false
	for _, t := range topics {
		if _, ok := out[t.Name]; !ok {
			if err := createTopic(ctx, cl, t); err != nil {
				return nil, err
			}
			created = true
		}
	}
	// A new topic may take a moment to be known by every broker.
	for wait := 10 * time.Millisecond; created; wait = min(2*wait, time.Second) {
		if out, err = describe(ctx, cl, names); err != nil {
			return nil, err
		}
		created = len(out) < len(topics)
		if created {
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("wait for new topics: %w", ctx.Err())
			case <-time.After(wait):
			}
		}
	}
	return out, nil
}

// describe asks the bus, past the client's cache, for the topics that exist.
func describe(ctx context.Context, cl *kgo.Client, names []string) (map[string]Existing, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(n)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	out := make(map[string]Existing)
	for _, t := range resp.Topics {
		err := kerr.ErrorForCode(t.ErrorCode)
		switch {
		case err == nil && len(t.Partitions) > 0:
			out[*t.Topic] = Existing{ID: t.TopicID, Partitions: int32(len(t.Partitions))}
		case err == nil, errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.LeaderNotAvailable):
		default:
			return nil, fmt.Errorf("topic %s: %w", *t.Topic, err)
		}
	}
	return out, nil
}

func createTopic(ctx context.Context, cl *kgo.Client, t Topic) error {
	if t.Name == "" || len(t.Name) > 249 || !topicName(t.Name) {
		return fmt.Errorf("topic %q: a name has 1 to 249 letters, digits, dots, underscores and dashes", t.Name)
	}
	replication := t.Replication
	if replication == 0 {
		replication = -1
	}
	resp, err := kadm.NewClient(cl).CreateTopic(ctx, t.Partitions, replication, t.configs(), t.Name)
	if err == nil || errors.Is(err, kerr.TopicAlreadyExists) { // another process was faster
		return nil
	}
	if resp.ErrMessage != "" {
		err = fmt.Errorf("%w: %s", err, resp.ErrMessage)
	}
	return fmt.Errorf("create topic %s (%d partitions, replication %d): %w", t.Name, t.Partitions, t.Replication, err)
}
