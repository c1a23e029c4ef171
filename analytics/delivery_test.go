package analytics_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/analytics"
	"github.com/spate-io/spate/event/notice"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb/chdbtest"
	"github.com/spate-io/spate/store/schema"
)

// book is a ledger in a real engine, and a service that asks it at noon.
type book struct {
	t    *testing.T
	db   store.DB
	noon time.Time
	ask  *analytics.Service
	n    int
}

func newBook(t *testing.T) *book {
	t.Helper()
	b := &book{t: t, db: chdbtest.Open(t), noon: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	if err := schema.Migrate(context.Background(), b.db); err != nil {
		t.Fatal(err)
	}
	var err error
	cfg := analytics.DefaultConfig()
	cfg.ShareFor = 0
	if b.ask, err = analytics.New(cfg, analytics.Deps{DB: b.db, Now: func() time.Time { return b.noon }}); err != nil {
		t.Fatal(err)
	}
	return b
}

// stored adds batches of ten events each, stored ago before noon, a second after they happened.
func (b *book) stored(edge string, epoch uint64, ago time.Duration, sequences ...uint64) {
	b.t.Helper()
	b.n++
	at := b.noon.Add(-ago)
	err := schema.RecordBatches(context.Background(), b.db, fmt.Sprint("b", b.n), []schema.BatchRow{
		{Edge: edge, Epoch: epoch, Minute: at.Add(-time.Second), Stored: at, Sequences: sequences, Events: 10 * uint64(len(sequences))},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	n := uint64(len(sequences))
	b.counted(schema.LedgerRow{Edge: edge, Minute: at.Add(-time.Second), Batches: n, Events: 10 * n, Bytes: 100 * n})
}

func (b *book) counted(r schema.LedgerRow) {
	b.t.Helper()
	b.n++
	if err := schema.RecordLedger(context.Background(), b.db, fmt.Sprint("l", b.n), []schema.LedgerRow{r}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *book) delivery(since, until string) *analytics.Delivery {
	b.t.Helper()
	d, err := b.ask.Delivery(context.Background(), analytics.Range{Since: since, Until: until}, analytics.Backlog{Known: true})
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

func upTo(from, to uint64) (list []uint64) {
	for s := from; s <= to; s++ {
		list = append(list, s)
	}
	return list
}

func TestDelivery_NothingMissing(t *testing.T) {
	b := newBook(t)
	// Blocks filled in no order, over a block's end, and two epochs.
	b.stored("fra1", 5, 20*time.Minute, upTo(4000, 4100)...)
	b.stored("fra1", 5, 30*time.Minute, upTo(1, 3999)...)
	b.stored("fra1", 6, 10*time.Minute, 2, 1, 3)
	b.stored("ams1", 1<<60, 10*time.Minute, 1)
	b.counted(schema.LedgerRow{Edge: "ams1", Minute: b.noon.Add(-10 * time.Minute), Duplicates: 3, Late: 7, Oldest: 2 * time.Second})
	d := b.delivery("-60", "")
	if !d.Complete || len(d.Reasons) != 0 {
		t.Errorf("not complete: %v", d.Reasons)
	}
	want := analytics.DeliveryCounts{Accepted: 41_040, Stored: 41_040, Batches: 4104, Bytes: 410_400, Duplicates: 3, Late: 7, OldestMs: 2000}
	if diff := cmp.Diff(want, d.Totals); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if len(d.Edges) != 2 || d.Edges[0].Edge != "ams1" || len(d.Edges[1].Minutes) != 3 || len(d.Edges[0].Gaps)+len(d.Edges[1].Gaps) != 0 {
		t.Errorf("edges: %+v", d.Edges)
	}
}

func TestDelivery_FindsWhatIsMissing(t *testing.T) {
	b := newBook(t)
	b.stored("fra1", 5, 50*time.Minute, upTo(3, 10)...)          // the first two are missing
	b.stored("fra1", 5, 40*time.Minute, upTo(12, 4090)...)       // one
	b.stored("fra1", 5, 30*time.Minute, upTo(12_288, 12_300)...) // the end of a block, and two whole ones
	b.stored("fra1", 6, 20*time.Minute, upTo(1, 9)...)           // an epoch of its own, nothing missing
	d := b.delivery("-60", "")
	type gap struct {
		epoch             string
		from, to, missing uint64
	}
	var got []gap
	for _, g := range d.Edges[0].Gaps {
		got = append(got, gap{g.Epoch, g.From, g.To, g.Missing})
	}
	want := []gap{{"5", 1, 4095, 2 + 1 + 5}, {"5", 4096, 12_300, 8192}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(gap{})); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
	if d.Complete || d.Totals.Missing != 8200 || !strings.Contains(strings.Join(d.Reasons, ";"), "edge fra1: 8200 batches never came") {
		t.Errorf("complete %v, missing %d: %v", d.Complete, d.Totals.Missing, d.Reasons)
	}
	if d := b.delivery("-25", ""); !d.Complete {
		t.Errorf("a span that the gap does not touch: %v", d.Reasons)
	}
	// What was missing comes late, as from a spool that was away: all is well, whatever the order.
	b.stored("fra1", 5, 5*time.Minute, upTo(4091, 12_287)...)
	b.stored("fra1", 5, 4*time.Minute, 11, 2, 1)
	if d := b.delivery("-60", ""); !d.Complete {
		t.Errorf("after the rest came: %v", d.Reasons)
	}
}

// Partitions are loaded at their own pace: a number is missing only when a later one was stored some time ago.
func TestDelivery_LeavesTimeToOtherPartitions(t *testing.T) {
	b := newBook(t)
	b.stored("fra1", 5, 5*time.Minute, upTo(1, 100)...)
	b.stored("fra1", 5, 5*time.Second, 102, 104)
	if d := b.delivery("-60", ""); !d.Complete {
		t.Errorf("at once: %v", d.Reasons)
	}
	b.noon = b.noon.Add(30 * time.Second)
	if d := b.delivery("-60", ""); d.Complete || d.Totals.Missing != 2 {
		t.Errorf("after half a minute: %d missing, %v", d.Totals.Missing, d.Reasons)
	}
}

func TestDelivery_SaysWhyNot(t *testing.T) {
	b := newBook(t)
	at := b.noon.Add(-10 * time.Minute)
	b.stored("fra1", 5, 10*time.Minute, 1)
	cases := []struct {
		name    string
		row     schema.LedgerRow
		backlog analytics.Backlog
		want    string
	}{
		{"dropped", schema.LedgerRow{Edge: "e1", Minute: at, Dropped: 3}, analytics.Backlog{Known: true}, "edge e1: 3 events were dropped"},
		{"refused", schema.LedgerRow{Minute: at, Refused: 2}, analytics.Backlog{Known: true}, "an edge that is not known: 2 batches were refused"},
		{"pending", schema.LedgerRow{Edge: "e3", Minute: at, Accepted: 9, Events: 4}, analytics.Backlog{Known: true}, "edge e3: 5 events were accepted and are not stored yet"},
		{"backlog", schema.LedgerRow{}, analytics.Backlog{Known: true, Messages: 4, Seconds: 60}, "4 batches wait on the bus, the oldest for 60 s"},
		{"deleted", schema.LedgerRow{}, analytics.Backlog{Known: true, Lost: 4}, "4 batches were deleted from the bus"},
		{"unknown", schema.LedgerRow{}, analytics.Backlog{}, "not known"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if !c.row.Minute.IsZero() {
				b.counted(c.row)
			}
			d, err := b.ask.Delivery(context.Background(), analytics.Range{Since: "-30"}, c.backlog)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(d.Reasons, "; "); d.Complete || !strings.Contains(got, c.want) {
				t.Errorf("complete %v, reasons %q, want %q", d.Complete, got, c.want)
			}
		})
	}
}

// Events of the running minute, and batches that have just come onto the bus, are no reason.
func TestDelivery_TellsWhatEdgesHadToTell(t *testing.T) {
	b := newBook(t)
	b.stored("fra1", 7, time.Minute, upTo(1, 5)...)
	at := func(ago time.Duration) time.Time { return b.noon.Add(-ago) }
	rows := []schema.NoticeRow{
		{Edge: "fra1", Notice: notice.Notice{Time: at(50 * time.Second), Kind: notice.BadLine, Source: "file a.log", Line: 12, Count: 1, Reason: "no time", Sample: "x \"y\"\t\xff"}},
		{Edge: "fra1", Notice: notice.Notice{Time: at(40 * time.Second), Kind: notice.BadLine, Source: "file a.log", Line: 13, Count: 1, Reason: "no status", Sample: "z"}},
		{Edge: "fra1", Notice: notice.Notice{Time: at(30 * time.Second), Kind: notice.BadLine, Source: "file a.log", Count: 700, Reason: "no time"}},
		{Edge: "fra1", Notice: notice.Notice{Time: at(3 * time.Hour), Kind: notice.BadLine, Source: "file old.log", Count: 1}},
	}
	for range 2 { // the second changes nothing
		if err := schema.RecordNotices(context.Background(), b.db, "n", rows); err != nil {
			t.Fatal(err)
		}
	}
	d := b.delivery("-60", "")
	want := []analytics.Notices{{
		Edge: "fra1", Kind: notice.BadLine, Source: "file a.log", Count: 702, First: at(50 * time.Second), Last: at(30 * time.Second), Reason: "no time",
		Samples: []analytics.NoticeSample{
			{Time: at(40 * time.Second), Line: 13, Reason: "no status", Text: "z"},
			{Time: at(50 * time.Second), Line: 12, Reason: "no time", Text: "x \"y\"\t\uFFFD"},
		},
	}}
	if diff := cmp.Diff(want, d.Notices); diff != "" || !d.Complete {
		t.Errorf("complete %v (-want +got)\n%s", d.Complete, diff)
	}
	refused := notice.Notice{Time: at(20 * time.Second), Kind: notice.Refused, Source: "helsinki", Count: 99, Reason: "checksum", Sample: "fra1/7/6"}
	if err := schema.RecordNotices(context.Background(), b.db, "m", []schema.NoticeRow{{Edge: "fra1", Notice: refused}}); err != nil {
		t.Fatal(err)
	}
	d = b.delivery("-60", "")
	if d.Complete || !strings.Contains(strings.Join(d.Reasons, " "), "helsinki refused batches with 99 events") {
		t.Errorf("complete %v, %q", d.Complete, d.Reasons)
	}
}

func TestDelivery_WhatIsUnderWayIsNoReason(t *testing.T) {
	b := newBook(t)
	b.stored("fra1", 5, 10*time.Minute, 1)
	b.counted(schema.LedgerRow{Edge: "fra1", Minute: b.noon.Add(-time.Second), Accepted: 50})
	d, err := b.ask.Delivery(context.Background(), analytics.Range{Since: "-30"}, analytics.Backlog{Known: true, Messages: 2, Seconds: 1})
	if err != nil || !d.Complete {
		t.Errorf("%v, %v", d, err)
	}
}

func TestDelivery_RefusesRanges(t *testing.T) {
	b := newBook(t)
	for _, r := range []analytics.Range{{Since: "-50000"}, {Since: "x"}, {Since: "-1", Until: "-2"}, {Since: "0"}} {
		if _, err := b.ask.Delivery(context.Background(), r, analytics.Backlog{}); err == nil {
			t.Errorf("%+v was answered", r)
		}
	}
}
