// Package event is what one HTTP request looks like in Spate: its schema (http.capnp), the table of its fields, and a
// codec that writes and reads its Cap'n Proto form with fixed offsets and without allocations.
//
// HTTP is a request in Go form; HTTP.Append writes it as one message in standard framing. View reads a message in place.
// ReadHTTP checks everything that a View will ever touch, so a View's methods cannot fail, whatever the bytes were:
// that is the invariant of this package. It is not a general Cap'n Proto library; package event/httpcapnp has generated
// code for tools.
//
// http_gen.go is made from the table in fields.go. Adding a field means: add it at the end of http.capnp and of the
// table, run go generate, and let the tests compare the two.
package event

//go:generate go run ./internal/gen

// MaxMessage is the largest message in bytes, framing included, that is written or read.
const MaxMessage = 256 << 10

// MaxText is the number of bytes that Append keeps of each text of an event which would not fit into MaxMessage
// otherwise. Texts of events that do fit are never cut.
const MaxText = 8 << 10
