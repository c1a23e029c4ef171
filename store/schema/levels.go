package schema

import "time"

// Level says how a rollup can be counted against the table that it is fed from.
type Level struct {
	Table, From string
	// Day is the day, or month, of a row of Table; FromDay that of a row of From; FromCount the requests of a group of its rows.
	Day, FromDay, FromCount string
	// Since is from when on nothing of From can have expired: what is older may be in Table alone.
	Since time.Time
}

// Levels gives the rollups with what they are fed from, given how long rows are kept.
func Levels(r Retention) []Level {
	today := time.Now().UTC().Truncate(24 * time.Hour)
	since := func(table string) time.Time {
		days := r.shortest(table)
		if days == 0 {
			return time.Unix(0, 0).UTC()
		}
		return today.AddDate(0, 0, 2-days)
	}
	var list []Level
	for _, t := range rollups() {
		l := Level{Table: t.table, From: t.from, Day: "toDate(time)", FromDay: "toDate(time)", FromCount: "sum(requests)"}
		if t.from == HTTPFlow { // which keeps nothing
			l.From, l.FromDay, l.FromCount = HTTPRequests, "toDate(EdgeStartTimestamp)", "count()"
		}
		if t.table == HTTPMonth || t.table == ColoMonth {
			l.FromDay = "toStartOfMonth(time)"
		}
		l.Since = since(l.From)
		list = append(list, l)
	}
	return list
}

// Latest gives the version of the tables that this program makes.
func Latest() (uint32, error) {
	list, err := migrations()
	return uint32(len(list)), err
}
