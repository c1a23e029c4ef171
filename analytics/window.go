package analytics

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// ErrRange says that a question's time range cannot be answered: not understood, empty, too long ago, or too many points.
// The API answers it with code 1005.
var ErrRange = errors.New("please check time interval or your plan level")

// rangeError is an ErrRange with its reason.
func rangeError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRange, fmt.Sprintf(format, args...))
}

// Range is the time range of a question as it was asked.
type Range struct {
	// Since and Until are RFC 3339 times or whole numbers of minutes, 0 or negative, relative to now. Empty means 10080
	// minutes ago and now. Until is exclusive; a time in the future counts as now.
	Since, Until string
	// Continuous moves the range back, without making it shorter, until it ends before the youngest time that may
	// still be incomplete.
	Continuous bool
	// Delta asks for points of so many minutes: 1, 15, 30, 60 or 1440; 0 lets the length of the range decide.
	Delta int
}

// Window is what a range becomes: whole points.
type Window struct {
	Since, Until time.Time // UTC, at the edges of points; Until is exclusive
	Delta        time.Duration
}

const (
	defaultSince = 10080
	oneYear      = 366 * 24 * time.Hour
	maxPoints    = 3000
)

// Points gives how many points the window has.
func (w Window) Points() int { return int(w.Until.Sub(w.Since) / w.Delta) }

// Minutes gives the length of a point in minutes.
func (w Window) Minutes() int { return int(w.Delta / time.Minute) }

// Index gives the number of the point that t lies in, -1 when it lies outside.
func (w Window) Index(t time.Time) int {
	if t.Before(w.Since) || !t.Before(w.Until) {
		return -1
	}
	return int(t.Sub(w.Since) / w.Delta)
}

// At gives the bounds of point i.
func (w Window) At(i int) (since, until time.Time) {
	since = w.Since.Add(time.Duration(i) * w.Delta)
	return since, since.Add(w.Delta)
}

// Resolve turns a range into a window. The length of the range decides the length of a point: below 60 minutes 1 minute,
// below 7 hours 15, below 15 hours 30, up to 72 hours an hour, above that a day (UTC). The range is then widened to whole
// points at both ends. settle is how old a time must be to be surely complete. All errors are ErrRange.
func (r Range) Resolve(now time.Time, settle time.Duration) (Window, error) {
	now = now.UTC()
	since, err := moment(r.Since, defaultSince, now)
	if err != nil {
		return Window{}, rangeError("since %v", err)
	}
	until, err := moment(r.Until, 0, now)
	if err != nil {
		return Window{}, rangeError("until %v", err)
	}
	if until.After(now) {
		until = now
	}
	if !since.Before(until) {
		return Window{}, rangeError("since must be before until and now")
	}
	if until.Sub(since) > oneYear {
		return Window{}, rangeError("the range must not be longer than a year")
	}
	if complete := now.Add(-settle).Truncate(time.Minute); r.Continuous && until.After(complete) {
		since = since.Add(complete.Sub(until))
		until = complete
	}
	delta, err := r.delta(until.Sub(since))
	if err != nil {
		return Window{}, err
	}
	w := Window{Since: since.Truncate(delta), Until: until.Truncate(delta), Delta: delta}
	if w.Until.Before(until) {
		w.Until = w.Until.Add(delta)
	}
	if w.Points() > maxPoints {
		return Window{}, rangeError("%d points, at most %d can be", w.Points(), maxPoints)
	}
	return w, nil
}

// moment reads one end of a range. Go's Truncate counts days from a midnight in UTC, so it serves for all deltas.
func moment(s string, ago int, now time.Time) (time.Time, error) {
	if s == "" {
		return now.Add(-time.Duration(ago) * time.Minute), nil
	}
	if n, err := strconv.Atoi(s); err == nil {
		if n > 0 {
			return time.Time{}, fmt.Errorf("must not be a positive number of minutes: %d", n)
		}
		if n < -10_000_000 {
			return time.Time{}, errors.New("is too long ago")
		}
		return now.Add(time.Duration(n) * time.Minute), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.Year() < 1970 || t.Year() > 2200 {
		return time.Time{}, errors.New("must be an RFC 3339 time or a number of minutes")
	}
	return t.UTC(), nil
}

func (r Range) delta(length time.Duration) (time.Duration, error) {
	switch r.Delta {
	case 0:
	case 1, 15, 30, 60, 1440:
		return time.Duration(r.Delta) * time.Minute, nil
	default:
		return 0, rangeError("time_delta must be 1, 15, 30, 60 or 1440")
	}
	switch {
	case length < time.Hour:
		return time.Minute, nil
	case length < 7*time.Hour:
		return 15 * time.Minute, nil
	case length < 15*time.Hour:
		return 30 * time.Minute, nil
	case length <= 72*time.Hour:
		return time.Hour, nil
	default:
		return 24 * time.Hour, nil
	}
}
