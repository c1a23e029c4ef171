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
}

// batchRoom is what a record batch needs around one value: its own header, the record's, and headers of dead letters.
const batchRoom = 16 << 10

// Topics returns all topics that Spate uses with this configuration.
func (c *Config) Topics() []Topic {
	base := Topic{
		Partitions: c.Partitions, Replication: c.Replication, MinInsync: c.MinInsync,
		Retention: c.Retention.D(), RetentionBytes: int64(c.RetentionBytes), MaxMessage: int64(c.MaxMessage) + batchRoom,
	}
	requests, refused := base, base
	requests.Name = c.RequestsTopic()
	refused.Name, refused.Partitions = c.RefusedTopic(), 1
	return []Topic{requests, refused}
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
	return out
}

// EnsureTopics creates the topics that do not exist and returns the number of partitions of each. A topic that exists
// stays as it is; its number of partitions is what counts from then on, not the one asked for. The error says which
// topic and why, for example that there are fewer brokers than replicas.
func EnsureTopics(ctx context.Context, cl *kgo.Client, topics []Topic) (map[string]int32, error) {
	adm := kadm.NewClient(cl)
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Name
	}
	there, err := adm.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	out := make(map[string]int32, len(topics))
	for _, t := range topics {
		d := there[t.Name]
		if d.Err == nil && len(d.Partitions) > 0 {
			out[t.Name] = int32(len(d.Partitions))
			continue
		}
		if d.Err != nil && !errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
			return nil, fmt.Errorf("topic %s: %w", t.Name, d.Err)
		}
		if out[t.Name], err = createTopic(ctx, adm, t); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func createTopic(ctx context.Context, adm *kadm.Client, t Topic) (int32, error) {
	replication := t.Replication
	if replication == 0 {
		replication = -1
	}
	resp, err := adm.CreateTopic(ctx, t.Partitions, replication, t.configs(), t.Name)
	switch {
	case err == nil:
		return t.Partitions, nil
	case errors.Is(err, kerr.TopicAlreadyExists): // another process was faster
		d, err := adm.ListTopics(ctx, t.Name)
		if err != nil {
			return 0, fmt.Errorf("list topics: %w", err)
		}
		if n := len(d[t.Name].Partitions); n > 0 {
			return int32(n), nil
		}
		return 0, fmt.Errorf("topic %s: created by somebody else and not visible yet", t.Name)
	case resp.ErrMessage != "":
		return 0, fmt.Errorf("create topic %s (%d partitions, replication %d): %w: %s", t.Name, t.Partitions, t.Replication, err, resp.ErrMessage)
	default:
		return 0, fmt.Errorf("create topic %s (%d partitions, replication %d): %w", t.Name, t.Partitions, t.Replication, err)
	}
}
