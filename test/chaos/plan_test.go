package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// fault is one thing that goes wrong: what, where, when after the start, and for how long.
type fault struct {
	at     time.Duration
	kind   string
	target string
	lasts  time.Duration
	by     time.Duration // of kindClock: how far
}

func (f fault) String() string {
	if f.kind == kindClock {
		return fmt.Sprintf("%8.1fs %-14s %-10s for %.1fs, by %s", f.at.Seconds(), f.kind, f.target, f.lasts.Seconds(), f.by)
	}
	return fmt.Sprintf("%8.1fs %-14s %-10s for %.1fs", f.at.Seconds(), f.kind, f.target, f.lasts.Seconds())
}

// Kinds of faults.
const (
	kindKill    = "kill -9"
	kindStop    = "SIGSTOP"
	kindCut     = "cut"     // every connection is cut, and each new one after a moment
	kindDelay   = "delay"   // bytes take their time
	kindHalve   = "halve"   // half of what is under way arrives, then the connection is closed
	kindHole    = "hole"    // connections stay and carry nothing
	kindRefuse  = "refuse"  // the store refuses
	kindSlow    = "slow"    // the store takes seconds
	kindSwallow = "swallow" // the store does what it is told, and its answer never comes
	kindFull    = "full"    // the disk of the spool
	kindAway    = "away"    // a data centre is gone for long
	kindClock   = "clock"   // the clock of a process is set, and later set back
)

// sort is a kind of fault with where it may strike, how often next to others, and how long it lasts.
type sort struct {
	kind     string
	targets  []string
	weight   int
	min, max time.Duration
}

// sorts are all but kindAway, which happens once.
func sorts(fullDisk bool) []sort {
	processes := []string{edge, gateway1, gateway2, broker, loader1, loader2, storeServer, core, up}
	list := []sort{
		{kindKill, processes, 15, 0, 1500 * time.Millisecond},
		{kindStop, processes, 2, time.Second, 10 * time.Second}, // also past load.session_timeout: others take over, then it wakes up
		{kindCut, []string{link1, link2, linkCore}, 1, time.Second, 3 * time.Second},
		{kindDelay, []string{link1, link2, linkCore}, 1, 2 * time.Second, 5 * time.Second},
		{kindHalve, []string{link1, link2, linkCore}, 1, time.Second, 3 * time.Second},
		{kindHole, []string{link1, link2, linkCore}, 1, 2 * time.Second, 8 * time.Second},
		{kindRefuse, []string{linkStore}, 1, time.Second, 3 * time.Second},
		{kindSlow, []string{linkStore}, 1, 2 * time.Second, 5 * time.Second},
		{kindSwallow, []string{linkStore}, 2, time.Second, 3 * time.Second},
		{kindClock, processes, 2, 2 * time.Second, 6 * time.Second},
	}
	if fullDisk {
		list = append(list, sort{kindFull, []string{spoolDisk}, 1, 2 * time.Second, 5 * time.Second})
	}
	return list
}

// plan gives the faults of a run. The same arguments give the same plan.
func plan(seed uint64, length time.Duration, fullDisk bool) []fault {
	rnd := rand.New(rand.NewPCG(seed, 0x5a7e))
	kinds := sorts(fullDisk)
	total := 0
	for _, s := range kinds {
		total += s.weight
	}
	// The second data centre is away from a third of the run on, for a fifth of it.
	away := fault{at: length / 3, kind: kindAway, target: core, lasts: length / 5}
	busy := map[string]time.Duration{}
	list := []fault{}
	const every = 2200 * time.Millisecond // on average
	awayDone := false
	for at := time.Second; at < length; at += every/2 + time.Duration(rnd.Int64N(int64(every))) {
		if !awayDone && at >= away.at {
			list, awayDone = append(list, away), true
			busy[core], busy[linkCore] = away.at+away.lasts+2*time.Second, away.at+away.lasts+2*time.Second
		}
		s := pick(rnd, kinds, total)
		target := s.targets[rnd.IntN(len(s.targets))]
		lasts := s.min + time.Duration(rnd.Int64N(int64(s.max-s.min)))
		if busy[target] > at {
			continue // what is broken is left alone until it had a moment to recover
		}
		busy[target] = at + lasts + 2*time.Second
		f := fault{at: at, kind: s.kind, target: target, lasts: lasts}
		if f.kind == kindClock {
			f.by = []time.Duration{time.Hour, -time.Hour, 40 * time.Second, -40 * time.Second}[rnd.IntN(4)]
		}
		list = append(list, f)
	}
	return list
}

func pick(rnd *rand.Rand, kinds []sort, total int) sort {
	n := rnd.IntN(total)
	for _, s := range kinds {
		if n -= s.weight; n < 0 {
			return s
		}
	}
	return kinds[0]
}
