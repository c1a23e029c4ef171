package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/spate-io/spate/bus"
	busembedded "github.com/spate-io/spate/bus/embedded"
	"github.com/spate-io/spate/store/maintain"
)

// busTimeout bounds questions to the bus while inserts are held.
const busTimeout = 5 * time.Second

// busPositions reads where the loader stands on the bus.
func busPositions(ctx context.Context, cfg *Config, deps bus.Deps) (*maintain.Positions, error) {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	cl, err := bus.NewClient(cfg.Bus, deps)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	p := &maintain.Positions{Group: cfg.Load.Group, Topic: cfg.Bus.RequestsTopic(), At: map[int32]maintain.Committed{}}
	if p.TopicID, err = topicID(ctx, adm, p.Topic); err != nil {
		return nil, err
	}
	offsets, err := adm.FetchOffsetsForTopics(ctx, p.Group, p.Topic)
	if err != nil {
		return nil, err
	}
	for _, o := range offsets.Sorted() {
		if o.Err != nil {
			return nil, fmt.Errorf("partition %d: %w", o.Partition, o.Err)
		}
		if o.At >= 0 { // -1: nothing was ever committed
			p.At[o.Partition] = maintain.Committed{Offset: o.At, Metadata: o.Metadata}
		}
	}
	return p, nil
}

func topicID(ctx context.Context, adm *kadm.Client, topic string) (string, error) {
	details, err := adm.ListTopics(ctx, topic)
	if err != nil {
		return "", err
	}
	d, ok := details[topic]
	if !ok || d.Err != nil {
		return "", errors.Join(fmt.Errorf("topic %s is not there", topic), d.Err)
	}
	return hex.EncodeToString(d.ID[:]), nil
}

// rewindBus tells the bus that the loader stands where it stood when the backup was taken, so that it loads what came
// since. It says on out what that means.
func rewindBus(ctx context.Context, cfg *Config, p *maintain.Positions, out io.Writer) error {
	if p == nil {
		fmt.Fprintln(out, "bus         the backup does not say where the loader stood: what was stored after it is not loaded again")
		return nil
	}
	deps := bus.Deps{}
	if cfg.Bus.Address == bus.Embedded {
		if _, err := os.Stat(cfg.Bus.Embedded.Dir); errors.Is(err, os.ErrNotExist) {
			fmt.Fprintln(out, "bus         there is none yet: what was stored after the backup is not on this machine")
			return nil
		}
		addr, stop, err := openBroker(ctx, cfg)
		if err != nil {
			return err
		}
		defer stop()
		deps.Embedded = addr
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cl, err := bus.NewClient(cfg.Bus, deps)
	if err != nil {
		return fmt.Errorf("reach the bus: %w", err)
	}
	defer cl.Close()
	return rewind(ctx, kadm.NewClient(cl), p, out)
}

// openBroker opens the embedded broker in this process; where another process has it open, that one is used.
func openBroker(ctx context.Context, cfg *Config) (addr func() string, stop func(), err error) {
	broker, err := busembedded.New(cfg.Bus.Embedded, busembedded.Deps{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- broker.Run(ctx) }()
	for broker.Ready() != nil {
		select {
		case err := <-done:
			cancel()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, func() {}, nil
			}
			return nil, nil, fmt.Errorf("open the bus: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return broker.Addr, func() {
		cancel()
		<-done
	}, nil
}

// rewind commits the positions of a backup.
func rewind(ctx context.Context, adm *kadm.Client, p *maintain.Positions, out io.Writer) error {
	id, err := topicID(ctx, adm, p.Topic)
	if err != nil || id != p.TopicID {
		fmt.Fprintln(out, "bus         it is not the one that the backup was taken beside: the loader takes what is on it")
		return nil
	}
	starts, err := adm.ListStartOffsets(ctx, p.Topic)
	if err != nil {
		return fmt.Errorf("read the bus: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, p.Topic)
	if err != nil {
		return fmt.Errorf("read the bus: %w", err)
	}
	offsets := kadm.Offsets{}
	var again, gone int64
	ends.Each(func(end kadm.ListedOffset) {
		start, _ := starts.Lookup(p.Topic, end.Partition)
		at, ok := p.At[end.Partition]
		if !ok { // nothing of it was stored
			at.Offset = start.Offset
		}
		if start.Offset > at.Offset {
			gone += start.Offset - at.Offset
		}
		again += max(end.Offset-max(at.Offset, start.Offset), 0)
		offsets.Add(kadm.Offset{Topic: p.Topic, Partition: end.Partition, At: at.Offset, LeaderEpoch: -1, Metadata: at.Metadata})
	})
	if err := adm.CommitAllOffsets(ctx, p.Group, offsets); err != nil {
		return fmt.Errorf("tell the bus where to go on (stop all loaders first): %w", err)
	}
	fmt.Fprintf(out, "bus         the loader goes on where it stood when the backup was taken: %d records to load again\n", again)
	if gone > 0 {
		fmt.Fprintf(out, "warning     %d records that the backup does not have are no longer on the bus: they are lost\n", gone)
	}
	return nil
}
