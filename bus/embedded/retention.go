package embedded

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maintain looks after space and retention until ctx is done.
func (b *Broker) maintain(ctx context.Context, r *running) {
	tick := time.NewTicker(b.cfg.CheckEvery.D())
	defer tick.Stop()
	p := &pressure{b: b}
	for {
		if err := b.checkOnce(ctx, r, p); err != nil && ctx.Err() == nil {
			b.log.Warn("broker retention", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// checkOnce deletes what retention allows and decides whether there is room for more.
func (b *Broker) checkOnce(ctx context.Context, r *running, p *pressure) error {
	total, err := b.retain(ctx, r, time.Now())
	if err != nil {
		return err
	}
	free, err := freeBytes(b.cfg.Dir)
	if err != nil {
		return err
	}
	p.update(r, free < int64(b.cfg.MinFree) || b.cfg.MaxBytes > 0 && total > int64(b.cfg.MaxBytes))
	return nil
}

// guardDeletes keeps clients from emptying a partition: the engine learns from the newest segment where the log ends, and
// without one its offsets would start again at zero. Records in that segment stay until it is full.
func (b *Broker) guardDeletes(cluster *kfake.Cluster) {
	cluster.ControlKey(int16(kmsg.DeleteRecords), func(req kmsg.Request) (kmsg.Response, error, bool) {
		for _, t := range req.(*kmsg.DeleteRecordsRequest).Topics {
			for i := range t.Partitions {
				p := &t.Partitions[i]
				segs, err := listSegments(b.partitionDir(t.Topic, p.Partition))
				if err != nil || len(segs) == 0 {
					continue // nothing to delete
				}
				if last := segs[len(segs)-1].base; p.Offset < 0 || p.Offset > last {
					p.Offset = last
				}
			}
		}
		return nil, nil, false
	})
}

func (b *Broker) partitionDir(topic string, partition int32) string {
	return filepath.Join(b.cfg.Dir, "partitions", url.PathEscape(topic)+"-"+strconv.Itoa(int(partition)))
}

// bounds are a topic's limits per partition; negative means none.
type bounds struct {
	age   time.Duration
	bytes int64
}

// retain applies retention to all partitions and returns the bytes that are left on disk.
func (b *Broker) retain(ctx context.Context, r *running, now time.Time) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	adm := kadm.NewClient(r.client)
	topics, err := adm.ListTopics(ctx)
	if err != nil {
		return 0, err
	}
	limits, err := b.limits(ctx, adm, topics.Names())
	if err != nil {
		return 0, err
	}
	holds, err := b.holds(ctx, adm)
	if err != nil {
		return 0, err
	}
	var total, held, count int64
	cut := make(kadm.Offsets)
	for _, t := range topics {
		for _, part := range t.Partitions {
			segs, err := listSegments(b.partitionDir(t.Topic, part.Partition))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return 0, err
			}
			hold, bound := holds[key{t.Topic, part.Partition}]
			if !bound && len(b.cfg.Hold[t.Topic]) > 0 {
				hold = 0 // a group that must read it has not begun
				bound = true
			}
			if !bound {
				hold = -1
			}
			c := expired(segs, limits[t.Topic], hold, now)
			if c.upTo > 0 {
				cut.AddOffset(t.Topic, part.Partition, c.upTo, -1)
				b.metrics.deleted.Add(float64(c.bytes))
			}
			held += c.held
			count += int64(len(segs))
			for _, s := range segs {
				total += s.size
			}
			total -= c.bytes
		}
	}
	b.metrics.held.Set(float64(held))
	b.metrics.bytes.Set(float64(total))
	b.metrics.segments.Set(float64(count))
	if len(cut) == 0 {
		return total, nil
	}
	resp, err := adm.DeleteRecords(ctx, cut)
	if err != nil {
		return 0, err
	}
	return total, resp.Error()
}

// cutoff is what may go from one partition.
type cutoff struct {
	upTo  int64 // first offset that stays; 0 when nothing goes
	bytes int64 // on disk below upTo
	held  int64 // bytes that would go but for a consumer group
}

// expired decides what goes: whole segments, oldest first, never the newest one (the engine learns the end of the log
// from it), and none with records at or past hold, when hold is not negative.
func expired(segs []segment, lim bounds, hold int64, now time.Time) cutoff {
	var c cutoff
	var total int64
	for _, s := range segs {
		total += s.size
	}
	for i := 0; i+1 < len(segs); i++ {
		old := lim.age >= 0 && now.UnixMilli()-segs[i].mod > lim.age.Milliseconds()
		big := lim.bytes >= 0 && total > lim.bytes
		if !old && !big {
			break
		}
		total -= segs[i].size
		next := segs[i+1].base
		if hold >= 0 && next > hold {
			c.held += segs[i].size
			continue
		}
		c.upTo = next
		c.bytes += segs[i].size
	}
	return c
}

type key struct {
	topic     string
	partition int32
}

// limits returns the retention of each topic: its own, else the broker's.
func (b *Broker) limits(ctx context.Context, adm *kadm.Client, topics []string) (map[string]bounds, error) {
	out := make(map[string]bounds, len(topics))
	if len(topics) == 0 {
		return out, nil
	}
	described, err := adm.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return nil, err
	}
	for _, t := range described {
		lim := bounds{age: -1, bytes: -1}
		if b.cfg.Retention > 0 {
			lim.age = b.cfg.Retention.D()
		}
		if b.cfg.RetentionBytes > 0 {
			lim.bytes = int64(b.cfg.RetentionBytes)
		}
		for _, c := range t.Configs {
			if c.Source != kmsg.ConfigSourceDynamicTopicConfig {
				continue
			}
			n, err := strconv.ParseInt(c.MaybeValue(), 10, 64)
			if err != nil {
				continue
			}
			switch c.Key {
			case "retention.ms":
				lim.age = max(time.Duration(min(n, 1<<43))*time.Millisecond, -1)
			case "retention.bytes":
				lim.bytes = n
			}
		}
		out[t.Name] = lim
	}
	return out, nil
}

// holds returns, per partition, the lowest offset that a group in Hold has committed. A group that has committed
// nothing for a partition holds all of it.
func (b *Broker) holds(ctx context.Context, adm *kadm.Client) (map[key]int64, error) {
	out := make(map[key]int64)
	for topic, groups := range b.cfg.Hold {
		for i, g := range groups {
			offsets, err := adm.FetchOffsets(ctx, g)
			if err != nil && !groupUnknown(err) {
				return nil, err
			}
			seen := make(map[key]int64)
			offsets.Each(func(o kadm.OffsetResponse) {
				if o.Topic == topic && o.Err == nil && o.At >= 0 {
					seen[key{topic, o.Partition}] = o.At
				}
			})
			if i == 0 {
				for k, at := range seen {
					out[k] = at
				}
				continue
			}
			for k, at := range out {
				if got, ok := seen[k]; ok {
					out[k] = min(at, got)
				} else {
					delete(out, k)
				}
			}
		}
	}
	return out, nil
}

func groupUnknown(err error) bool { return errors.Is(err, kerr.GroupIDNotFound) }
