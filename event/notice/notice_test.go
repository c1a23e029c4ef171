package notice_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/event/notice"
)

func TestNotice_ComesBack(t *testing.T) {
	want := []notice.Notice{
		{Time: time.Date(2026, 2, 28, 23, 59, 59, 5, time.UTC), Kind: notice.BadLine, Source: "/var/log/nginx/access.log", Line: 7, Reason: "no time", Sample: "a \"b\"\n\tc"},
		{Time: time.Unix(0, 0).UTC(), Kind: notice.Refused, Source: "helsinki", Count: 10_000},
	}
	got, err := notice.Parse(want[1].Append(want[0].Append(nil)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]notice.Notice{want[0], want[1]}, got); diff != "" {
		t.Error(diff)
	}
}

func TestNotice_CutsAndMendsTexts(t *testing.T) {
	got, err := notice.Parse(notice.Notice{Kind: "x", Time: time.Unix(1, 0), Sample: "\xff" + strings.Repeat("\x00", 5000)}.Append(nil))
	if err != nil || !strings.HasPrefix(got[0].Sample, "\uFFFD") || len(got[0].Sample) > notice.MaxText+2 {
		t.Errorf("%v, %d bytes", err, len(got[0].Sample))
	}
}

func TestParse_RefusesOthers(t *testing.T) {
	for _, b := range []string{
		"{}\n", "x\n", "[]\n", `{"kind":"a","time":"2026-01-01T00:00:00Z"}`, `{"kind":"A","time":"2026-01-01T00:00:00Z"}` + "\n",
		`{"kind":"a","time":"0001-01-01T00:00:00Z"}` + "\n", "\n", strings.Repeat("x", notice.MaxLine+1) + "\n",
	} {
		if list, err := notice.Parse([]byte(b)); !errors.Is(err, notice.ErrNotice) {
			t.Errorf("%.60q: %v, %v", b, list, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(notice.Notice{Kind: notice.Damaged, Time: time.Unix(1, 0), Reason: "r"}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := notice.Parse(b)
		if err != nil {
			return
		}
		var again []byte
		for _, n := range list {
			again = n.Append(again)
		}
		if got, err := notice.Parse(again); err != nil || len(got) != len(list) {
			t.Fatalf("%d notices, then %d, %v", len(list), len(got), err)
		}
	})
}
