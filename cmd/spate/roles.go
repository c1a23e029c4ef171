package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/spate-io/spate/internal/lifecycle"
)

// partName names a part that a role is made of.
type partName string

const (
	partHTTP      partName = "http"
	partStore     partName = "store"
	partServe     partName = "serve"
	partBroker    partName = "broker"
	partZones     partName = "zones"
	partBus       partName = "bus"
	partLedger    partName = "ledger"
	partLoader    partName = "load"
	partLag       partName = "lag"
	partTops      partName = "tops"
	partGateway   partName = "gateway"
	partForwarder partName = "forward"
	partProducer  partName = "producer"
	partInputs    partName = "inputs"
	partDemo      partName = "demo"
)

// role is a row of the role table: which parts a subcommand runs, in start order.
type role struct {
	name, short, long string
	parts             []partName
}

// roles is the role table. `up` is a row like the others: same parts, same code.
var roles = []role{
	{
		name: "up", short: "Run every role in this process",
		long: `Run every role in one process: the edge's forwarder, the gateway, the bus, the loader, the store, the API and the
dashboard. Ctrl-C drains and stops; a second one stops at once.`,
		parts: []partName{partHTTP, partStore, partServe, partBroker, partZones, partBus, partLedger, partLoader, partLag, partTops, partGateway, partForwarder, partProducer, partInputs},
	},
	{
		name: "core", short: "Run everything but the edge: gateway, bus, loader, store and API",
		parts: []partName{partHTTP, partStore, partServe, partBroker, partZones, partBus, partLedger, partLoader, partLag, partTops, partGateway},
	},
	{
		name: "forward", short: "Run the edge: take events from web servers on this machine and ship them to the gateways",
		parts: []partName{partHTTP, partForwarder, partProducer, partInputs},
	},
	{
		name: "gateway", short: "Run a gateway: take batches from edges and put them on the bus",
		parts: []partName{partHTTP, partBus, partGateway},
	},
	{
		name: "load", short: "Run a loader: take batches from the bus into the store",
		parts: []partName{partHTTP, partStore, partZones, partLedger, partLoader, partLag, partTops},
	},
	{
		name: "api", short: "Run the API and the dashboard",
		parts: []partName{partHTTP, partStore, partZones, partLag},
	},
	{
		name: "broker", short: "Run the embedded broker alone, for roles in other processes on this machine",
		parts: []partName{partHTTP, partBroker},
	},
}

// group builds the parts of a role over one configuration. It starts nothing.
func (b *builder) group(r role, demo bool) (*lifecycle.Group, error) {
	names := r.parts
	if demo {
		names = append(names[:len(names):len(names)], partDemo)
	}
	var parts []lifecycle.Named
	for _, name := range names {
		p, err := b.part(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if p != nil {
			parts = append(parts, lifecycle.Named{Name: string(name), Part: p})
		}
	}
	b.grp = lifecycle.New(b.log, lifecycle.Options{}, parts...)
	return b.grp, nil
}

// newRoleCommand makes the subcommand of a role.
func newRoleCommand(r role) func(*globalOptions) *cobra.Command {
	return func(opts *globalOptions) *cobra.Command {
		var demo, check bool
		cmd := &cobra.Command{
			Use: r.name, Short: r.short, Long: r.long, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				cfg, err := opts.load()
				if err != nil {
					return err
				}
				if r.name == serveRole.name && cfg.Store.Serve.Listen == "" {
					cfg.Store.Serve.Listen = defaultServe
				}
				b := newBuilder(cfg, cfg.Log.logger(cmd.ErrOrStderr()))
				group, err := b.group(r, demo)
				if err != nil || check {
					return err
				}
				return b.run(cmd.Context(), group, cmd.OutOrStdout())
			},
		}
		cmd.Flags().BoolVar(&check, "check", false, "build everything that the configuration asks for, start nothing, and say what is wrong")
		if r.name == "up" {
			cmd.Flags().BoolVar(&demo, "demo", false, "also run an nginx with a small site, so that there is something to see")
		}
		return cmd
	}
}

// run runs the group until ctx is cancelled or a part fails. A second signal ends the draining.
func (b *builder) run(ctx context.Context, group *lifecycle.Group, out io.Writer) error {
	if err := makeDir(b.cfg.DataDir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(b.cfg.Edge.Socket.Socket), 0o755); err != nil {
		return fmt.Errorf("make directory of the socket: %w", err)
	}
	if err := b.prepare(); err != nil {
		return err
	}
	abort := make(chan struct{})
	stopWatching := context.AfterFunc(ctx, func() { waitForSecondSignal(); close(abort) })
	defer stopWatching()
	err := group.Run(ctx, abort, func() { b.announce(out) })
	if errors.Is(err, lifecycle.ErrAborted) {
		b.log.Warn("stopped before everything was drained; the next start goes on from what is on disk")
		return nil
	}
	return err
}

// waitForSecondSignal returns when a person asks again. Terminals and supervisors may deliver one request twice, to the
// process and to its group, so what comes within half a second is the same request.
func waitForSecondSignal() {
	again := make(chan os.Signal, 1)
	first := time.Now()
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	for range again {
		if time.Since(first) > 500*time.Millisecond {
			return
		}
	}
}

// announce prints what a person wants to know when everything runs.
func (b *builder) announce(out io.Writer) {
	if b.server != nil && b.api != nil {
		fmt.Fprintf(out, "dashboard   http://%s/\n", b.server.Addr())
	}
	if b.demo != nil {
		fmt.Fprintf(out, "demo site   %s\n", b.demo.URL())
	}
	fmt.Fprintf(out, "data        %s\n", b.cfg.DataDir)
	b.log.Info("ready", "http", b.server.Addr(), "data_dir", b.cfg.DataDir)
}

// newRegistry returns the registry that all parts of a process share.
func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// component returns a logger that says which part speaks.
func (b *builder) component(name partName) *slog.Logger { return b.log.With("part", string(name)) }

// serveInProcess gives the gateway's end of an in-process connection.
func (b *builder) serveInProcess(c net.Conn) {
	defer c.Close()
	if err := b.gateway.ServeConn(context.Background(), c, b.cfg.Edge.Forward.Edge); err != nil {
		b.component(partGateway).Debug("in-process connection ended", "err", err)
	}
}
