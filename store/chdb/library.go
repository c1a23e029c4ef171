package chdb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// libraryEnv names a libchdb.so that wins over every other place.
const libraryEnv = "SPATE_LIBCHDB"

const libraryName = "libchdb.so"

// ErrNoLibrary is part of the error of Open when libchdb.so is nowhere.
var ErrNoLibrary = errors.New("libchdb.so not found")

// FindLibrary gives the path of libchdb.so: the environment variable SPATE_LIBCHDB, then beside the binary
// (../lib/spate, and its own folder), then .cache/lib of the working directory or one above it, then /usr/lib/spate and
// /usr/local/lib. A path in the environment that does not exist is an error, not a reason to look on.
func FindLibrary() (string, error) {
	if p := os.Getenv(libraryEnv); p != "" {
		if _, err := os.Stat(p); err != nil {
			return "", fmt.Errorf("%s: %w", libraryEnv, err)
		}
		return p, nil
	}
	places := libraryPlaces()
	for _, p := range places {
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
			return p, nil
		}
	}
	return "", fmt.Errorf("%w: set %s or put it at one of %q", ErrNoLibrary, libraryEnv, places)
}

func libraryPlaces() []string {
	var places []string
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		dir := filepath.Dir(exe)
		places = append(places, filepath.Join(dir, "..", "lib", "spate", libraryName), filepath.Join(dir, libraryName))
	}
	if dir, err := os.Getwd(); err == nil {
		for {
			places = append(places, filepath.Join(dir, ".cache", "lib", libraryName))
			up := filepath.Dir(dir)
			if up == dir {
				break
			}
			dir = up
		}
	}
	return append(places, "/usr/lib/spate/"+libraryName, "/usr/local/lib/"+libraryName)
}

// library is the engine's C interface. Handles are opaque pointers to C memory. None of the functions keeps a pointer to
// Go memory after it has returned.
type library struct {
	path string

	connect    func(argc int32, argv unsafe.Pointer) unsafe.Pointer
	closeConn  func(conn unsafe.Pointer)
	version    func() string
	setSignals func(enabled int32)

	query      func(conn, sql unsafe.Pointer, sqlLen uintptr, format unsafe.Pointer, formatLen uintptr, names, nameLens, values, valueLens unsafe.Pointer, count uintptr) unsafe.Pointer
	stream     func(conn, sql unsafe.Pointer, sqlLen uintptr, format unsafe.Pointer, formatLen uintptr, names, nameLens, values, valueLens unsafe.Pointer, count uintptr) unsafe.Pointer
	fetch      func(conn, stream unsafe.Pointer) unsafe.Pointer
	cancel     func(conn, stream unsafe.Pointer)
	destroy    func(result unsafe.Pointer)
	buffer     func(result unsafe.Pointer) unsafe.Pointer
	length     func(result unsafe.Pointer) uintptr
	failure    func(result unsafe.Pointer) unsafe.Pointer
	rowsRead   func(result unsafe.Pointer) uint64
	bytesRead  func(result unsafe.Pointer) uint64
	storedRows func(result unsafe.Pointer) uint64
	storedSize func(result unsafe.Pointer) uint64

	insert        func(conn, sql unsafe.Pointer, sqlLen uintptr, format unsafe.Pointer, formatLen uintptr) unsafe.Pointer
	insertAppend  func(stream, data unsafe.Pointer, n uintptr) int32
	insertDone    func(stream unsafe.Pointer) unsafe.Pointer
	insertCancel  func(stream unsafe.Pointer)
	insertFailure func(stream unsafe.Pointer) unsafe.Pointer
	insertDestroy func(stream unsafe.Pointer)

	backup  func(conn, database unsafe.Pointer, databaseLen uintptr, file unsafe.Pointer, fileLen uintptr, base unsafe.Pointer, baseLen uintptr) unsafe.Pointer
	restore func(conn, database unsafe.Pointer, databaseLen uintptr, file unsafe.Pointer, fileLen uintptr) unsafe.Pointer
}

// loaded is process state because the thing it stands for is: a shared library is mapped once, and unloading the engine
// is not possible.
var loaded struct {
	sync.Mutex
	lib *library
}

// load maps libchdb once per process and keeps Go's signal handlers. A second call with another path gives the first.
func load(path string) (*library, error) {
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.lib != nil {
		return loaded.lib, nil
	}
	if path == "" {
		var err error
		if path, err = FindLibrary(); err != nil {
			return nil, err
		}
	}
	defer keepSignals()()
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	lib := &library{path: path}
	if err := lib.bind(handle); err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	lib.setSignals(0)
	loaded.lib = lib
	return lib, nil
}

func (l *library) bind(handle uintptr) error {
	for _, s := range []struct {
		name string
		fn   any
	}{
		{"chdb_connect", &l.connect},
		{"chdb_close_conn", &l.closeConn},
		{"chdb_version", &l.version},
		{"chdb_set_signal_handlers_enabled", &l.setSignals},
		{"chdb_query_with_params_n", &l.query},
		{"chdb_stream_query_with_params_n", &l.stream},
		{"chdb_stream_fetch_result", &l.fetch},
		{"chdb_stream_cancel_query", &l.cancel},
		{"chdb_destroy_query_result", &l.destroy},
		{"chdb_result_buffer", &l.buffer},
		{"chdb_result_length", &l.length},
		{"chdb_result_error", &l.failure},
		{"chdb_result_rows_read", &l.rowsRead},
		{"chdb_result_bytes_read", &l.bytesRead},
		{"chdb_result_storage_rows_read", &l.storedRows},
		{"chdb_result_storage_bytes_read", &l.storedSize},
		{"chdb_stream_insert_n", &l.insert},
		{"chdb_stream_append", &l.insertAppend},
		{"chdb_stream_done", &l.insertDone},
		{"chdb_stream_cancel_insert", &l.insertCancel},
		{"chdb_stream_insert_error", &l.insertFailure},
		{"chdb_destroy_insert_stream", &l.insertDestroy},
		{"chdb_backup_database_n", &l.backup},
		{"chdb_restore_database_n", &l.restore},
	} {
		sym, err := purego.Dlsym(handle, s.name)
		if err != nil {
			return fmt.Errorf("it is too old for this program: %w", err)
		}
		purego.RegisterFunc(s.fn, sym)
	}
	return nil
}

// text copies a NUL-terminated C string; nil gives "".
func text(p unsafe.Pointer) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}

// bytesAt gives the address of s for a call; the caller keeps s alive.
func bytesAt(s string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(s)) }
