package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type inner struct {
	Max   int      `yaml:"max"`
	Delay Duration `yaml:"delay"`
	Names []string `yaml:"names"`
}

type root struct {
	Dir   string  `yaml:"dir"`
	Limit Size    `yaml:"limit"`
	Token Secret  `yaml:"token"`
	Inner inner   `yaml:"inner"`
	Many  []inner `yaml:"many"`
	On    bool    `yaml:"on"`
}

func (r *root) Validate(p *Problems) {
	p.Under("inner", func(p *Problems) { p.Check(r.Inner.Max >= 1, "max", r.Inner.Max, "must be at least 1") })
}

func defaults() *root { return &root{Dir: "/var", Inner: inner{Max: 5, Delay: Duration(time.Second)}} }

func TestRead_KeepsDefaultsAndReadsUnits(t *testing.T) {
	got := defaults()
	in := "limit: 64MiB\ninner:\n  delay: 30d\n  names: [a, b]\nmany:\n  - max: 2\n"
	if err := Read(strings.NewReader(in), []string{"SPATE_ON=true", "SPATE_INNER_MAX=9", "HOME=/"}, got); err != nil {
		t.Fatal(err)
	}
	want := &root{Dir: "/var", Limit: 64 * MiB, On: true, Many: []inner{{Max: 2}},
		Inner: inner{Max: 9, Delay: Duration(30 * 24 * time.Hour), Names: []string{"a", "b"}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

func TestRead_NamesPathValueAndRule(t *testing.T) {
	for name, c := range map[string]struct{ in, env, want string }{
		"unknown_key":    {in: "inner:\n  mx: 1\n", want: "inner.mx is not a known key (line 2); known here: delay, max, names"},
		"wrong_type":     {in: "on: maybe\n", want: `on must be true or false (line 1) (is "maybe")`},
		"wrong_size":     {in: "limit: lots\n", want: `size "lots" is not a number of bytes`},
		"twice":          {in: "dir: a\ndir: b\n", want: "dir is set twice (line 2)"},
		"broken_rule":    {in: "inner: {max: 0}\n", want: "inner.max must be at least 1 (is 0)"},
		"inside_list":    {in: "many:\n  - max: x\n", want: `many[0].max must be a whole number in range (line 2) (is "x")`},
		"not_a_mapping":  {in: "inner: 7\n", want: "inner must be a mapping of keys (line 1) (is 7)"},
		"bad_env":        {env: "SPATE_INNER_MAX=x", want: "inner.max from SPATE_INNER_MAX: must be a whole number"},
		"not_yaml":       {in: "a: [", want: "parse yaml"},
		"env_breaks_max": {env: "SPATE_INNER_MAX=-1", want: "inner.max must be at least 1 (is -1)"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Read(strings.NewReader(c.in), []string{c.env}, defaults())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want it to contain %q", err, c.want)
			}
		})
	}
}

func TestSecret_IsNeverPrinted(t *testing.T) {
	var b strings.Builder
	if err := Print(&b, &root{Token: "hunter2"}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "hunter2") || !strings.Contains(b.String(), mask) {
		t.Fatal(b.String())
	}
}

func TestValues_RoundTrip(t *testing.T) {
	for _, s := range []string{"0", "1", "1000", "1KiB", "64MiB", "3GiB", "2TiB"} {
		if v, err := ParseSize(s); err != nil || v.String() != s {
			t.Errorf("size %s: %v %v", s, v, err)
		}
	}
	for _, s := range []string{"0s", "200ms", "5s", "1m", "1h30m", "1h", "30d"} {
		if v, err := ParseDuration(s); err != nil || v.String() != s {
			t.Errorf("duration %s: %v %v", s, v, err)
		}
	}
	for _, s := range []string{"-1", "9999999999999GiB", "x", "", "1e999", "NaN"} {
		if v, err := ParseSize(s); err == nil {
			t.Errorf("size %q gave %v", s, v)
		}
	}
}
