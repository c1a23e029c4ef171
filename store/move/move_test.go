package move

import (
	"testing"
)

func TestRun_MovesEverything(t *testing.T) {
	src := source(t)
	ingest(t, src, 0, 5000, 40*24)
	ingest(t, src, 5000, 3000, 30)
	others(t, src)
	dst, _ := target(t)
	r := moved(t, src, dst, options(t))
	alike(t, src, dst)
	if raw := r.of("http_requests"); raw.Rows != 8000 || raw.Copied != 8000 || raw.Partitions < 5 || raw.Pieces < 900 {
		t.Errorf("%+v", raw)
	}
	t.Logf("%d rows, %d bytes in %s", r.CopiedRows, r.CopiedBytes, r.Elapsed)
	if got := answer(t, dst, "SELECT count() FROM system.tables WHERE name LIKE 'spate_move%'"); got != "0" {
		t.Errorf("%s tables are left over", got)
	}
	for name, change := range map[string]func(*Options){"again": func(*Options) {}, "quick": func(o *Options) { o.Quick = true }, "verify": func(o *Options) { o.Verify = true }} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			change(&o)
			r := moved(t, src, dst, o)
			if raw := r.of("http_requests"); r.CopiedRows != 0 || raw.Rows != 8000 {
				t.Errorf("%+v", r)
			}
		})
	}
}
