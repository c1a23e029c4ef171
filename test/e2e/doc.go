// Package e2e tests the built binary as a user meets it: real processes, real nginx, real sockets, kill -9. It reads
// nothing of Spate's insides: what it compares is nginx's own access log on one side and Spate's API on the other.
//
// SPATE_BIN names the binary (default bin/spate in the repository).
package e2e
