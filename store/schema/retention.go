package schema

import (
	"context"
	"fmt"

	"github.com/spate-io/spate/internal/config"
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
}

// DefaultRetention keeps requests for 30 days, minutes for 400, hours for five years, days and months for ever.
func DefaultRetention() Retention { return Retention{Raw: 30, Minute: 400, Hour: 5 * 366} }

// Validate adds what is wrong to p.
func (r *Retention) Validate(p *config.Problems) {
	for _, v := range []struct {
		name string
		days int
	}{{"raw_days", r.Raw}, {"minute_days", r.Minute}, {"hour_days", r.Hour}, {"day_days", r.Day}, {"month_days", r.Month}} {
		p.Check(v.days >= 0 && v.days <= 36500, v.name, v.days, "must be 0 (for ever) to 36500")
	}
}

// Apply makes the tables keep rows that long. It changes rules only; the engine drops what is due in the background.
func (r Retention) Apply(ctx context.Context, db store.DB) error {
	set := func(table, column string, days int) error {
		sql := fmt.Sprintf("ALTER TABLE %s REMOVE TTL", table)
		if days > 0 {
			sql = fmt.Sprintf("ALTER TABLE %s MODIFY TTL %s + INTERVAL %d DAY DELETE", table, column, days)
		}
		err := db.Exec(ctx, store.Query{SQL: sql, Settings: map[string]string{"materialize_ttl_after_modify": "0"}, Priority: store.Background})
		if days == 0 && store.IsCode(err, codeNoTTL) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("set retention of %s: %w", table, err)
		}
		return nil
	}
	if err := set(HTTPRequests, "StoredOn", r.Raw); err != nil {
		return err
	}
	for _, t := range []struct {
		table string
		days  int
	}{
		{HTTPMinute, r.Minute}, {HTTPHour, r.Hour}, {HTTPDay, r.Day}, {HTTPMonth, r.Month},
		{ColoMinute, r.Minute}, {ColoHour, r.Hour}, {ColoDay, r.Day}, {ColoMonth, r.Month},
	} {
		if err := set(t.table, "stored_on", t.days); err != nil {
			return err
		}
	}
	return nil
}

// codeNoTTL is what REMOVE TTL answers for a table that has none: BAD_ARGUMENTS.
const codeNoTTL = 36
