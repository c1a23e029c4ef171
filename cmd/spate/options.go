package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spate-io/spate/internal/config"
)

// systemConfig is read when neither --config nor $SPATE_CONFIG names a file.
const systemConfig = "/etc/spate/spate.yaml"

// globalOptions are the flags that every command has.
type globalOptions struct{ configPath string }

// load reads the configuration in force: defaults, file, environment, and the paths that follow from data_dir.
func (o *globalOptions) load() (*Config, error) {
	path := o.configPath
	if path == "" {
		path = os.Getenv("SPATE_CONFIG")
	}
	if path == "" {
		if _, err := os.Stat(systemConfig); err == nil {
			path = systemConfig
		}
	}
	cfg := DefaultConfig()
	if err := config.ReadFile(path, &cfg); err != nil {
		return nil, usageError{err}
	}
	if err := cfg.resolve(); err != nil {
		return nil, usageError{err}
	}
	return &cfg, nil
}

// logConfig is the `log` section.
type logConfig struct {
	Level  string `yaml:"level"`  // debug, info, warn or error
	Format string `yaml:"format"` // text or json
}

// Validate checks the section.
func (c *logConfig) Validate(p *config.Problems) {
	var level slog.Level
	p.Check(level.UnmarshalText([]byte(c.Level)) == nil, "level", c.Level, "must be debug, info, warn or error")
	p.Check(c.Format == "text" || c.Format == "json", "format", c.Format, "must be text or json")
}

// logger writes to w as the section says.
func (c *logConfig) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // Validate has refused it before
	}
	opts := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// makeDir makes the data directory, which nobody else needs to read.
func makeDir(path string) error {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	return nil
}
