package serve

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spate-io/spate/store"
)

// Error numbers of ClickHouse that the server gives itself.
const (
	codeUnknownSetting  = 115
	codeBadArguments    = 36
	codeNotImplemented  = 48
	codeUnknownUser     = 192
	codeAuth            = 516
	codeNoCredentials   = 194
	codeSameQuery       = 216
	codeTooLarge        = 396 // TOO_MANY_ROWS_OR_BYTES; statements that are too long
	codeQueryTooLarge   = 307
	codeAccessDenied    = 497
	codeSettingBound    = 452
	codeNoSession       = 372
	codeSessionIsLocked = 373
	codeUnknownFormat   = 73
	codeIncorrectData   = 117
	codeHTTPLength      = 381
)

// outsideNames are the functions, table engines and dictionary sources that reach past the store: files of this machine, other
// hosts, programs. The engine runs with the rights of this process, so only users with `outside` may use them.
func outsideNames() map[string]bool {
	m := map[string]bool{}
	for _, name := range strings.Fields(`
		arrowflight azureblobstorage azureblobstoragecluster azurequeue catboostevaluate cluster clickhouse clusterallreplicas cosn
		datalakecatalog deltalake deltalakeazure deltalakeazurecluster deltalakecluster deltalakelocal deltalakes3 disk
		embeddedrocksdb executable executablepool externaldistributed file filecluster filelog fuzzquery gcs hdfs hdfscluster http hive
		hudi hudicluster iceberg icebergazure icebergazurecluster icebergcluster iceberghdfs iceberghdfscluster iceberglocal
		iceberglocalcluster icebergs3 icebergs3cluster jdbc kafka keepermap materializedmysql materializedpostgresql mongodb mysql
		nats odbc oss paimon paimonazure paimoncluster paimonhdfs paimonlocal paimons3 postgresql prometheusquery prometheusqueryrange
		python rabbitmq redis remote remotesecure s3 s3cluster s3queue source sqlite timeseries url urlcluster ytsaurus
		load_file runtime_file addresstoline addresstolinewithinlines addresstosymbol demangle`) {
		m[name] = true
	}
	return m
}

// guard says what users may do. It works on tokens, before the engine sees the statement, because the engine inside this
// process has no users: it would read any file that the process may read.
type guard struct{ outside map[string]bool }

func newGuard() *guard { return &guard{outside: outsideNames()} }

// check refuses what u may not do with s.
func (g *guard) check(u *User, readonly int, sql string, s *statement) error {
	if readonly > 0 && s.class != classRead && s.class != classSet && s.class != classUse && s.class != classEmpty && s.class != classKill {
		return readonlyError(u)
	}
	if err := g.tokens(u, sql, s); err != nil {
		return err
	}
	for _, set := range s.settings {
		if err := checkSetting(u, readonly, set.name, set.value); err != nil {
			return err
		}
	}
	return nil
}

func readonlyError(u *User) error {
	return &store.Error{Code: store.CodeReadonly, Name: "READONLY", Message: u.Name + ": Cannot execute query in readonly mode"}
}

// tokens looks for what reaches past the store.
func (g *guard) tokens(u *User, sql string, s *statement) error {
	for i, t := range s.tokens {
		if t.kind == punct && sql[t.start] >= 0x80 {
			return &store.Error{Code: store.CodeSyntax, Name: "SYNTAX_ERROR", Message: fmt.Sprintf("Syntax error: failed at position %d: text outside of quotes must be ASCII", t.start+1)}
		}
		w := upper(sql, t)
		if (w == "OUTFILE" || w == "INFILE") && i > 0 && (upper(sql, s.tokens[i-1]) == "INTO" || upper(sql, s.tokens[i-1]) == "FROM") {
			return &store.Error{Code: codeNotImplemented, Name: "NOT_IMPLEMENTED", Message: "INTO OUTFILE and FROM INFILE are not allowed over HTTP"}
		}
		if i == 0 && !u.Admin && adminWords[w] {
			return &store.Error{Code: codeAccessDenied, Name: "ACCESS_DENIED", Message: u.Name + ": Not enough privileges for " + w}
		}
		if w == "TEMPORARY" && i < 4 && upper(sql, s.tokens[0]) == "CREATE" {
			return &store.Error{Code: codeNotImplemented, Name: "NOT_IMPLEMENTED", Message: "temporary tables are not supported: sessions share connections to the engine"}
		}
		if u.Outside || (t.kind != word && t.kind != quoted) {
			continue
		}
		called := i+1 < len(s.tokens) && s.tokens[i+1].kind == punct && sql[s.tokens[i+1].start] == '('
		engine := i > 0 && upper(sql, s.tokens[i-1]) == "ENGINE" || i > 1 && sql[s.tokens[i-1].start] == '=' && upper(sql, s.tokens[i-2]) == "ENGINE"
		applied := i > 0 && upper(sql, s.tokens[i-1]) == "APPLY" || i > 1 && upper(sql, s.tokens[i-2]) == "APPLY"
		if (called || engine || applied) && g.outside[strings.ToLower(bare(t, sql))] {
			return &store.Error{Code: codeAccessDenied, Name: "ACCESS_DENIED",
				Message: fmt.Sprintf("%s: Not enough privileges. %s reaches outside of the store", u.Name, bare(t, sql))}
		}
	}
	return nil
}

// adminWords begin statements that concern the whole engine.
var adminWords = map[string]bool{
	"SYSTEM": true, "BACKUP": true, "RESTORE": true, "GRANT": true, "REVOKE": true, "ATTACH": true, "DETACH": true, "MOVE": true,
}

// bounds are the settings that a user's limits own: a statement may lower them, not raise them.
func (u *User) bounds() map[string]uint64 {
	m := map[string]uint64{}
	if u.MaxExecutionTime > 0 {
		m["max_execution_time"] = uint64(max(1, u.MaxExecutionTime.D().Seconds()))
	}
	if u.MaxMemory > 0 {
		m["max_memory_usage"] = uint64(u.MaxMemory)
	}
	if u.MaxThreads > 0 {
		m["max_threads"] = uint64(u.MaxThreads)
	}
	if u.MaxRowsToRead > 0 {
		m["max_rows_to_read"] = u.MaxRowsToRead
	}
	if u.MaxResultRows > 0 {
		m["max_result_rows"] = u.MaxResultRows
	}
	return m
}

// checkSetting says whether u may give a setting that value.
func checkSetting(u *User, readonly int, name, value string) error {
	lower := strings.ToLower(name)
	if lower == "readonly" {
		if n, err := strconv.Atoi(value); err == nil && n >= readonly && n <= 2 && (readonly == 0 || n == readonly) {
			return nil
		}
		return settingReadonly(name)
	}
	if readonly == 1 {
		return settingReadonly(name)
	}
	if isForbidden(lower) && !u.Outside {
		return &store.Error{Code: codeSettingBound, Name: "SETTING_CONSTRAINT_VIOLATION", Message: "Setting " + name + " should not be changed"}
	}
	if bound, ok := u.bounds()[lower]; ok {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || n <= 0 || n > float64(bound) {
			return &store.Error{Code: codeSettingBound, Name: "SETTING_CONSTRAINT_VIOLATION",
				Message: fmt.Sprintf("Setting %s shouldn't be greater than %d", name, bound)}
		}
	}
	return nil
}

func settingReadonly(name string) error {
	return &store.Error{Code: store.CodeReadonly, Name: "READONLY", Message: "Cannot modify '" + name + "' setting in readonly mode"}
}

// isForbidden names settings that open files or weaken what this package relies on. The overflow modes would turn a
// user's limits into silently short answers.
func isForbidden(name string) bool {
	for _, prefix := range []string{"format_template", "format_schema", "allow_introspection", "timeout_overflow_mode", "result_overflow_mode", "read_overflow_mode", "profile"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasSuffix(name, "_path") || strings.HasSuffix(name, "_directory")
}
