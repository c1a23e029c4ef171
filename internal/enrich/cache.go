package enrich

import (
	"github.com/spate-io/spate/internal/enrich/useragent"
)

// generations is a cache in two halves, a young one and an old one. What is found in the old one moves to the young one;
// when that is full, it becomes the old one and what was there is forgotten. So what was not asked for since about half
// the cache was filled anew goes, at the cost of one map.
type generations[K comparable, V any] struct {
	young, old map[K]V
	cost       int // of the young half
	limit      int // of each half
}

func newGenerations[K comparable, V any](limit int) generations[K, V] {
	return generations[K, V]{young: map[K]V{}, limit: limit / 2}
}

// put adds a value that is not in the young half.
func (g *generations[K, V]) put(k K, v V, cost int) {
	if g.cost+cost > g.limit {
		g.old, g.young, g.cost = g.young, make(map[K]V, len(g.young)), 0
	}
	g.young[k] = v
	g.cost += cost
}

// Memory that an entry takes, its map's share included, in bytes; for agents without the text.
const (
	agentCost = 176
	placeCost = 112
)

// agentCache holds what user agents say.
type agentCache struct {
	generations[string, *useragent.Agent]
}

func (c *agentCache) get(ua []byte) (*useragent.Agent, bool) {
	if a, ok := c.young[string(ua)]; ok {
		return a, true
	}
	a, ok := c.old[string(ua)]
	if ok {
		c.put(string(ua), a, len(ua)+agentCost)
	}
	return a, ok
}

// placeCache holds where addresses are, by their 16 bytes; IPv4 addresses as the mapped ones.
type placeCache struct {
	generations[[16]byte, place]
}

func (c *placeCache) get(a [16]byte) (place, bool) {
	if p, ok := c.young[a]; ok {
		return p, true
	}
	p, ok := c.old[a]
	if ok {
		c.put(a, p, placeCost)
	}
	return p, ok
}
