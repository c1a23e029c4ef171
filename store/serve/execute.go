package serve

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"strconv"
	"strings"

	"github.com/spate-io/spate/store"
)

// execute runs the statement of a request and answers it.
func (s *Server) execute(q *request, sess *session, a *answer) error {
	if err := s.checkDatabase(q); err != nil {
		return err
	}
	q.id = q.args.Get("query_id")
	if q.id == "" {
		q.id = rand.Text()
	}
	// What changes data is not given up when the client goes away; KILL QUERY ends it.
	base := q.http.Context()
	if q.stmt.class == classWrite || q.stmt.class == classInsert {
		base = context.WithoutCancel(base)
	}
	ctx, end, err := s.running.begin(base, q)
	if err != nil {
		return err
	}
	defer end()
	q.format = q.outputFormat()
	if err := a.open(q); err != nil {
		return err
	}
	var stats store.Stats
	switch q.stmt.class {
	case classEmpty:
		return syntaxError("Empty query")
	case classSet:
		err = s.set(ctx, q, sess)
	case classUse:
	case classKill:
		stats, err = s.kill(ctx, q, a)
	case classInsert:
		stats, err = s.insert(ctx, q)
	case classWrite:
		err = s.db.Exec(ctx, s.engineQuery(q))
	default:
		stats, err = s.db.Stream(ctx, s.engineQuery(q), a)
	}
	if err != nil {
		return err
	}
	return a.finish(stats)
}

// checkDatabase refuses every database but the store's own: the engine's connections are shared, so none can be moved to
// another. Tables elsewhere are reached by their full name.
func (s *Server) checkDatabase(q *request) error {
	name := q.http.Header.Get("X-ClickHouse-Database")
	if v := q.args.Get("database"); v != "" {
		name = v
	}
	if q.stmt.class == classUse {
		name = q.stmt.database
	}
	if name == "" || name == "default" {
		return nil
	}
	var found strings.Builder
	_, err := s.db.Stream(q.http.Context(), store.Query{
		SQL: "SELECT count() FROM system.databases WHERE name = {name:String}", Params: map[string]string{"name": store.Text(name)},
	}, &found)
	switch {
	case err != nil:
		return err
	case strings.TrimSpace(found.String()) == "0":
		return &store.Error{Code: store.CodeUnknownDatabase, Name: "UNKNOWN_DATABASE", Message: "Database " + name + " does not exist"}
	}
	return &store.Error{Code: codeNotImplemented, Name: "NOT_IMPLEMENTED", Message: "the current database is always default; name tables of others as " + name + ".table"}
}

// engineQuery is the statement as the engine gets it.
func (s *Server) engineQuery(q *request) store.Query {
	if q.readonly > 0 {
		q.settings["readonly"] = "2"
	}
	if q.stmt.class == classRead && !isPiecewise(q.format) {
		if _, ok := q.settings["max_result_bytes"]; !ok {
			q.settings["max_result_bytes"] = strconv.FormatInt(int64(s.cfg.MaxHeldResult), 10)
		}
	}
	return store.Query{SQL: q.stmt.sql, Params: q.params, Settings: q.settings, ID: q.id, Format: q.format,
		Priority: store.ParsePriority(q.http.Header.Get(store.PriorityHeader))}
}

// isPiecewise says that the engine can stream that format, so that its size needs no bound.
func isPiecewise(format string) bool {
	base := strings.TrimSuffix(strings.TrimSuffix(format, "WithNamesAndTypes"), "WithNames")
	switch base {
	case "Native", "RowBinary", "JSONEachRow", "NDJSON", "JSONLines", "JSONStringsEachRow", "JSONCompactEachRow", "JSONCompactStringsEachRow",
		"TabSeparated", "TSV", "TabSeparatedRaw", "TSVRaw", "CSV", "LineAsString", "RawBLOB", "Vertical", "MsgPack", "Null":
		return true
	}
	return false
}

// set keeps settings in the session after the engine has accepted them. Without a session they are checked and forgotten,
// as in ClickHouse.
func (s *Server) set(ctx context.Context, q *request, sess *session) error {
	settings, params := map[string]string{}, map[string]string{}
	for _, one := range q.stmt.settings {
		switch name, isParam := strings.CutPrefix(one.name, "param_"); {
		case isParam:
			params[name] = one.value
		case !reserved[one.name]:
			settings[one.name] = one.value
		}
	}
	if len(settings) > 0 {
		if err := s.db.Exec(ctx, store.Query{SQL: "SELECT 1", Settings: settings}); err != nil {
			return err
		}
	}
	if sess != nil {
		s.sessions.set(sess.key, settings, params)
	}
	return nil
}

// kill ends a statement that came in here. Its id is not the engine's, so KILL QUERY is understood here, in the form
// WHERE query_id = 'id'.
func (s *Server) kill(ctx context.Context, q *request, w io.Writer) (store.Stats, error) {
	id, ok := killedID(q)
	if !ok {
		if !q.user.Admin {
			return store.Stats{}, &store.Error{Code: codeNotImplemented, Name: "NOT_IMPLEMENTED", Message: "KILL QUERY is understood as KILL QUERY WHERE query_id = 'id'"}
		}
		return s.db.Stream(ctx, store.Query{SQL: q.stmt.sql, Params: q.params, Format: q.format}, w)
	}
	user, sql, found := s.running.kill(id, &q.user.User)
	limit := "0"
	if found {
		limit = "1"
	}
	return s.db.Stream(ctx, store.Query{
		SQL:    "SELECT 'waiting' AS kill_status, {id:String} AS query_id, {user:String} AS user, {sql:String} AS query LIMIT {limit:UInt8}",
		Params: map[string]string{"id": store.Text(id), "user": store.Text(user), "sql": store.Text(sql), "limit": limit}, Format: q.format,
	}, w)
}

// killedID reads KILL QUERY WHERE query_id = 'id' or = {name:String}.
func killedID(q *request) (string, bool) {
	sql := q.stmt.sql // without FORMAT
	all, err := parseAll(sql)
	if err != nil {
		return "", false
	}
	t := all.tokens
	if len(t) < 6 || upper(sql, t[1]) != "QUERY" || upper(sql, t[2]) != "WHERE" || upper(sql, t[3]) != "QUERY_ID" || sql[t[4].start] != '=' {
		return "", false
	}
	rest := t[6:]
	var id string
	switch {
	case t[5].kind == text:
		id = bare(t[5], sql)
	case sql[t[5].start] == '{' && len(t) >= 10 && sql[t[9].start] == '}':
		id = q.params[sql[t[6].start:t[6].end]]
		rest = t[10:]
	default:
		return "", false
	}
	if len(rest) > 0 {
		if w := upper(sql, rest[0]); len(rest) > 1 || w != "SYNC" && w != "ASYNC" && w != "TEST" {
			return "", false
		}
	}
	return id, true
}

// insert hands the data of an INSERT to the engine.
func (s *Server) insert(ctx context.Context, q *request) (store.Stats, error) {
	if s.raw == nil {
		return store.Stats{}, &store.Error{Code: codeNotImplemented, Name: "NOT_IMPLEMENTED", Message: "this store takes no inserts over HTTP"}
	}
	if len(q.params) > 0 && q.stmt.inline {
		return s.insertWithParams(ctx, q)
	}
	eq := s.engineQuery(q)
	eq.Params, eq.Format = nil, q.stmt.format
	data := q.body
	if q.stmt.inline && !q.user.Outside {
		var err error
		if data, err = s.guardValues(q, eq.Settings); err != nil {
			return store.Stats{}, err
		}
	}
	return s.raw.InsertRaw(ctx, eq, data)
}

// guardValues looks at VALUES, which may be expressions. Those too long to look at are taken as plain values only.
func (s *Server) guardValues(q *request, settings map[string]string) (io.Reader, error) {
	limit := int64(s.cfg.MaxQuerySize)
	data, err := io.ReadAll(io.LimitReader(q.body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		settings["input_format_values_interpret_expressions"] = "0"
		return io.MultiReader(bytes.NewReader(data), q.body), nil
	}
	st, err := parseAll(string(data))
	if err != nil {
		return nil, err
	}
	return bytes.NewReader(data), s.guard.tokens(&q.user.User, string(data), st)
}

// insertWithParams is for VALUES with parameters among them, which the engine must see as one statement.
func (s *Server) insertWithParams(ctx context.Context, q *request) (store.Stats, error) {
	limit := int64(s.cfg.MaxQuerySize)
	data, err := io.ReadAll(io.LimitReader(q.body, limit+1))
	if err != nil {
		return store.Stats{}, err
	}
	if int64(len(data)) > limit {
		return store.Stats{}, tooLarge(int(limit))
	}
	whole := q.stmt.sql + " VALUES " + string(data)
	st, err := parseAll(whole)
	if err != nil {
		return store.Stats{}, err
	}
	if err := s.guard.tokens(&q.user.User, whole, st); err != nil {
		return store.Stats{}, err
	}
	eq := s.engineQuery(q)
	eq.SQL = whole
	return store.Stats{}, s.db.Exec(ctx, eq)
}

// open sets the headers of a good answer and puts its compressors in place.
func (a *answer) open(q *request) error {
	h := a.w.Header()
	h.Set("X-ClickHouse-Query-Id", q.id)
	h.Set("X-ClickHouse-Format", q.format)
	h.Set("X-ClickHouse-Exception-Tag", a.tag)
	h.Set("Content-Type", contentType(q.format))
	h.Set("Cache-Control", "no-store")
	if isTrue(q.args, "send_progress_in_http_headers") {
		h.Set("X-ClickHouse-Progress", "{}")
	}
	a.wait = isTrue(q.args, "wait_end_of_query") || isTrue(q.args, "http_wait_end_of_query")
	for _, name := range []string{"buffer_size", "http_response_buffer_size"} {
		if n, err := strconv.Atoi(q.args.Get(name)); err == nil && n > 0 {
			a.hold = min(a.hold, n)
		}
	}
	var top io.Writer = sink{a}
	if encoding := chooseEncoding(q.http.Header.Get("Accept-Encoding")); encoding != "" && !isFalse(q.args, "enable_http_compression") {
		level, _ := strconv.Atoi(q.args.Get("http_zlib_compression_level")) // not a number: the default
		e, err := newEncoder(top, encoding, level)
		if err != nil {
			return err
		}
		h.Set("Content-Encoding", encoding)
		h.Set("Vary", "Accept-Encoding")
		a.encoders = []encoder{e}
		top = e
	}
	if isTrue(q.args, "compress") {
		b := newBlockWriter(top, q.args.Get("network_compression_method"))
		a.encoders = append([]encoder{b}, a.encoders...)
		top = b
	}
	a.plain = top
	if v := q.args.Get("client_protocol_version"); v != "" && q.format == "Native" {
		revision, err := strconv.Atoi(v)
		if err != nil || revision < 0 {
			return badArgument("client_protocol_version %q", v)
		}
		if revision > 0 {
			top = &nativeWriter{dst: top, revision: revision}
		}
	}
	a.top = top
	return nil
}

// contentType is what ClickHouse says of a format.
func contentType(format string) string {
	switch {
	case format == "JSON" || strings.HasPrefix(format, "JSONCompact") && !strings.Contains(format, "EachRow") || format == "JSONStrings" || format == "JSONColumns" || format == "JSONColumnsWithMetadata":
		return "application/json; charset=UTF-8"
	case strings.HasPrefix(format, "JSON") || format == "NDJSON":
		return "application/x-ndjson; charset=UTF-8"
	case strings.HasPrefix(format, "CSV"):
		return "text/csv; charset=UTF-8; header=" + map[bool]string{true: "present", false: "absent"}[strings.Contains(format, "WithNames")]
	case strings.HasPrefix(format, "TabSeparated") || strings.HasPrefix(format, "TSV"):
		return "text/tab-separated-values; charset=UTF-8"
	case format == "XML":
		return "application/xml; charset=UTF-8"
	case format == "Native" || strings.HasPrefix(format, "RowBinary") || format == "Parquet" || format == "ORC" || format == "Avro" || strings.HasPrefix(format, "Arrow") || format == "MsgPack":
		return "application/octet-stream"
	}
	return "text/plain; charset=UTF-8"
}
