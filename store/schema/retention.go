package schema

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store"
)

// Retention says how many days rows are kept after they were stored; 0 keeps them for ever. It counts from storing, not
// from the event, so that an imported log of years ago is not gone at once.
type Retention struct {
	// Raw is for single requests.
	Raw int `yaml:"raw_days"`
	// Minute, Hour, Day and Month are for the rollups.
	Minute int `yaml:"minute_days"`
	Hour   int `yaml:"hour_days"`
	Day    int `yaml:"day_days"`
	Month  int `yaml:"month_days"`
	// TopHour and TopDay are for the lists of the most frequent values.
	TopHour int `yaml:"top_hour_days"`
	TopDay  int `yaml:"top_day_days"`
	// Rules say otherwise for some zones. Of several that fit a zone, one that names it counts before one that names its
	// plan, and the first of a kind before others.
	Rules []RetentionRule `yaml:"rules"`
}

// RetentionRule is how long rows of some zones are kept; 0 days means as for all others.
type RetentionRule struct {
	// Plan is the plan of the zones, Zones their ids or names: one of the two.
	Plan  string   `yaml:"plan"`
	Zones []string `yaml:"zones"`

	Raw    int `yaml:"raw_days"`
	Minute int `yaml:"minute_days"`
	Hour   int `yaml:"hour_days"`
	Day    int `yaml:"day_days"`
	Month  int `yaml:"month_days"`
	// TopHour and TopDay are for the lists of the most frequent values.
	TopHour int `yaml:"top_hour_days"`
	TopDay  int `yaml:"top_day_days"`
}

// forEver is how many days the engine is told where some zones are kept for ever and others are not.
const forEver = 36500

// DefaultRetention keeps requests for 30 days, minutes for 400, hours for five years, days and months for ever; top lists
// of hours for 400 days, those of days for five years.
func DefaultRetention() Retention {
	return Retention{Raw: 30, Minute: 400, Hour: 5 * 366, TopHour: 400, TopDay: 5 * 366}
}

// Validate adds what is wrong to p.
func (r *Retention) Validate(p *config.Problems) {
	for _, v := range []struct {
		name string
		days int
	}{{"raw_days", r.Raw}, {"minute_days", r.Minute}, {"hour_days", r.Hour}, {"day_days", r.Day}, {"month_days", r.Month},
		{"top_hour_days", r.TopHour}, {"top_day_days", r.TopDay},
	} {
		p.Check(v.days >= 0 && v.days <= forEver, v.name, v.days, "must be 0 (for ever) to 36500")
	}
	for i := range r.Rules {
		p.Under(fmt.Sprintf("rules[%d]", i), r.Rules[i].validate)
	}
}

func (r *RetentionRule) validate(p *config.Problems) {
	p.Check((r.Plan == "") != (len(r.Zones) == 0), "plan", r.Plan, "must be given, or zones, not both")
	for i, z := range r.Zones {
		p.Check(z != "", fmt.Sprintf("zones[%d]", i), z, "must be an id or a name")
	}
	some := false
	for _, v := range []struct {
		name string
		days int
	}{{"raw_days", r.Raw}, {"minute_days", r.Minute}, {"hour_days", r.Hour}, {"day_days", r.Day}, {"month_days", r.Month},
		{"top_hour_days", r.TopHour}, {"top_day_days", r.TopDay},
	} {
		p.Check(v.days >= 0 && v.days <= forEver, v.name, v.days, "must be 0 (as for others) to 36500 (for ever)")
		some = some || v.days > 0
	}
	p.Check(some, "raw_days", r.Raw, "must be set, or another of the days")
}

// kept says how long a table keeps rows.
type kept struct {
	table, zone, stored string
	days                int
	rule                func(*RetentionRule) int
}

func (r Retention) tables() []kept {
	list := []kept{{HTTPRequests, "ZoneID", "StoredOn", r.Raw, func(x *RetentionRule) int { return x.Raw }}}
	minute, hour := func(x *RetentionRule) int { return x.Minute }, func(x *RetentionRule) int { return x.Hour }
	day, month := func(x *RetentionRule) int { return x.Day }, func(x *RetentionRule) int { return x.Month }
	for _, t := range rollups() {
		k := kept{t.table, "zone_id", "stored_on", 0, nil}
		switch t.table {
		case HTTPMinute, ColoMinute:
			k.days, k.rule = r.Minute, minute
		case HTTPHour, ColoHour:
			k.days, k.rule = r.Hour, hour
		case HTTPDay, ColoDay:
			k.days, k.rule = r.Day, day
		default:
			k.days, k.rule = r.Month, month
		}
		list = append(list, k)
	}
	return append(list,
		kept{TopHour, "zone_id", "stored_on", r.TopHour, func(x *RetentionRule) int { return x.TopHour }},
		kept{TopDay, "zone_id", "stored_on", r.TopDay, func(x *RetentionRule) int { return x.TopDay }},
	)
}

// shortest gives the least number of days that rows of a table are kept, of any zone; 0 for ever.
func (r Retention) shortest(table string) int {
	for _, k := range r.tables() {
		if k.table != table {
			continue
		}
		least := k.days
		for i := range r.Rules {
			if d := k.rule(&r.Rules[i]); d > 0 && (least == 0 || d < least) {
				least = d
			}
		}
		return least
	}
	return 0
}

// Apply makes the tables keep rows that long. It changes rules only, and what parts say of when they are due; nothing is
// written anew at once. The engine drops what is due in the background. With rules for some zones, a part has rows that
// are due at different times and is written anew when some are; without, parts are dropped as a whole.
//
// Zones are those that the store knows now: call Apply again when there are others.
func (r Retention) Apply(ctx context.Context, db store.DB) error {
	zones, err := r.zones(ctx, db)
	if err != nil {
		return err
	}
	for _, k := range r.tables() {
		if err := r.apply(ctx, db, k, zones); err != nil {
			return fmt.Errorf("set retention of %s: %w", k.table, err)
		}
	}
	return nil
}

// zones gives the ids of the zones that each rule is for.
func (r Retention) zones(ctx context.Context, db store.DB) ([][]string, error) {
	list := make([][]string, len(r.Rules))
	if len(r.Rules) == 0 {
		return list, nil
	}
	taken := map[string]bool{}
	take := func(i int, id string) {
		if !taken[id] {
			taken[id] = true
			list[i] = append(list[i], id)
		}
	}
	var id, name, plan proto.ColStr
	type known struct{ id, name, plan string }
	var all []known
	_, err := db.Select(ctx, store.Query{SQL: "SELECT id, name, plan FROM " + Zones + " FINAL ORDER BY id"},
		proto.Results{{Name: "id", Data: &id}, {Name: "name", Data: &name}, {Name: "plan", Data: &plan}},
		func(_ context.Context, rows int) error {
			for i := range rows {
				all = append(all, known{id.Row(i), name.Row(i), plan.Row(i)})
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read zones: %w", err)
	}
	for i := range r.Rules {
		for _, z := range r.Rules[i].Zones {
			if zone.ValidID(z) {
				take(i, z)
			}
			for _, k := range all {
				if k.name == z {
					take(i, k.id)
				}
			}
		}
	}
	for i := range r.Rules {
		for _, k := range all {
			if r.Rules[i].Plan != "" && r.Rules[i].Plan == k.plan {
				take(i, k.id)
			}
		}
	}
	return list, nil
}

// expression gives the number of days as SQL; some says whether it is not the same for all zones.
func (r Retention) expression(k kept, zones [][]string) (days string, some bool) {
	general := k.days
	if general == 0 {
		general = forEver
	}
	byDays := map[int][]string{}
	for i := range r.Rules {
		if d := k.rule(&r.Rules[i]); d > 0 && d != general && len(zones[i]) > 0 {
			byDays[d] = append(byDays[d], zones[i]...)
		}
	}
	if len(byDays) == 0 {
		return strconv.Itoa(general), false
	}
	var b strings.Builder
	b.WriteString("multiIf(")
	list := make([]int, 0, len(byDays))
	for d := range byDays {
		list = append(list, d)
	}
	slices.Sort(list)
	for _, d := range list {
		ids := byDays[d]
		slices.Sort(ids)
		for i := range ids {
			ids[i] = store.Quote(ids[i])
		}
		fmt.Fprintf(&b, "%s IN (%s), %d, ", k.zone, strings.Join(ids, ", "), d)
	}
	fmt.Fprintf(&b, "%d)", general)
	return b.String(), true
}

func (r Retention) apply(ctx context.Context, db store.DB, k kept, zones [][]string) error {
	exec := func(sql string) error {
		return db.Exec(ctx, store.Query{SQL: sql, Settings: map[string]string{"materialize_ttl_after_modify": "0"}, Priority: store.Background})
	}
	before, err := definition(ctx, db, k.table)
	if err != nil {
		return err
	}
	days, some := r.expression(k, zones)
	ttl := k.stored + " + toIntervalDay(" + days + ")" // as the engine writes it
	whole := 1
	if some {
		whole = 0
	}
	sql := fmt.Sprintf("ALTER TABLE %s MODIFY TTL %s", k.table, ttl)
	if k.days == 0 && !some {
		sql = fmt.Sprintf("ALTER TABLE %s REMOVE TTL", k.table)
	}
	if (k.days > 0 || some) && rules(before) != ttl || k.days == 0 && !some && rules(before) != "" {
		if err := exec(sql); err != nil && !(k.days == 0 && store.IsCode(err, codeNoTTL)) {
			return err
		}
	}
	if want := fmt.Sprintf("ttl_only_drop_parts = %d", whole); !strings.Contains(before, want) || !strings.Contains(before, "materialize_ttl_recalculate_only = 1") {
		if err := exec(fmt.Sprintf("ALTER TABLE %s MODIFY SETTING %s, materialize_ttl_recalculate_only = 1", k.table, want)); err != nil {
			return err
		}
	}
	after, err := definition(ctx, db, k.table)
	if err != nil || rules(before) == rules(after) || rules(after) == "" {
		return err
	}
	// Parts that are there say when they are due by the rules they were written under.
	return exec(fmt.Sprintf("ALTER TABLE %s MATERIALIZE TTL", k.table))
}

// definition gives the statement that made a table as it is now; in a cluster that of the table on one server.
func definition(ctx context.Context, db store.DB, table string) (string, error) {
	var text proto.ColStr
	var sql string
	_, err := db.Select(ctx, store.Query{SQL: "SELECT create_table_query AS q FROM system.tables WHERE database = currentDatabase() AND name IN ({table:String}, {local:String}) ORDER BY name DESC LIMIT 1", Params: map[string]string{"table": table, "local": table + "_local"}},
		proto.Results{{Name: "q", Data: &text}}, func(context.Context, int) error {
			sql = text.Row(0)
			return nil
		})
	return sql, err
}

// rules gives the part of a definition that says how long rows are kept.
func rules(definition string) string {
	_, ttl, _ := strings.Cut(definition, " TTL ")
	ttl, _, _ = strings.Cut(ttl, " SETTINGS ")
	return ttl
}

// codeNoTTL is what REMOVE TTL answers for a table that has none: BAD_ARGUMENTS.
const codeNoTTL = 36
