package main

import "github.com/spf13/cobra"

// serveRole is the embedded store alone, for roles in other processes.
var serveRole = role{
	name: "serve", short: "Run the embedded store alone, behind ClickHouse's HTTP interface",
	long: `Run the embedded store alone, behind ClickHouse's HTTP interface at store.serve.listen (127.0.0.1:8123 by default).
Loaders, the API and other programs use it as clickhouse://host:8123.`,
	parts: []partName{partHTTP, partStore, partServe},
}

// defaultServe is where "store serve" listens when the configuration does not say.
const defaultServe = "127.0.0.1:8123"

func newStoreCommand(opts *globalOptions) *cobra.Command {
	cmd := &cobra.Command{Use: "store", Short: "The store: serve it, plan it, back it up, check it, erase from it"}
	cmd.AddCommand(newRoleCommand(serveRole)(opts), newBackupCommand(opts), newRestoreCommand(opts), newCheckCommand(opts), newEraseCommand(opts), newPlanCommand(opts), newApplyCommand(opts), newMoveCommand(opts))
	return cmd
}
