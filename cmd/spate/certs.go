package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spate-io/spate/internal/certs"
)

func newCertsCommand(opts *globalOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use: "certs", Short: "The private authority, and certificates for gateways and edges",
		Long: `A private authority signs a certificate for the gateways and one for each edge. An edge is who its certificate says and
nobody else. Files are read again when they change, so nothing needs a restart.`,
	}
	authority := func() (*certs.Authority, error) {
		cfg, err := opts.load()
		if err != nil {
			return nil, err
		}
		return certs.Init(cfg.CertsDir)
	}
	print := func(cmd *cobra.Command, f certs.Files) {
		fmt.Fprintf(cmd.OutOrStdout(), "ca           %s\ncertificate  %s\nkey          %s\n", f.CA, f.Certificate, f.Key)
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "init [HOST...]", Short: "Make the authority, and a certificate for gateways that are reached as these hosts",
			RunE: func(cmd *cobra.Command, hosts []string) error {
				a, err := authority()
				if err != nil {
					return err
				}
				if len(hosts) == 0 {
					hosts = []string{"localhost", "127.0.0.1", "::1"}
				}
				f, err := a.Gateway(hosts...)
				if err == nil {
					print(cmd, f)
				}
				return err
			},
		},
		&cobra.Command{
			Use: "edge NAME", Short: "Make a certificate for the edge of that name; copy the three files to it", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				a, err := authority()
				if err != nil {
					return err
				}
				f, err := a.Edge(args[0])
				if err == nil {
					print(cmd, f)
				}
				return err
			},
		},
	)
	return cmd
}
