package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/spate-io/spate/edge/nginx"
)

func newNginxCommand(opts *globalOptions) *cobra.Command {
	cmd := &cobra.Command{Use: "nginx", Short: "The module for nginx"}
	var o nginx.Options
	install := &cobra.Command{
		Use:   "install DIR",
		Short: "Write the Lua module and the two files to include into DIR",
		Long: `Write the Lua module and two files to include: spate.conf goes once into http {}, spate_log.conf into each server {} that
is to be recorded. Nothing outside DIR is touched, and nginx is not reloaded.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := opts.load()
			if err != nil {
				return err
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return installModule(cmd, cfg, dir, o)
		},
	}
	install.Flags().StringVar(&o.Socket, "socket", "", "the forwarder's socket (default: of the configuration)")
	install.Flags().StringVar(&o.Edge, "edge", "", "name of this machine in events (default: its host name)")
	install.Flags().StringVar(&o.Colo, "colo", "", "code of the place where it stands (default: of the configuration)")
	install.Flags().StringVar(&o.Buffer, "buffer", "", "bytes of events that each worker keeps while the forwarder is away (default 8m)")
	cmd.AddCommand(install)
	return cmd
}

func installModule(cmd *cobra.Command, cfg *Config, dir string, o nginx.Options) error {
	if o.Socket == "" {
		o.Socket = cfg.Edge.Socket.Socket
	}
	if o.Colo == "" {
		o.Colo = cfg.Edge.Colo
	}
	o.LuaDir = filepath.Join(dir, "lua")
	if err := nginx.WriteTo(dir); err != nil {
		return fmt.Errorf("write module: %w", err)
	}
	http, err := nginx.Snippet(o)
	if err != nil {
		return usageError{err}
	}
	conf := filepath.Join(dir, "conf", "spate.conf")
	if err := os.WriteFile(conf, []byte(http), 0o644); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "in http {}:    include %s;\nin server {}:  include %s;\n", conf, filepath.Join(dir, "conf", "spate_log.conf"))
	return nil
}
