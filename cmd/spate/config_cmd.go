package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spate-io/spate/internal/config"
)

func newConfigCommand(opts *globalOptions) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Print or check the configuration"}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "print",
			Short: "Print the configuration in force: defaults, file and environment together, secrets masked",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				cfg, err := opts.load()
				if err != nil {
					return err
				}
				return config.Print(cmd.OutOrStdout(), cfg)
			},
		},
		&cobra.Command{
			Use:   "check",
			Short: "Check the configuration and say everything that is wrong with it",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if _, err := opts.load(); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), "ok")
				return nil
			},
		},
	)
	return cmd
}
