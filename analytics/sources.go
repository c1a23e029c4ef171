package analytics

import (
	"time"

	"github.com/spate-io/spate/store/schema"
)

// raw is the table with one row per request.
func raw() source {
	return source{table: schema.HTTPRequests, zone: "ZoneID", time: "EdgeStartTimestamp"}
}

// rollup is the coarsest table whose rows fit the points of a window.
func rollup(w Window) source {
	return byDelta(w.Delta, schema.HTTPMinute, schema.HTTPHour, schema.HTTPDay)
}

// coloRollup is the same by data centre.
func coloRollup(w Window) source {
	return byDelta(w.Delta, schema.ColoMinute, schema.ColoHour, schema.ColoDay)
}

func byDelta(delta time.Duration, minute, hour, day string) source {
	table := minute
	switch {
	case delta%(24*time.Hour) == 0:
		table = day
	case delta%time.Hour == 0:
		table = hour
	}
	return source{table: table, zone: schema.ColZoneID, time: schema.ColTime}
}
