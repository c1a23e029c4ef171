package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// ErrClosed is what every call gives after Close.
var ErrClosed = errors.New("store is closed")

// Error is what the engine said when it refused a statement.
type Error struct {
	// Code is ClickHouse's error number, 0 when the text had none.
	Code int
	// Name is its symbol, for example UNKNOWN_TABLE; empty when the text had none.
	Name string
	// Message is the text, without code, symbol and version.
	Message string
}

// Error gives code, symbol and message on one line.
func (e *Error) Error() string {
	switch {
	case e.Code == 0:
		return e.Message
	case e.Name == "":
		return fmt.Sprintf("code %d: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("code %d (%s): %s", e.Code, e.Name, e.Message)
}

// Retriable says whether the same statement may succeed later without anybody changing it.
func (e *Error) Retriable() bool { return retriableCodes[e.Code] }

// IsCode says whether err is an engine error with that number.
func IsCode(err error, code int) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// Codes that callers branch on.
const (
	CodeUnknownTable    = 60
	CodeUnknownDatabase = 81
	CodeSyntax          = 62
	CodeTimeout         = 159
	CodeReadonly        = 164
	CodeTooManyQueries  = 202
	CodeMemoryLimit     = 241
	CodeTooManyParts    = 252
	CodeCancelled       = 394
)

// retriableCodes are the errors that pass: overload, memory pressure, lost peers, replicas catching up.
var retriableCodes = map[int]bool{
	CodeTimeout:        true,
	198:                true, // DNS_ERROR
	CodeTooManyQueries: true,
	203:                true, // NO_FREE_CONNECTION
	209:                true, // SOCKET_TIMEOUT
	210:                true, // NETWORK_ERROR
	225:                true, // NO_ZOOKEEPER
	236:                true, // ABORTED
	CodeMemoryLimit:    true,
	242:                true, // TABLE_IS_READ_ONLY
	243:                true, // NOT_ENOUGH_SPACE
	CodeTooManyParts:   true,
	279:                true, // ALL_CONNECTION_TRIES_FAILED
	285:                true, // TOO_FEW_LIVE_REPLICAS
	286:                true, // UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
	319:                true, // UNKNOWN_STATUS_OF_INSERT
	364:                true, // REPLICA_IS_ALREADY_ACTIVE
	415:                true, // ALL_REPLICAS_LOST
	425:                true, // SYSTEM_ERROR
	439:                true, // CANNOT_SCHEDULE_TASK
	473:                true, // DEADLOCK_AVOIDED
	571:                true, // DATABASE_REPLICATION_FAILED
	733:                true, // TABLE_IS_BEING_RESTARTED
	999:                true, // KEEPER_EXCEPTION
}

// Retriable decides, for the whole of Spate, whether a failed call may be tried again as it was. An insert is safe to
// repeat whatever the error was, because of its token; the question is only whether it is of use. A cancelled context is
// never retriable: the caller wants to stop.
func Retriable(err error) bool {
	var e *Error
	var n net.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrClosed):
		return false
	case errors.As(err, &e):
		return e.Retriable()
	case errors.As(err, &n),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF),
		errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return true
	}
	return false
}

var (
	errorCode = regexp.MustCompile(`(?s)^\s*Code: (\d+)\. (?:DB::[A-Za-z]*Exception: )?(.*)$`)
	errorTail = regexp.MustCompile(`(?s)\s*\(([A-Z][A-Z0-9_]+)\)(?:\s*\(version [^)]*\))*\s*$`)
)

// ParseError reads the text of an engine's exception:
// "Code: 60. DB::Exception: Table x does not exist. (UNKNOWN_TABLE) (version 26.7.3)". Other text becomes an Error with
// that message and no code.
func ParseError(text string) *Error {
	text = strings.TrimSpace(text)
	m := errorCode.FindStringSubmatch(text)
	if m == nil {
		return &Error{Message: text}
	}
	e := &Error{Message: m[2]}
	e.Code, _ = strconv.Atoi(m[1])
	if t := errorTail.FindStringSubmatchIndex(e.Message); t != nil {
		e.Name = e.Message[t[2]:t[3]]
		e.Message = e.Message[:t[0]]
	}
	return e
}
