package cluster

import (
	"strings"

	"github.com/go-faster/city"
)

// place says where the rows of a table are.
type place struct {
	// column is the zone of a row; empty means that every server has all rows of the table.
	column string
	// passing tables hold no rows: there is one on each server, and nothing is read from it.
	passing bool
}

// placeOf gives the place of one of Spate's tables: what belongs to a zone is on the shard of the zone, so that a view finds
// all it needs there and a zone's question is answered by one shard; all else is small and everywhere.
func placeOf(table string) place {
	table = strings.TrimSuffix(table, localSuffix)
	switch {
	case table == "http_requests":
		return place{column: "ZoneID"}
	case strings.HasPrefix(table, "http_"):
		return place{column: "zone_id", passing: strings.HasSuffix(table, "_flow")}
	}
	return place{}
}

// localSuffix is what the table on one server has behind the name of the one over all servers.
const localSuffix = "_local"

// local gives the name that a table has on each server.
func local(table string) string {
	if placeOf(table).column == "" || strings.HasSuffix(table, localSuffix) {
		return table
	}
	return table + localSuffix
}

// key gives the sharding key of the table over all servers: what [ShardOf] computes.
func (p place) key() string { return "cityHash64(" + p.column + ")" }

// ShardOf gives the shard of a zone, counted from 0, of so many with equal weights: ClickHouse's cityHash64 of the zone's id,
// modulo their number, as a Distributed table has it.
func ShardOf(zone string, shards int) int { return int(city.CH64([]byte(zone)) % uint64(shards)) }
