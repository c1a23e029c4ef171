// Package chaos kills, stops, cuts and fills everything that Spate consists of, for as long as one likes, while numbered
// events go in; and then asks whether each number is in the store exactly once. It runs the built binary, real processes
// and real sockets; what it breaks follows from a seed, so that a run can be repeated.
//
//	make chaos MINUTES=10 SEED=7
//
// The world (world_test.go) is one edge that ships to two data centres, the first with a process for each role and a store of
// its own behind ClickHouse's HTTP interface, the second one process; and beside them a machine that runs all roles in
// one process. plan_test.go says what is broken when, faults_test.go breaks it, verify_test.go counts.
package chaos
