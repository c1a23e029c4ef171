// Package embedded is a Kafka broker inside this process: the protocol engine of franz-go's kfake with its data on disk,
// made to keep what it has acknowledged. It is not a cluster and has no authentication; it is there so that one process
// on one machine uses the same client, topics and consumer groups as a fleet on Apache Kafka.
//
// Broker is the part. What kfake does not do by itself is done around it: one process per directory (a lock), repair
// after a crash before the engine opens the files (recover.go), retention by segments (retention.go), and refusal of
// new records while the disk is short (pressure.go), removal of dead members that the engine does not miss (ghosts.go). The invariant: an acknowledged record keeps its offset through any
// end of the process, and offsets of a partition never start again at zero.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/internal/config"
)

// Deps are what the broker needs from its surroundings. All may be zero.
type Deps struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Broker is the embedded broker. Make one with New; Run it once. Methods may be called from any goroutine.
type Broker struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics

	state atomic.Pointer[running]
}

// running is what exists between the start and the end of Run.
type running struct {
	cluster *kfake.Cluster
	addr    string
	client  *kgo.Client // for the broker's own questions about topics and groups
}

var errNotStarted = errors.New("embedded broker has not started")

// New checks cfg and returns a broker that has opened nothing.
func New(cfg Config, deps Deps) (*Broker, error) {
	var p config.Problems
	cfg.Validate(&p)
	if err := p.Err(); err != nil {
		return nil, fmt.Errorf("embedded broker: %w", err)
	}
	log := deps.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Broker{cfg: cfg, log: log, metrics: newMetrics(deps.Registerer)}, nil
}

// Ready returns nil while clients can connect.
func (b *Broker) Ready() error {
	if b.state.Load() == nil {
		return errNotStarted
	}
	return nil
}

// Addr returns host:port for Kafka clients, or "" before Run has opened the data. It stays valid after Run has returned.
func (b *Broker) Addr() string {
	if s := b.state.Load(); s != nil {
		return s.addr
	}
	return ""
}

// Run locks the directory, repairs what a crash left, serves until ctx is cancelled, and closes.
func (b *Broker) Run(ctx context.Context) error {
	if err := os.MkdirAll(b.cfg.Dir, 0o750); err != nil {
		return fmt.Errorf("embedded broker: %w", err)
	}
	unlock, err := lockDir(b.cfg.Dir)
	if err != nil {
		return fmt.Errorf("embedded broker: %w", err)
	}
	defer unlock()
	marker := filepath.Join(b.cfg.Dir, openMarker)
	if err := recoverDir(b.cfg.Dir, exists(marker), b.log); err != nil {
		return fmt.Errorf("embedded broker: recover %s: %w", b.cfg.Dir, err)
	}
	if err := writeSynced(marker, []byte("open\n")); err != nil {
		return fmt.Errorf("embedded broker: %w", err)
	}
	cluster, addr, err := b.open()
	if err != nil {
		return fmt.Errorf("embedded broker: %w", err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ClientID("spate-broker"), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		cluster.Close()
		return fmt.Errorf("embedded broker: %w", err)
	}
	b.guardDeletes(cluster)
	b.guardCommits(cluster)
	dead := &ghosts{b: b}
	dead.watch(cluster)
	r := &running{cluster: cluster, addr: addr, client: client}
	b.state.Store(r)
	b.log.Info("embedded broker is up", "addr", addr, "dir", b.cfg.Dir, "sync", b.cfg.Sync)

	var wg sync.WaitGroup
	wg.Go(func() { dead.run(ctx, r) })
	b.maintain(ctx, r)
	wg.Wait()

	client.Close()
	cluster.Close()
	if err := os.Remove(marker); err != nil {
		return fmt.Errorf("embedded broker: %w", err)
	}
	return nil
}

// open starts the protocol engine on the data directory.
func (b *Broker) open() (*kfake.Cluster, string, error) {
	host, portText, err := net.SplitHostPort(b.cfg.Listen)
	if err != nil {
		return nil, "", err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, "", fmt.Errorf("port %q: %w", portText, err)
	}
	opts := []kfake.Opt{
		kfake.Ports(port),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			_, p, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return new(net.ListenConfig).Listen(context.Background(), network, net.JoinHostPort(host, p))
		}),
		kfake.ClusterID("spate-embedded"),
		kfake.DataDir(b.cfg.Dir),
		kfake.WithLogger(engineLog{b.log}),
		kfake.BrokerConfigs(map[string]string{
			// The engine's own retention may empty a partition, after which its offsets would start again at zero
			// on the next open. retention.go does that work instead; this switches the engine's timer off.
			"log.cleaner.backoff.ms":    "3000000000000",
			"log.segment.bytes":         strconv.FormatInt(int64(b.cfg.SegmentSize), 10),
			"log.message.max.bytes":     strconv.FormatInt(int64(maxMessage), 10),
			"offsets.retention.minutes": strconv.Itoa(10 * 365 * 24 * 60),
		}),
	}
	if b.cfg.Sync {
		opts = append(opts, kfake.SyncWrites())
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return nil, "", err
	}
	return cluster, cluster.ListenAddrs()[0], nil
}

// maxMessage is the largest record batch a topic takes that does not say otherwise.
const maxMessage = 64 << 20

// engineLog passes the engine's warnings on; its chatter stays out.
type engineLog struct{ log *slog.Logger }

// Logf implements kfake.Logger.
func (l engineLog) Logf(level kfake.LogLevel, msg string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		l.log.Error("broker engine", "detail", fmt.Sprintf(msg, args...))
	case kfake.LogLevelWarn:
		l.log.Warn("broker engine", "detail", fmt.Sprintf(msg, args...))
	}
}
