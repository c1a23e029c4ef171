package main

import "github.com/spf13/cobra"

// commands are the subcommands, in the order in which help lists them.
var commands = func() []func(*globalOptions) *cobra.Command {
	var list []func(*globalOptions) *cobra.Command
	for _, r := range roles {
		list = append(list, newRoleCommand(r))
	}
	return append(list, newImportCommand, newImportsCommand, newNginxCommand, newCertsCommand, newSpoolCommand, newBusCommand, newStoreCommand, newLedgerCommand, newBenchCommand, newConfigCommand)
}()
