// Package config holds what the configuration of every part is made of: value types that carry units (Size, Duration,
// Secret), the collector of validation problems, and the strict reader of the one YAML file.
//
// It knows no part. Each part declares its own Config with DefaultConfig and Validate; cmd/spate composes them.
package config

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes. In YAML: 64MiB, 10GB, 1024.
type Size int64

// Binary multiples of a byte.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

// sizeUnits is ordered: a longer suffix stands before the one it ends with.
var sizeUnits = []struct {
	suffix string
	bytes  Size
}{
	{"KiB", KiB}, {"MiB", MiB}, {"GiB", GiB}, {"TiB", TiB},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"B", 1},
}

// ParseSize reads a whole or decimal number with an optional unit.
func ParseSize(s string) (Size, error) {
	number, unit := strings.TrimSpace(s), Size(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n < 0 || (unit > 1 && n > int64(1<<63-1)/int64(unit)) {
			return 0, fmt.Errorf("size %q is out of range", s)
		}
		return Size(n) * unit, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || !(f >= 0) || f*float64(unit) > 1<<62 {
		return 0, fmt.Errorf("size %q is not a number of bytes such as 64MiB, 10GB or 4096", s)
	}
	return Size(f * float64(unit)), nil
}

// String prints the size in the largest binary unit that divides it.
func (s Size) String() string {
	for _, u := range []struct {
		n    Size
		name string
	}{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if s >= u.n && s%u.n == 0 {
			return strconv.FormatInt(int64(s/u.n), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(b []byte) (err error) {
	*s, err = ParseSize(string(b))
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Duration is a span of time. In YAML: 200ms, 5s, 1h30m, 30d.
type Duration time.Duration

// ParseDuration reads what time.ParseDuration reads, and whole days as in 30d.
func ParseDuration(s string) (Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseInt(days, 10, 32); err == nil && n >= 0 && n <= 36500 {
			return Duration(time.Duration(n) * 24 * time.Hour), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("duration %q is not a span of time such as 200ms, 5s, 1h30m or 30d", s)
	}
	return Duration(d), nil
}

// D returns the duration as the standard library's type.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String prints whole days as days and everything else as time.Duration does.
func (d Duration) String() string {
	const day = Duration(24 * time.Hour)
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDuration(string(b))
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Secret is a string that no log, dump or error message shows.
type Secret string

const mask = "***"

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String returns a mask, or the empty string when nothing is set.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString masks the secret in %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText masks the secret in dumps.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue masks the secret in logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
