package embedded

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestBroker_RemovesMemberThatDiedWhileItJoined kills a consumer while it waits for the answer to its join. The group gives
// it partitions; the one that is left must get them back.
func TestBroker_RemovesMemberThatDiedWhileItJoined(t *testing.T) {
	t.Parallel()
	p := newProcess(t)
	p.start()
	createTopic(t, p.client(), "shared", 4, nil)

	owned := make(chan int, 100)
	var mine []int32
	first := p.client(
		kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("shared"), kgo.Balancers(kgo.RoundRobinBalancer()),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(time.Second),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			mine = append(mine, got["shared"]...)
			owned <- len(mine)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			mine = slices.DeleteFunc(mine, func(n int32) bool { return slices.Contains(lost["shared"], n) })
		}),
	)
	go func() {
		for t.Context().Err() == nil && !first.PollFetches(t.Context()).IsClientClosed() {
		}
	}()
	expect := func(n int) {
		t.Helper()
		deadline := time.After(30 * time.Second)
		for last := -1; last != n; {
			select {
			case last = <-owned:
			case <-deadline:
				t.Fatalf("the first member owned %d partitions last, want %d", last, n)
			}
		}
	}
	expect(4)
	joinAndDie(t, p.client(), "readers", "shared")
	expect(2)
	expect(4)
}

// joinAndDie sends the join of a new member and closes the connection without reading the answer.
func joinAndDie(t *testing.T, cl *kgo.Client, group, topic string) {
	t.Helper()
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{topic}
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = "roundrobin", meta.AppendTo(nil)
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = group, "consumer", 6000, 10_000
	req.Protocols = append(req.Protocols, protocol)
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); !errors.Is(err, kerr.MemberIDRequired) {
		t.Fatalf("first join: %v", err)
	}
	req.MemberID = resp.MemberID
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := req.RequestWith(ctx, cl); err == nil {
		t.Fatal("the join was answered before its member died")
	}
	cl.Close()
}
