package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spate-io/spate/store"
)

// request is one call of the interface, taken apart.
type request struct {
	http     *http.Request
	args     url.Values
	user     *account
	readonly int
	id       string
	params   map[string]string
	settings map[string]string // for the engine
	format   string            // default format
	stmt     *statement
	text     string    // the statement's text; for an INSERT with data, as much of the body as was read with it
	body     io.Reader // the data of an INSERT, uncompressed; nil otherwise
	done     func()    // releases decompressors
}

// reserved are the parameters that are not settings of the engine.
var reserved = map[string]bool{
	"query": true, "database": true, "user": true, "password": true, "quota_key": true, "query_id": true, "stacktrace": true,
	"role": true, "session_id": true, "session_timeout": true, "session_check": true, "close_session": true, "session_timezone_check": true,
	"default_format": true, "compress": true, "decompress": true, "wait_end_of_query": true, "buffer_size": true, "http_response_buffer_size": true,
	"client_protocol_version": true, "replace_running_query": true, "readonly": true,
	// Settings that the server itself understands.
	"enable_http_compression": true, "http_zlib_compression_level": true, "send_progress_in_http_headers": true,
	"http_headers_progress_interval_ms": true, "cancel_http_readonly_queries_on_client_close": true, "add_http_cors_header": true,
	"network_compression_method": true, "network_zstd_compression_level": true, "http_write_exception_in_output_format": true,
	"http_native_compression_disable_checksumming_on_decompress": true, "http_wait_end_of_query": true, "http_make_head_request": true,
}

func syntaxError(format string, args ...any) error {
	return &store.Error{Code: store.CodeSyntax, Name: "SYNTAX_ERROR", Message: fmt.Sprintf(format, args...)}
}

func badArgument(format string, args ...any) error {
	return &store.Error{Code: codeBadArguments, Name: "BAD_ARGUMENTS", Message: fmt.Sprintf(format, args...)}
}

// read takes a request apart up to its statement. The caller calls q.done.
func (s *Server) read(r *http.Request, args url.Values) (q *request, err error) {
	q = &request{http: r, args: args, params: map[string]string{}, settings: map[string]string{}, done: func() {}}
	plain, closing, err := uncompress(r.Body, r.Header.Get("Content-Encoding"))
	if err != nil {
		return q, err
	}
	q.done = closing
	if isTrue(args, "decompress") {
		plain = newBlockReader(plain)
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		if plain, err = s.readForm(r, args, plain); err != nil {
			return q, err
		}
	}
	head := args.Get("query")
	if head != "" {
		head += "\n"
	}
	if err := q.readStatement(head, plain, int(s.cfg.MaxQuerySize)); err != nil {
		return q, err
	}
	for name, values := range args {
		if param, ok := strings.CutPrefix(name, "param_"); ok {
			q.params[param] = values[len(values)-1]
		}
	}
	return q, nil
}

// readForm takes the fields of a form for arguments; the query may be one of them. Tables in files are not supported.
func (s *Server) readForm(r *http.Request, args url.Values, plain io.Reader) (io.Reader, error) {
	r.Body = io.NopCloser(io.LimitReader(plain, 4*int64(s.cfg.MaxQuerySize)))
	if err := r.ParseMultipartForm(int64(s.cfg.MaxQuerySize)); err != nil {
		return nil, badArgument("read form: %v", err)
	}
	if len(r.MultipartForm.File) > 0 {
		return nil, &store.Error{Code: codeNotImplemented, Name: "NOT_IMPLEMENTED", Message: "external tables are not supported"}
	}
	for name, values := range r.MultipartForm.Value {
		if name == "query" && args.Get("query") != "" {
			args.Set("query", args.Get("query")+"\n"+values[0])
			continue
		}
		args[name] = values
	}
	return bytes.NewReader(nil), nil
}

// readStatement reads the statement, which begins with head and goes on in body. Of an INSERT, what follows its FORMAT
// or VALUES stays in q.body.
func (q *request) readStatement(head string, body io.Reader, limit int) error {
	buf := make([]byte, 0, len(head)+4096)
	buf = append(buf, head...)
	whole := false
	for !whole && len(buf) < limit {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := body.Read(buf[len(buf):min(cap(buf), limit)])
		buf = buf[:len(buf)+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return bodyError(err)
		}
		whole = errors.Is(err, io.EOF)
		if !whole && len(buf) > len(head) && isInsertHead(buf, len(buf)-len(head) >= 4096) {
			break
		}
	}
	q.text = string(buf)
	var err error
	if q.stmt, err = parseStatement(q.text); err != nil {
		return err
	}
	if q.stmt.class == classInsert {
		q.body = io.MultiReader(strings.NewReader(q.text[q.stmt.data:]), &bodyReader{body})
		if q.stmt.data > limit {
			return tooLarge(limit)
		}
		return nil
	}
	if !whole {
		var one [1]byte
		if n, _ := io.ReadFull(body, one[:]); n > 0 {
			return tooLarge(limit)
		}
	}
	return nil
}

// isInsertHead says that buf holds a whole INSERT with the beginning of its data, so that no more need be read before it
// is understood. It looks only when there is enough data that a FORMAT's name cannot have been cut off.
func isInsertHead(buf []byte, enough bool) bool {
	if !enough {
		return false
	}
	s, err := parseStatement(string(buf))
	return err == nil && s.class == classInsert && s.data+1024 < len(buf)
}

func tooLarge(limit int) error {
	return &store.Error{Code: codeQueryTooLarge, Name: "QUERY_IS_TOO_LARGE", Message: fmt.Sprintf("Max query size exceeded: %d bytes", limit)}
}

// bodyReader names errors of the client's side.
type bodyReader struct{ r io.Reader }

// Read implements [io.Reader].
func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = bodyError(err)
	}
	return n, err
}

func bodyError(err error) error {
	var e *store.Error
	if errors.As(err, &e) {
		return err
	}
	return &store.Error{Code: 33, Name: "CANNOT_READ_ALL_DATA", Message: "read request body: " + err.Error()}
}

// authorise works out what the user may do in this request and collects the settings for the engine.
func (q *request) authorise(g *guard, session *session) error {
	q.readonly = q.user.Readonly
	if q.http.Method == http.MethodGet && q.readonly == 0 {
		q.readonly = 2 // as ClickHouse: a link must not change anything
	}
	if v := q.args.Get("readonly"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > 2 {
			return badArgument("readonly %q", v)
		}
		if q.user.Readonly == 1 && n != 1 {
			return settingReadonly("readonly")
		}
		if n > 0 && q.readonly != 1 {
			q.readonly = n
		}
	}
	if session != nil {
		for name, value := range session.settings {
			q.settings[name] = value
		}
	}
	// The limits of the user hold where neither the session nor the request sets a lower one.
	for name, bound := range q.user.bounds() {
		if _, ok := q.settings[name]; !ok {
			q.settings[name] = strconv.FormatUint(bound, 10)
		}
	}
	for name, values := range q.args {
		if reserved[name] || strings.HasPrefix(name, "param_") {
			continue
		}
		value := values[len(values)-1]
		if err := checkSetting(&q.user.User, q.readonly, name, value); err != nil {
			return err
		}
		q.settings[name] = value
	}
	return g.check(&q.user.User, q.readonly, q.text, q.stmt)
}

// outputFormat is the format of the answer: of the statement, else what the client prefers.
func (q *request) outputFormat() string {
	for _, f := range []string{q.stmt.format, q.http.Header.Get("X-ClickHouse-Format"), q.args.Get("default_format")} {
		if f != "" && q.stmt.class != classInsert {
			return f
		}
	}
	return "TabSeparated"
}

func isTrue(args url.Values, name string) bool {
	v := args.Get(name)
	return v == "1" || strings.EqualFold(v, "true")
}

func isFalse(args url.Values, name string) bool {
	v := args.Get(name)
	return v == "0" || strings.EqualFold(v, "false")
}
