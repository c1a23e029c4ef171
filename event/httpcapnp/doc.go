// Package httpcapnp is the code that the Go library of Cap'n Proto generates for http.capnp. It is for tools and tests
// which want a general library; it is some thirty times slower than package event, which the pipeline uses.
//
// The schema itself has no annotations for Go, so that the stock capnp tool compiles it alone. The generator adds them to a
// copy; it needs the capnp tool.
package httpcapnp

//go:generate go run ./internal/gen
