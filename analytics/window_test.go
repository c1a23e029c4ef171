package analytics

import (
	"errors"
	"testing"
	"time"
)

func at(t testing.TB, s string) time.Time {
	t.Helper()
	tm, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

func TestRange_Resolve(t *testing.T) {
	const now = "2024-03-01T10:07:40Z" // the day after a leap day
	for _, c := range []struct {
		name         string
		r            Range
		since, until string
		minutes      int
	}{
		{"defaults", Range{}, "2024-02-23T00:00:00Z", "2024-03-02T00:00:00Z", 1440},
		{"last_59_minutes", Range{Since: "-59"}, "2024-03-01T09:08:00Z", "2024-03-01T10:08:00Z", 1},
		{"last_60_minutes", Range{Since: "-60", Until: "0"}, "2024-03-01T09:00:00Z", "2024-03-01T10:15:00Z", 15},
		{"below_7_hours", Range{Since: "-419"}, "2024-03-01T03:00:00Z", "2024-03-01T10:15:00Z", 15},
		{"7_hours", Range{Since: "-420"}, "2024-03-01T03:00:00Z", "2024-03-01T10:30:00Z", 30},
		{"below_15_hours", Range{Since: "-899"}, "2024-02-29T19:00:00Z", "2024-03-01T10:30:00Z", 30},
		{"15_hours", Range{Since: "-900"}, "2024-02-29T19:00:00Z", "2024-03-01T11:00:00Z", 60},
		{"72_hours", Range{Since: "-4320"}, "2024-02-27T10:00:00Z", "2024-03-01T11:00:00Z", 60},
		{"above_72_hours", Range{Since: "-4321"}, "2024-02-27T00:00:00Z", "2024-03-02T00:00:00Z", 1440},
		{"year", Range{Since: "-525600"}, "2023-03-02T00:00:00Z", "2024-03-02T00:00:00Z", 1440},
		{"exporter", Range{Since: "-35", Until: "-5"}, "2024-03-01T09:32:00Z", "2024-03-01T10:03:00Z", 1},
		{"two_minutes_long_ago", Range{Since: "2023-09-08T20:00:00Z", Until: "2023-09-08T20:02:00Z"}, "2023-09-08T20:00:00Z", "2023-09-08T20:02:00Z", 1},
		{"years_ago", Range{Since: "2015-05-17T10:05:00Z", Until: "2015-05-17T10:06:00Z", Continuous: true}, "2015-05-17T10:05:00Z", "2015-05-17T10:06:00Z", 1},
		{"other_offset", Range{Since: "2024-02-29T00:30:00+01:00", Until: "2024-02-29T00:40:30+01:00"}, "2024-02-28T23:30:00Z", "2024-02-28T23:41:00Z", 1},
		{"future_until_is_now", Range{Since: "2024-03-01T10:00:00Z", Until: "2024-03-01T10:55:00Z"}, "2024-03-01T10:00:00Z", "2024-03-01T10:08:00Z", 1},
		{"delta_asked", Range{Since: "-1440", Delta: 15}, "2024-02-29T10:00:00Z", "2024-03-01T10:15:00Z", 15},
		{"continuous_moves_back", Range{Since: "-10", Continuous: true}, "2024-03-01T09:57:00Z", "2024-03-01T10:07:00Z", 1},
		{"continuous_leaves_old_ranges", Range{Since: "-35", Until: "-5", Continuous: true}, "2024-03-01T09:32:00Z", "2024-03-01T10:03:00Z", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := c.r.Resolve(at(t, now), 30*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.Since.Format(time.RFC3339); got != c.since {
				t.Errorf("since %s, want %s", got, c.since)
			}
			if got := w.Until.Format(time.RFC3339); got != c.until {
				t.Errorf("until %s, want %s", got, c.until)
			}
			if w.Minutes() != c.minutes {
				t.Errorf("points of %d minutes, want %d", w.Minutes(), c.minutes)
			}
			first, _ := w.At(0)
			_, last := w.At(w.Points() - 1)
			if !first.Equal(w.Since) || !last.Equal(w.Until) || w.Index(w.Since) != 0 || w.Index(w.Until) != -1 || w.Index(w.Until.Add(-1)) != w.Points()-1 {
				t.Error("points do not fill the window")
			}
		})
	}
}

func TestRange_Refused(t *testing.T) {
	now := at(t, "2024-03-01T10:07:40Z")
	for _, r := range []Range{
		{Since: "0"},
		{Since: "5"},
		{Since: "-5", Until: "-5"},
		{Since: "-5", Until: "-6"},
		{Since: "yesterday"},
		{Since: "2024-03-01"},
		{Since: "-5", Until: "1e3"},
		{Since: "-99999999999"},
		{Since: "-9999999999999999999999"},
		{Since: "-530000"},
		{Since: "2022-01-01T00:00:00Z", Until: "2023-01-03T00:00:00Z"},
		{Since: "2025-01-01T00:00:00Z"},
		{Since: "0000-01-01T00:00:00Z"},
		{Since: "-10080", Delta: 1},
		{Since: "-10", Delta: 7},
		{Since: "-10", Delta: -1},
	} {
		if w, err := r.Resolve(now, 0); !errors.Is(err, ErrRange) {
			t.Errorf("%+v gave %+v, %v", r, w, err)
		}
	}
}

// FuzzRange: whatever is asked, the window is whole points, not empty, and not longer than allowed.
func FuzzRange(f *testing.F) {
	f.Add("-60", "0", true, 0)
	f.Add("2024-02-29T00:30:00+01:00", "", false, 1440)
	f.Fuzz(func(t *testing.T, since, until string, continuous bool, delta int) {
		w, err := Range{since, until, continuous, delta}.Resolve(at(t, "2024-03-01T10:07:40Z"), time.Minute)
		if err != nil {
			if !errors.Is(err, ErrRange) {
				t.Fatal(err)
			}
			return
		}
		if n := w.Points(); n < 1 || n > maxPoints || w.Since.Add(time.Duration(n)*w.Delta) != w.Until || w.Since.Unix()%int64(w.Delta.Seconds()) != 0 {
			t.Fatalf("%+v", w)
		}
	})
}
