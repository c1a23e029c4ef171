// Package wire is how batches travel from an edge to a gateway: frames on an ordered, reliable connection, batches one way
// and acknowledgements the other. docs/format/wire.md has the bytes.
//
// Reader and Writer are the frames of both sides. Shipper is the edge's side: it sends what a spool cursor gives, keeps a
// window in flight, commits what is acknowledged, and connects again for as long as it runs. Dialer is where connections
// come from: TLS over TCP, or a pipe inside the process with the same frames on it.
//
// The invariant: the shipper commits a batch only when the gateway has said that it is durable, or has refused it and it is
// set aside.
package wire

import (
	"errors"
	"fmt"
)

// Version is the version of the protocol that this package speaks.
const Version = 1

// Type says what a frame is.
type Type uint8

// The frames.
const (
	TypeHello   Type = 1 // edge → gateway, first
	TypeWelcome Type = 2 // gateway → edge, its answer
	TypeBatch   Type = 3 // edge → gateway
	TypeAck     Type = 4 // gateway → edge: all up to n are done
	TypeRefuse  Type = 5 // gateway → edge: n is not taken, all before it are done
	TypePing    Type = 6 // both ways
	TypePong    Type = 7 // both ways, with the ping's token
	TypeGoAway  Type = 8 // gateway → edge: send no more, connect again
)

// String is the name of the frame.
func (t Type) String() string {
	switch t {
	case TypeHello:
		return "hello"
	case TypeWelcome:
		return "welcome"
	case TypeBatch:
		return "batch"
	case TypeAck:
		return "ack"
	case TypeRefuse:
		return "refuse"
	case TypePing:
		return "ping"
	case TypePong:
		return "pong"
	case TypeGoAway:
		return "goaway"
	}
	return fmt.Sprintf("type_%d", uint8(t))
}

// Sizes.
const (
	FrameHeader = 8
	batchNumber = 8       // before the batch in a batch frame
	MaxControl  = 4 << 10 // body of any frame but a batch
	MaxText     = 1 << 10 // reason or description
)

// Code says why a batch is refused or a connection ended.
type Code uint16

// Why a batch is refused. The edge sets the batch aside and goes on.
const (
	RefuseHeader   Code = 1 // the header is not one
	RefuseChecksum Code = 2 // the payload is not the one that was sealed
	RefuseTooLarge Code = 3 // batch or payload above a limit
	RefuseEdge     Code = 4 // the batch names another edge than the certificate
	RefusePayload  Code = 5 // the payload cannot be unpacked
	RefuseEvents   Code = 6 // a message in it is not well formed
	RefuseCount    Code = 7 // not as many events as declared
	RefuseTimes    Code = 8 // the times are not those declared
	RefuseBus      Code = 9 // the bus will never take it
)

// Why a connection is ended by the gateway. The edge connects again.
const (
	GoAwayShutdown    Code = 1 // the gateway stops
	GoAwayOverload    Code = 2 // too many connections
	GoAwayProtocol    Code = 3 // the edge broke the protocol
	GoAwayForbidden   Code = 4 // the edge may not connect
	GoAwayVersion     Code = 5 // no version in common
	GoAwayUnavailable Code = 6 // the bus does not take batches now
)

var codeNames = [...]string{"", "header", "checksum", "too_large", "edge", "payload", "events", "count", "times", "bus"}

// RefuseName is the name of a refusal's code, for logs and metrics; bounded.
func (c Code) RefuseName() string {
	if int(c) > 0 && int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "other"
}

// What can be wrong on a connection.
var (
	ErrFrame    = errors.New("frame is malformed")
	ErrTooLarge = errors.New("frame is too large")
	ErrVersion  = errors.New("no protocol version in common")
)

// GoAwayError is why the other side ended the connection.
type GoAwayError struct {
	Code Code
	Text string
}

// Error gives code and text.
func (e *GoAwayError) Error() string {
	return fmt.Sprintf("gateway said go away (%d): %s", e.Code, e.Text)
}
