package maintain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb"
	"github.com/spate-io/spate/store/chdb/chdbtest"
	"github.com/spate-io/spate/store/schema"
)

const zoneA, zoneB = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

func silent(string, ...any) {}

func exec(t *testing.T, db store.DB, sql string) {
	t.Helper()
	if err := db.Exec(t.Context(), store.Query{SQL: sql}); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func ask(t *testing.T, db store.DB, sql string) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := db.Stream(t.Context(), store.Query{SQL: sql}, &b); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.TrimSpace(b.String())
}

func migrated(t *testing.T, dir string) *chdb.DB {
	t.Helper()
	db := chdbtest.OpenAt(t, dir)
	if err := schema.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return db
}

// fill stores n requests of two zones from 100 addresses, ending now, a second apart, and their sums.
func fillStore(t *testing.T, db store.DB, n string) {
	t.Helper()
	exec(t, db, "INSERT INTO http_requests (ZoneID, EdgeStartTimestamp, ClientIP, ClientXForwardedFor) SELECT if(number % 2, '"+zoneA+"', '"+zoneB+
		"'), now64(6) - number, toIPv6('::ffff:10.0.0.' || toString(number % 100)), if(number % 10 = 0, '10.0.0.7, 10.0.0.70', '') FROM numbers("+n+")")
	exec(t, db, "INSERT INTO http_requests_flow (zone_id, time, requests, clients) SELECT ZoneID, toStartOfMinute(toDateTime(EdgeStartTimestamp, 'UTC')) AS m, count(), groupUniqArray(ClientIP)"+
		" FROM http_requests WHERE (ZoneID, m) NOT IN (SELECT zone_id, time FROM http_requests_1m) GROUP BY ZoneID, m")
}

func check(t *testing.T, db store.DB) *CheckResult {
	t.Helper()
	r, err := Check(t.Context(), db, CheckOptions{Retention: schema.DefaultRetention()}, silent)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBackup_RestoresWhatWasThereAndCopiesOnlyWhatIsNew(t *testing.T) {
	path, dir := filepath.Join(t.TempDir(), "store"), t.TempDir()
	counts := "SELECT (SELECT (count(), sum(cityHash64(*))) FROM http_requests), (SELECT (sum(requests), uniqMerge(uniques)) FROM http_requests_1m), (SELECT sum(requests) FROM http_requests_1mo)"
	first := backUp(t, path, dir, 0, func(db *chdb.DB) { fillStore(t, db, "20000") })
	if first.CopiedParts != first.Parts || first.Rows != 20000 {
		t.Errorf("first backup: %+v", first)
	}
	var want string
	second := backUp(t, path, dir, 0, func(db *chdb.DB) {
		exec(t, db, "INSERT INTO zones (id, name) VALUES ('"+zoneA+"', 'a.test')")
		want = ask(t, db, counts)
	})
	if second.CopiedBytes*4 > first.CopiedBytes {
		t.Errorf("second backup copied %d bytes, the first %d", second.CopiedBytes, first.CopiedBytes)
	}
	to := filepath.Join(t.TempDir(), "store")
	if _, err := Restore(t.Context(), RestoreOptions{Dir: dir, Path: to}, silent); err != nil {
		t.Fatal(err)
	}
	t.Run("restored", func(t *testing.T) {
		db := migrated(t, to)
		if got := ask(t, db, counts); got != want {
			t.Errorf("restored %s, want %s", got, want)
		}
		if got := ask(t, db, "SELECT name FROM zones"); got != "a.test" {
			t.Errorf("zones: %q", got)
		}
		// It can be written to.
		exec(t, db, "INSERT INTO http_requests (ZoneID, EdgeStartTimestamp) VALUES ('"+zoneA+"', now64(6))")
		exec(t, db, "INSERT INTO http_requests_flow (zone_id, time, requests) VALUES ('"+zoneA+"', toStartOfMinute(now()), 1)")
		if r := check(t, db); len(r.Findings) > 0 {
			t.Errorf("check: %+v", r.Findings)
		}
	})
	if _, err := Restore(t.Context(), RestoreOptions{Dir: dir, Path: to}, silent); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("restore over a store: %v", err)
	}
	if _, err := Restore(t.Context(), RestoreOptions{Dir: dir, Name: first.Name, Path: to, Force: true}, silent); err != nil {
		t.Errorf("restore by force: %v", err)
	}
	third := backUp(t, path, dir, 1, func(*chdb.DB) {})
	if names, _ := List(dir); len(names) != 1 || len(third.Removed) != 2 {
		t.Errorf("left %v, removed %v", names, third.Removed)
	}
	damage(t, filepath.Join(dir, partsDir, schema.HTTPRequests, "*", "data.bin"))
	_, err := Restore(t.Context(), RestoreOptions{Dir: dir, DryRun: true}, silent)
	if err == nil || !strings.Contains(err.Error(), "data.bin does not have the contents") {
		t.Errorf("a damaged backup: %v", err)
	}
	if _, err := Restore(t.Context(), RestoreOptions{Dir: dir, Path: filepath.Join(t.TempDir(), "s")}, silent); err == nil {
		t.Error("a damaged backup was restored")
	}
}

// backUp opens the store, lets prepare work on it, and backs it up.
func backUp(t *testing.T, path, dir string, keep int, prepare func(*chdb.DB)) (r *BackupResult) {
	t.Helper()
	t.Run("backup", func(t *testing.T) {
		db := migrated(t, path)
		exec(t, db, "SYSTEM STOP MERGES")
		prepare(db)
		var err error
		if r, err = Backup(t.Context(), db, BackupOptions{Dir: dir, Keep: keep}, nil, silent); err != nil {
			t.Fatal(err)
		}
	})
	return r
}

// damage flips a byte in the middle of the first file that matches.
func damage(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file %s: %v", pattern, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 0x10
	if err := os.WriteFile(files[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	return files[0]
}

func TestCheck_NamesADamagedPart(t *testing.T) {
	db := migrated(t, t.TempDir())
	exec(t, db, "SYSTEM STOP MERGES")
	fillStore(t, db, "5000")
	if r := check(t, db); len(r.Findings) > 0 || r.Parts == 0 || r.Days == 0 {
		t.Fatalf("a good store: %+v", r)
	}
	dir := ask(t, db, "SELECT path FROM system.parts WHERE table = 'http_requests' AND active LIMIT 1")
	part := filepath.Base(dir)
	damage(t, filepath.Join(dir, "data.bin"))
	r := check(t, db)
	found := false
	for _, f := range r.Findings {
		found = found || f.Table == schema.HTTPRequests && f.Part == part
	}
	if !found {
		t.Errorf("part %s is not among %+v", part, r.Findings)
	}
}

func TestCheck_ComparesRollups(t *testing.T) {
	db := migrated(t, t.TempDir())
	fillStore(t, db, "1000")
	exec(t, db, "INSERT INTO http_requests (ZoneID, EdgeStartTimestamp) VALUES ('"+zoneA+"', now64(6))")
	exec(t, db, "ALTER TABLE http_requests_1d DELETE WHERE zone_id = '"+zoneB+"' SETTINGS mutations_sync = 1")
	var tables []string
	for _, f := range check(t, db).Findings {
		tables = append(tables, f.Table)
	}
	// Colos were counted as well, and month against day in turn.
	want := []string{schema.HTTPMinute, schema.HTTPDay, schema.HTTPMonth, schema.ColoMinute}
	if diff := cmp.Diff(want, tables); diff != "" {
		t.Errorf("tables with findings (-want +got):\n%s", diff)
	}
}

func TestErase_Address(t *testing.T) {
	db := migrated(t, t.TempDir())
	fillStore(t, db, "20000")
	exec(t, db, "INSERT INTO "+schema.TopHour+" (zone_id, dimension, time, requests, listed, listed_requests, listed_bytes, listed_errors) VALUES ('"+zoneA+"', 'client_ip', now(), 9, ['10.0.0.7', '10.0.0.8'], [5, 4], [6, 7], [8, 9])")
	if got := ask(t, db, "SELECT uniqMerge(uniques) FROM http_requests_1mo"); got != "100" {
		t.Fatalf("uniques before: %s", got)
	}
	dry, err := Erase(t.Context(), db, EraseOptions{IP: "10.0.0.7", DryRun: true}, silent)
	if err != nil {
		t.Fatal(err)
	}
	list, err := Erase(t.Context(), db, EraseOptions{IP: "10.0.0.7"}, silent)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range list {
		if e.Rows != dry[i].Rows && e.What != whatText || e.Left != 0 {
			t.Errorf("%+v, to be expected were %d", e, dry[i].Rows)
		}
	}
	for sql, want := range map[string]string{
		"SELECT count() FROM http_requests WHERE ClientIP = toIPv6('10.0.0.7')":              "0",
		"SELECT count() FROM http_requests":                                                  "19800",
		"SELECT count() FROM http_requests WHERE ClientXForwardedFor LIKE '%10.0.0.7%'":      "0",
		"SELECT sum(requests) FROM http_requests_1m":                                         "20000",
		"SELECT listed, listed_requests, listed_bytes, listed_errors FROM " + schema.TopHour: "['10.0.0.8']\t[4]\t[7]\t[9]",
		"SELECT sum(requests) FROM erasures":                                                 "200",
		"SELECT count() FROM system.parts WHERE NOT active AND table = 'http_requests'":      "0",
	} {
		if got := ask(t, db, sql); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
	for _, table := range []string{schema.HTTPMinute, schema.HTTPHour, schema.HTTPDay, schema.HTTPMonth} {
		left := ask(t, db, "SELECT uniqMerge(uniques) = 99, finalizeAggregation(arrayReduce('uniqMergeState', [uniqMergeState(uniques), arrayReduce('uniqState', [toIPv6('10.0.0.7')])])) FROM "+table)
		if left != "1\t100" {
			t.Errorf("%s: %s, want 99 addresses, and 100 with the one that was erased", table, left)
		}
	}
	if r := check(t, db); len(r.Findings) > 0 {
		t.Errorf("check: %+v", r.Findings)
	}
	again, err := Erase(t.Context(), db, EraseOptions{IP: "::ffff:10.0.0.7"}, silent)
	for _, e := range again {
		if e.Rows != 0 || err != nil {
			t.Errorf("again: %+v, %v", e, err)
		}
	}
}

func TestErase_AddressFromLargeSets(t *testing.T) {
	db := migrated(t, t.TempDir())
	for _, n := range []string{"127", "128", "129", "16383", "16384", "16385", "65536", "300000"} {
		exec(t, db, "INSERT INTO http_requests_1d (zone_id, time, requests, uniques) SELECT '"+n+"', toDateTime('2026-01-01 00:00:00', 'UTC'), count(), uniqState(IPv4ToIPv6(toIPv4(toUInt32(number)))) FROM numbers("+n+")")
	}
	counts := "SELECT groupArray(toInt64(uniqMerge)) FROM (SELECT uniqMerge(uniques) AS uniqMerge FROM http_requests_1d GROUP BY zone_id ORDER BY toUInt64(zone_id))"
	var before, after []int64
	read := func(into *[]int64) {
		if err := json.Unmarshal([]byte(ask(t, db, counts)), into); err != nil {
			t.Fatal(err)
		}
	}
	read(&before)
	list, err := Erase(t.Context(), db, EraseOptions{IP: "0.0.0.100"}, silent)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Left > 0 || e.Table == schema.HTTPDay && e.What == whatUniques && e.Rows < 6 {
			t.Errorf("%+v", e)
		}
	}
	read(&after)
	for i, n := range before {
		// Up to 16385 the sets hold every hash: exactly one is gone. Above, they hold a sample.
		if d := n - after[i]; d < 0 || d > 16 || n <= 16385 && d != 1 {
			t.Errorf("set of about %d has %d fewer", n, d)
		}
	}
}

func TestErase_Zone(t *testing.T) {
	db := migrated(t, t.TempDir())
	fillStore(t, db, "2000")
	exec(t, db, "INSERT INTO zones (id, name) VALUES ('"+zoneA+"', 'a.test')")
	if _, err := Erase(t.Context(), db, EraseOptions{Zone: "b.test"}, silent); err == nil {
		t.Error("a zone that is not there was erased")
	}
	list, err := Erase(t.Context(), db, EraseOptions{Zone: "a.test"}, silent)
	if err != nil {
		t.Fatal(err)
	}
	erased := 0
	for _, e := range list {
		if e.Left > 0 {
			t.Errorf("%+v", e)
		}
		if e.Rows > 0 {
			erased++
		}
	}
	if erased != 10 { // raw, eight rollups, the zone
		t.Errorf("%d tables were changed: %+v", erased, list)
	}
	if got := ask(t, db, "SELECT (SELECT count() FROM http_requests), (SELECT sum(requests) FROM http_requests_1mo)"); got != "1000\t1000" {
		t.Errorf("left: %s", got)
	}
	if r := check(t, db); len(r.Findings) > 0 {
		t.Errorf("check: %+v", r.Findings)
	}
}

func TestServer_TakesOrdersOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("long", 40)) // longer than sockets' names may be
	if _, err := Call(t.Context(), path, &Order{Check: &CheckOptions{}}, silent); !errors.Is(err, ErrNotRunning) {
		t.Errorf("nobody is there: %v", err)
	}
	db := migrated(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	s := NewServer(Deps{DB: db, Retention: schema.DefaultRetention()})
	go func() { done <- s.Run(ctx) }()
	order := &Order{Check: &CheckOptions{Quick: true}}
	a, err := Call(t.Context(), path, order, silent)
	for deadline := time.Now().Add(10 * time.Second); errors.Is(err, ErrNotRunning) && time.Now().Before(deadline); {
		a, err = Call(t.Context(), path, order, silent)
	}
	if err != nil || len(a.Check.Findings) > 0 {
		t.Fatalf("%+v, %v", a, err)
	}
	if info, err := os.Stat(filepath.Join(path, socketName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is open to others: %v, %v", info, err)
	}
	s.busy.Lock()
	if _, err := Call(t.Context(), path, order, silent); err == nil || !strings.Contains(err.Error(), "another order") {
		t.Errorf("two orders at a time: %v", err)
	}
	s.busy.Unlock()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
