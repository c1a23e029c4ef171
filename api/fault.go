package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spate-io/spate/analytics"
	"github.com/spate-io/spate/store"
)

// fault is an error that the caller is told: HTTP status, and code and message of the API's vocabulary.
type fault struct {
	status int
	errs   []apiError
}

// apiError is one entry of an envelope's errors.
type apiError struct {
	Code    int     `json:"code"`
	Message string  `json:"message"`
	Chain   []cause `json:"error_chain,omitempty"`
}

// cause says what led to an apiError.
type cause struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error gives the messages.
func (f *fault) Error() string {
	var text []string
	for _, e := range f.errs {
		text = append(text, fmt.Sprintf("%d %s", e.Code, e.Message))
	}
	return strings.Join(text, "; ")
}

func newFault(status, code int, message string, chain ...cause) *fault {
	return &fault{status, []apiError{{code, message, chain}}}
}

// The faults that callers of the original API know.
func errHeaders(code int, what string) *fault {
	return newFault(http.StatusBadRequest, 6003, "Invalid request headers", cause{Code: code, Message: "Invalid format for " + what + " header"})
}

func errNoCredentials() *fault {
	return newFault(http.StatusUnauthorized, 10000, "Authentication error")
}

func errForbidden() *fault { return newFault(http.StatusForbidden, 10000, "Authentication error") }

func errToken() *fault { return newFault(http.StatusForbidden, 9109, "Invalid access token") }

func errKey() *fault {
	return newFault(http.StatusForbidden, 9103, "Unknown X-Auth-Key or X-Auth-Email")
}

func errNoObject(path string) *fault {
	return newFault(http.StatusNotFound, 7003,
		"Could not route to "+strings.TrimPrefix(path, "/client/v4")+", perhaps your object identifier is invalid?")
}

func errNoRoute(path string) *fault {
	f := errNoObject(path)
	f.errs = append(f.errs, apiError{Code: 7000, Message: "No route for that URI"})
	return f
}

func errInterval(detail string) *fault {
	return newFault(http.StatusBadRequest, 1005, "Please check time interval or your plan level", cause{Code: 1005, Message: detail})
}

// Faults of our own.
func errParameter(name, rule string) *fault {
	return newFault(http.StatusBadRequest, 1004, "Invalid parameter "+name+": "+rule)
}

func errBusy() *fault {
	return newFault(http.StatusTooManyRequests, 971, "Please wait and consider throttling your request speed")
}

func errHost() *fault {
	return newFault(http.StatusForbidden, 1010, "Without tokens only requests to a loopback address are answered")
}

// faultOf maps any error to what the caller is told; hidden says that the true reason is for the log only.
func faultOf(err error) (f *fault, hidden bool) {
	switch {
	case errors.As(err, &f):
		return f, false
	case errors.Is(err, analytics.ErrRange):
		return errInterval(err.Error()), false
	case errors.Is(err, analytics.ErrQuestion):
		return newFault(http.StatusBadRequest, 1004, err.Error()), false
	case errors.Is(err, context.DeadlineExceeded), store.IsCode(err, store.CodeTimeout):
		return newFault(http.StatusGatewayTimeout, 1101, "The question took too long: ask for a shorter time"), true
	case errors.Is(err, analytics.ErrBusy), store.IsCode(err, store.CodeTooManyQueries), store.IsCode(err, store.CodeMemoryLimit):
		return errBusy(), true
	default:
		return newFault(http.StatusInternalServerError, 1000, "The store cannot answer now"), true
	}
}
