package zone

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// load merges the store's zones in. The configuration wins over the store, except that a zone keeps the time of creation
// that the store has.
func (r *Registry) load(ctx context.Context) error {
	if r.deps.Load == nil {
		return nil
	}
	stored, err := r.deps.Load(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := false
	for i := range stored {
		changed = r.merge(&stored[i]) || changed
	}
	if changed {
		r.rebuild()
	}
	return nil
}

// merge takes one zone of the store in and says whether that changed anything.
func (r *Registry) merge(s *Zone) bool {
	if !ValidID(s.ID) || s.Name == "" {
		return false
	}
	s.Created = s.Created.UTC()
	z := r.byID[s.ID]
	switch {
	case z == nil:
		r.auto++
		r.byID[s.ID] = s
		return true
	case r.configured[s.ID]:
		if s.Created.Equal(z.Created) {
			if equal(z, s) {
				r.settled(z)
			}
			return false
		}
		if s.Created.After(z.Created) { // ours is older: the pending save will correct the store
			return false
		}
		kept := *z
		kept.Created = s.Created
		r.replace(z, &kept)
		if equal(&kept, s) {
			r.settled(&kept)
		}
		return true
	case equal(z, s):
		r.settled(z)
		return false
	case r.pending[z.ID] != nil: // made here and in another process at once: the older time of creation stands
		if s.Created.After(z.Created) {
			return false
		}
		r.settled(z)
		r.byID[s.ID] = s
		return true
	default:
		r.byID[s.ID] = s
		return true
	}
}

func (r *Registry) replace(old, with *Zone) {
	r.byID[with.ID] = with
	if r.pending[with.ID] == old {
		r.pending[with.ID] = with
	}
}

// settled takes a zone that the store has as it is from the list to save.
func (r *Registry) settled(z *Zone) {
	if r.pending[z.ID] == z {
		delete(r.pending, z.ID)
	}
}

func equal(a, b *Zone) bool {
	return a.Name == b.Name && a.Plan == b.Plan && a.Created.Equal(b.Created) && slices.Equal(a.Hosts, b.Hosts)
}

// save writes the zones that the store lacks. They stay pending when that goes wrong.
func (r *Registry) save(ctx context.Context) error {
	r.mu.Lock()
	batch := slices.Collect(maps.Values(r.pending))
	r.mu.Unlock()
	if len(batch) == 0 || r.deps.Save == nil {
		return nil
	}
	out := make([]Zone, len(batch))
	slices.SortFunc(batch, func(a, b *Zone) int { return strings.Compare(a.ID, b.ID) })
	for i, z := range batch {
		out[i] = *z
	}
	if err := r.deps.Save(ctx, out); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, z := range batch {
		r.settled(z)
	}
	return nil
}

// rebuild makes the table of hosts anew: configured zones first, then, when zones may come from traffic, the others from
// the oldest on. The caller holds the lock (or nobody else has r yet).
func (r *Registry) rebuild() {
	zones := make([]*Zone, 0, len(r.byID))
	for id, z := range r.byID {
		if r.cfg.Auto || r.configured[id] {
			zones = append(zones, z)
		}
	}
	slices.SortFunc(zones, func(a, b *Zone) int {
		if ca, cb := r.configured[a.ID], r.configured[b.ID]; ca != cb {
			if ca {
				return -1
			}
			return 1
		}
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	t := newTable(2 * len(zones))
	for _, z := range zones {
		for _, h := range z.Hosts {
			t = t.put(h, z)
		}
	}
	r.hosts.Store(t)
	r.sorted.Store(nil)
	r.m.zones.Set(float64(len(r.byID)))
}
