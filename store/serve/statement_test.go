package serve

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/store"
)

func TestParseStatement_ClassFormatAndData(t *testing.T) {
	for _, c := range []struct {
		name, in    string
		class       class
		sql, format string
		data        string
	}{
		{"select", "SELECT 1", classRead, "SELECT 1", "", ""},
		{"check", "CHECK TABLE t SETTINGS check_query_single_value_result = 0", classRead, "CHECK TABLE t SETTINGS check_query_single_value_result = 0", "", ""},
		{"select_format", "select 1\n format JSON ;", classRead, "select 1", "JSON", ""},
		{"format_and_settings", "SELECT 1 FORMAT CSV SETTINGS max_threads = 1", classRead, "SELECT 1\nSETTINGS max_threads = 1", "CSV", ""},
		{"format_function", "SELECT format('{}', 1)", classRead, "SELECT format('{}', 1)", "", ""},
		{"format_alias", "SELECT 1 AS format", classRead, "SELECT 1 AS format", "", ""},
		{"format_column", "SELECT t.format x FROM t", classRead, "SELECT t.format x FROM t", "", ""},
		{"format_in_comment", "SELECT 1 -- FORMAT XML", classRead, "SELECT 1", "", ""},
		{"format_in_text", "SELECT ' FORMAT XML'", classRead, "SELECT ' FORMAT XML'", "", ""},
		{"format_in_subquery", "SELECT * FROM (SELECT 1 FORMAT XML)", classRead, "SELECT * FROM (SELECT 1 FORMAT XML)", "", ""},
		{"brackets_first", "(SELECT 1) UNION ALL SELECT 2 FORMAT CSV", classRead, "(SELECT 1) UNION ALL SELECT 2", "CSV", ""},
		{"comment_first", "/* a */ -- b\n# c\nWITH 1 AS x SELECT x", classRead, "/* a */ -- b\n# c\nWITH 1 AS x SELECT x", "", ""},
		{"insert_values", "INSERT INTO t (a) VALUES (1)", classInsert, "INSERT INTO t (a) ", "Values", " (1)"},
		{"insert_format", "INSERT INTO t FORMAT JSONEachRow\n{\"a\":1}", classInsert, "INSERT INTO t ", "JSONEachRow", "{\"a\":1}"},
		{"insert_format_one_line", "INSERT INTO t FORMAT TSV 1\t2", classInsert, "INSERT INTO t ", "TSV", "1\t2"},
		{"insert_binary", "INSERT INTO t FORMAT Native\n\n\x00;'", classInsert, "INSERT INTO t ", "Native", "\n\x00;'"},
		{"insert_crlf", "INSERT INTO t FORMAT CSV\r\n1", classInsert, "INSERT INTO t ", "CSV", "1"},
		{"insert_settings", "INSERT INTO t SETTINGS async_insert = 1 FORMAT CSV\n1", classInsert, "INSERT INTO t SETTINGS async_insert = 1 ", "CSV", "1"},
		{"insert_select", "INSERT INTO t SELECT 1 SETTINGS max_threads = 1", classWrite, "INSERT INTO t SELECT 1 SETTINGS max_threads = 1", "", ""},
		{"insert_select_values", "INSERT INTO t SELECT * FROM (SELECT 1 AS `values`)", classWrite, "INSERT INTO t SELECT * FROM (SELECT 1 AS `values`)", "", ""},
		{"create", "CREATE TABLE t (format String) ENGINE = Memory;", classWrite, "CREATE TABLE t (format String) ENGINE = Memory", "", ""},
		{"set", "SET a = 1", classSet, "SET a = 1", "", ""},
		{"use", "USE `d`", classUse, "USE `d`", "", ""},
		{"kill", "KILL QUERY WHERE query_id = 'x'", classKill, "KILL QUERY WHERE query_id = 'x'", "", ""},
		{"empty", " -- nothing", classEmpty, " -- nothing", "", ""},
		{"unclosed", "SELECT 'a", classRead, "SELECT 'a", "", ""},
		{"heredoc", "SELECT $x$ it's; FORMAT $x$ FORMAT CSV", classRead, "SELECT $x$ it's; FORMAT $x$", "CSV", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := parseStatement(c.in)
			if err != nil {
				t.Fatal(err)
			}
			data := ""
			if s.class == classInsert {
				data = c.in[s.data:]
			}
			if diff := cmp.Diff([]any{c.class, c.sql, c.format, c.data}, []any{s.class, s.sql, s.format, data}); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := parseStatement("SELECT 1; DROP TABLE t"); !store.IsCode(err, store.CodeSyntax) {
		t.Errorf("two statements: %v", err)
	}
}

func TestParseStatement_FindsEverySetting(t *testing.T) {
	s, err := parseStatement("SELECT * FROM (SELECT 1 SETTINGS a = 1, `b` = 'x,y') SETTINGS c = f(1, 2), d = -5 FORMAT CSV")
	if err != nil {
		t.Fatal(err)
	}
	want := []setting{{"a", "1"}, {"b", "x,y"}, {"c", "f(1, 2)"}, {"d", "-5"}}
	if diff := cmp.Diff(want, s.settings, cmp.AllowUnexported(setting{})); diff != "" {
		t.Error(diff)
	}
}

func TestGuard_KeepsUsersInsideTheStore(t *testing.T) {
	g := newGuard()
	writer, reader, owner := &User{Name: "w"}, &User{Name: "r", Readonly: 2, MaxMemory: 1000}, &User{Name: "o", Admin: true, Outside: true}
	for _, c := range []struct {
		sql                     string
		writer, reader, outside int // code, 0 for allowed
	}{
		{"SELECT 1", 0, 0, 0},
		{"SELECT file FROM imports WHERE url = 'x'", 0, 0, 0},
		{"INSERT INTO imports (id, file) SELECT 1, 2", 0, 164, 0},
		{"SELECT file('/etc/passwd')", 497, 497, 0},
		{"SELECT `file` /* x */ ('/etc/passwd')", 497, 497, 0},
		{`SELECT "FiLe"('/etc/passwd')`, 497, 497, 0},
		{"SELECT a APPLY file FROM (SELECT '/etc/passwd' AS a)", 497, 497, 0},
		{"SELECT a APPLY(file) FROM (SELECT '/etc/passwd' AS a)", 497, 497, 0},
		{"SELECT * FROM url('http://x', CSV)", 497, 497, 0},
		{"SELECT * FROM s3Cluster('c', 'http://x')", 497, 497, 0},
		{"SELECT * FROM remote('h', system.one)", 497, 497, 0},
		{"CREATE TABLE t (a UInt8) ENGINE = File(CSV)", 497, 164, 0},
		{"CREATE TABLE t (a UInt8) ENGINE URL('http://x')", 497, 164, 0},
		{"CREATE DATABASE d ENGINE = MySQL('h', 'd', 'u', 'p')", 497, 164, 0},
		{"CREATE DICTIONARY d (a UInt8) PRIMARY KEY a SOURCE(FILE(path 'x' format CSV)) LAYOUT(FLAT()) LIFETIME(1)", 497, 164, 0},
		{"CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = s3)", 497, 164, 0},
		{"CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a", 0, 164, 0},
		{"SELECT 1 INTO OUTFILE '/tmp/x'", 48, 48, 48},
		{"INSERT INTO t FROM INFILE 'x'", 48, 164, 48},
		{"SELECT 1 SETTINGS format_template_row = '/etc/passwd'", 452, 452, 0},
		{"SELECT 1 SETTINGS format_schema = '/etc/passwd:M'", 452, 452, 0},
		{"SELECT 1 SETTINGS max_memory_usage = 2000", 0, 452, 0},
		{"SELECT 1 SETTINGS max_memory_usage = 0", 0, 452, 0},
		{"SELECT 1 SETTINGS max_memory_usage = 500", 0, 0, 0},
		{"SELECT 1 SETTINGS readonly = 0", 0, 164, 0},
		{"SELECT * FROM (SELECT 1 SETTINGS max_memory_usage = 2000)", 0, 452, 0},
		{"SYSTEM STOP MERGES", 497, 164, 0},
		{"ATTACH TABLE t FROM '/x' (a UInt8) ENGINE = MergeTree ORDER BY a", 497, 164, 0},
		{"BACKUP TABLE t TO File('x')", 497, 164, 0},
		{"DROP TABLE t", 0, 164, 0},
		{"ALTER TABLE t DELETE WHERE 1", 0, 164, 0},
		{"CREATE TEMPORARY TABLE t (a UInt8)", 48, 164, 48},
		{"SELECT \u201c ' \u201d, file('/etc/passwd')", 62, 62, 62},
	} {
		for _, who := range []struct {
			user *User
			want int
		}{{writer, c.writer}, {reader, c.reader}, {owner, c.outside}} {
			s, err := parseStatement(c.sql)
			if err == nil {
				err = g.check(who.user, who.user.Readonly, c.sql, s)
			}
			if who.want == 0 && err != nil || who.want != 0 && !store.IsCode(err, who.want) {
				t.Errorf("%s: %s: %v, want code %d", who.user.Name, c.sql, err, who.want)
			}
		}
	}
}

func FuzzParseStatement(f *testing.F) {
	for _, s := range []string{"SELECT 1 FORMAT CSV", "INSERT INTO t FORMAT Native\n\x00", "SELECT $a$ ' $a$", "SET a = 1, b = 'x'", "/* ( */ SELECT `a``b`", "x'\\'", "KILL QUERY WHERE query_id = {a:String}"} {
		f.Add(s)
	}
	g := newGuard()
	f.Fuzz(func(t *testing.T, sql string) {
		s, err := parseStatement(sql)
		if err != nil {
			return
		}
		if s.data < 0 || s.data > len(sql) {
			t.Fatalf("data at %d of %d", s.data, len(sql))
		}
		end := 0
		for _, tok := range s.tokens {
			if tok.start < end || tok.end <= tok.start || tok.end > len(sql) {
				t.Fatalf("token %+v after %d", tok, end)
			}
			end = tok.end
		}
		if s.class == classRead && s.format != "" && !strings.Contains(strings.ToUpper(sql), "FORMAT") {
			t.Fatalf("format %q from nowhere", s.format)
		}
		_ = g.check(&User{Name: "u", Readonly: 2}, 2, sql, s) // must not panic
		q := &request{text: sql, stmt: s, params: map[string]string{}}
		_, _ = killedID(q)
	})
}
