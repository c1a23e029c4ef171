package embedded

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ghosts removes members that are dead and that the engine does not miss. It counts a member's session from the answers
// that it could deliver; one that was killed while it waited for the answer to its join has none to run out, and would keep
// the partitions it was given for ever.
type ghosts struct {
	b *Broker

	mu      sync.Mutex
	members map[string]*sign // by group and member id
	looked  time.Time
}

// sign is what was heard of a member.
type sign struct {
	group, id string
	last      time.Time
	session   time.Duration
}

// ghostsEvery is how often members are looked at; groupStable is the engine's word for a group whose members have nothing
// to wait for, and must send heartbeats.
const (
	ghostsEvery = time.Second
	groupStable = "Stable"
)

// watch notes what members send. The engine answers as before.
func (g *ghosts) watch(cluster *kfake.Cluster) {
	g.members = make(map[string]*sign)
	note := func(key kmsg.Key, read func(kmsg.Request) (group, id string, session time.Duration)) {
		cluster.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			g.heard(read(req))
			return nil, nil, false
		})
	}
	note(kmsg.JoinGroup, func(req kmsg.Request) (string, string, time.Duration) {
		r := req.(*kmsg.JoinGroupRequest)
		return r.Group, r.MemberID, time.Duration(r.SessionTimeoutMillis) * time.Millisecond
	})
	note(kmsg.SyncGroup, func(req kmsg.Request) (string, string, time.Duration) {
		r := req.(*kmsg.SyncGroupRequest)
		return r.Group, r.MemberID, 0
	})
	note(kmsg.Heartbeat, func(req kmsg.Request) (string, string, time.Duration) {
		r := req.(*kmsg.HeartbeatRequest)
		return r.Group, r.MemberID, 0
	})
	note(kmsg.OffsetCommit, func(req kmsg.Request) (string, string, time.Duration) {
		r := req.(*kmsg.OffsetCommitRequest)
		return r.Group, r.MemberID, 0
	})
}

// heard notes a sign of life. Only a join, which names the session's length, makes a member known.
func (g *ghosts) heard(group, id string, session time.Duration) {
	if id == "" {
		return // has no name yet, and will join again with one
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.members[group+"\x00"+id]
	if s == nil && session > 0 {
		s = &sign{group: group, id: id}
		g.members[group+"\x00"+id] = s
	}
	if s == nil {
		return
	}
	s.last = time.Now()
	if session > 0 {
		s.session = session
	}
}

// run looks after members until ctx is done.
func (g *ghosts) run(ctx context.Context, r *running) {
	tick := time.NewTicker(ghostsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, s := range g.silent(r.cluster, now) {
				if err := g.remove(ctx, r, s); err != nil && ctx.Err() == nil {
					g.b.log.Warn("member that is silent cannot be removed", "group", s.group, "member", s.id, "err", err)
				}
			}
		}
	}
}

// silent gives the members of stable groups that were not heard for longer than their session, and forgets those that are
// no members any more.
func (g *ghosts) silent(cluster *kfake.Cluster, now time.Time) []sign {
	g.mu.Lock()
	groups := make(map[string]bool)
	for _, s := range g.members {
		groups[s.group] = true
	}
	g.mu.Unlock()
	stable := make(map[string]bool)
	member := make(map[string]bool)
	for name := range groups {
		info := cluster.GroupInfo(name)
		if info == nil {
			continue
		}
		stable[name] = info.State == groupStable
		for i := range info.Members {
			member[name+"\x00"+info.Members[i].MemberID] = true
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// After a pause of this process, what members have sent meanwhile has yet to be read.
	paused := now.Sub(g.looked) > 3*ghostsEvery
	g.looked = now
	var list []sign
	for key, s := range g.members {
		switch {
		case !member[key]:
			if now.Sub(s.last) > s.session {
				delete(g.members, key)
			}
		case paused, !stable[s.group]:
			s.last = now // it may wait for others, and sends nothing while it does
		case now.Sub(s.last) > s.session+2*ghostsEvery:
			list = append(list, *s)
		}
	}
	return list
}

// remove leaves the group in the member's name, which makes the others share its partitions.
func (g *ghosts) remove(ctx context.Context, r *running, s sign) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = s.group, s.id
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = s.id
	req.Members = append(req.Members, m)
	if _, err := req.RequestWith(ctx, r.client); err != nil {
		return fmt.Errorf("leave group: %w", err)
	}
	g.b.log.Info("removed a member that died while it joined", "group", s.group, "member", s.id, "silent", time.Since(s.last).Round(time.Second))
	return nil
}
