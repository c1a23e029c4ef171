package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spate-io/spate/store"
)

// asEngineError gives err the form of an exception of the engine.
func asEngineError(err error) *store.Error {
	var e *store.Error
	switch {
	case errors.As(err, &e):
		if e.Code == 0 {
			return &store.Error{Code: 1001, Name: "STD_EXCEPTION", Message: e.Message}
		}
		return e
	case errors.Is(err, context.Canceled):
		return &store.Error{Code: store.CodeCancelled, Name: "QUERY_WAS_CANCELLED", Message: "Query was cancelled"}
	case errors.Is(err, context.DeadlineExceeded):
		return &store.Error{Code: store.CodeTimeout, Name: "TIMEOUT_EXCEEDED", Message: "Timeout exceeded"}
	case errors.Is(err, store.ErrClosed):
		return &store.Error{Code: 236, Name: "ABORTED", Message: "the store is closing"}
	}
	return &store.Error{Code: 1001, Name: "STD_EXCEPTION", Message: err.Error()}
}

// exceptionText is how ClickHouse writes an exception into an answer.
func exceptionText(e *store.Error, version string) string {
	name := ""
	if e.Name != "" {
		name = " (" + e.Name + ")"
	}
	return fmt.Sprintf("Code: %d. DB::Exception: %s.%s (version %s)\n", e.Code, strings.TrimSuffix(e.Message, "."), name, version)
}

// statusOf is the HTTP status that ClickHouse gives an exception.
func statusOf(code int) int {
	switch code {
	case codeNoCredentials:
		return http.StatusUnauthorized
	case codeUnknownUser, 193, codeAuth, codeAccessDenied, store.CodeReadonly:
		return http.StatusForbidden
	case 6, 26, 27, 38, 41, 43, 53, 63, 69, 70, 72, 131, 190, codeBadArguments, codeIncorrectData, store.CodeSyntax, 427, 489, 42, 34, 35, 33, 271, codeSettingBound:
		return http.StatusBadRequest
	case 16, 46, 47, 50, 56, store.CodeUnknownTable, codeUnknownFormat, 78, store.CodeUnknownDatabase, codeUnknownSetting, 124, codeNoSession, 511:
		return http.StatusNotFound
	case codeQueryTooLarge:
		return http.StatusRequestEntityTooLarge
	case codeNotImplemented:
		return http.StatusNotImplemented
	case 209, 76, store.CodeTooManyQueries, 236, 439:
		return http.StatusServiceUnavailable
	case codeHTTPLength:
		return http.StatusLengthRequired
	case store.CodeTimeout:
		return http.StatusRequestTimeout
	}
	return http.StatusInternalServerError
}
