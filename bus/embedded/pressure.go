package embedded

import (
	"sync/atomic"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pressure refuses produce requests while there is no room, with an error that clients retry, so that data stays
// where it is instead of being half written here. The engine's own answer to a full disk is an error that clients do not retry.
type pressure struct {
	b        *Broker
	refusing atomic.Bool
}

// update turns refusal on or off.
func (p *pressure) update(r *running, short bool) {
	if short == p.refusing.Swap(short) {
		return
	}
	if !short {
		p.b.metrics.refusing.Set(0)
		p.b.log.Info("broker has room again, taking records")
		return
	}
	p.b.metrics.refusing.Set(1)
	p.b.log.Error("broker is short of space, refusing records until there is room", "dir", p.b.cfg.Dir)
	// The engine keeps every control function's last request of each connection, so it is there only while needed.
	r.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if !p.refusing.Load() {
			r.cluster.DropControl()
			return nil, nil, false
		}
		r.cluster.KeepControl()
		p.b.metrics.refused.Inc()
		return refusal(req.(*kmsg.ProduceRequest)), nil, true
	})
}

// refusal answers every partition of req with the retriable storage error.
func refusal(req *kmsg.ProduceRequest) *kmsg.ProduceResponse {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition = p.Partition
			rp.ErrorCode = kerr.KafkaStorageError.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// freeBytes returns the space that dir's file system has left for this user.
func freeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// commitRoom is the free space below which offset commits are refused too.
const commitRoom = 1 << 20

// guardCommits refuses offset commits while they could not be written: the engine acknowledges them from memory even
// then, and would have forgotten them after a crash.
func (b *Broker) guardCommits(cluster *kfake.Cluster) {
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if free, err := freeBytes(b.cfg.Dir); err == nil && free >= commitRoom {
			return nil, nil, false
		}
		cluster.KeepControl()
		b.metrics.refused.Inc()
		commit := req.(*kmsg.OffsetCommitRequest)
		resp := commit.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, t := range commit.Topics {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.CoordinatorLoadInProgress.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
}
