package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-io/spate/analytics"
	"github.com/spate-io/spate/api"
	"github.com/spate-io/spate/internal/config"
)

// ledgerOptions are the flags of `spate ledger`.
type ledgerOptions struct {
	since, until string
	url, token   string
	wait         time.Duration
	asJSON       bool
}

func newLedgerCommand(opts *globalOptions) *cobra.Command {
	var o ledgerOptions
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Say in one line whether a span is complete",
		Long: `Ask a running Spate what became of the events of a span, and say in one line whether all of them are stored, each once.
The exit code is 3 when they are not; the line then says why.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := opts.load()
			if err != nil {
				return err
			}
			if err := o.complete(cfg); err != nil {
				return usageError{err}
			}
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.since, "since", "1h", "start of the span: a time (RFC 3339), or how long ago")
	f.StringVar(&o.until, "until", "", "end of the span, in the same forms (default now)")
	f.StringVar(&o.url, "url", "", "where the API is (default from http.listen)")
	f.StringVar(&o.token, "token", "", "token with the scope system (default $SPATE_TOKEN, else one of api.tokens)")
	f.DurationVar(&o.wait, "wait", 0, "ask again for so long while the span is not complete")
	f.BoolVar(&o.asJSON, "json", false, "print the whole answer as JSON")
	return cmd
}

// complete fills in what follows from the configuration.
func (o *ledgerOptions) complete(cfg *Config) error {
	if o.url == "" {
		o.url = "http://" + thisMachine(cfg.HTTP.Listen)
	}
	if o.token == "" {
		o.token = os.Getenv("SPATE_TOKEN")
	}
	for _, t := range cfg.API.Tokens {
		if o.token == "" && (len(t.Scopes) == 0 || slices.Contains(t.Scopes, api.ScopeSystem)) {
			o.token = t.Token.Reveal()
		}
	}
	now := time.Now()
	var err error
	if o.since, err = momentText(o.since, now); err != nil {
		return fmt.Errorf("--since: %w", err)
	}
	if o.until, err = momentText(o.until, now); err != nil {
		return fmt.Errorf("--until: %w", err)
	}
	return nil
}

// thisMachine gives an address of this machine for one that means all addresses.
func thisMachine(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// momentText gives a time as the API reads it.
func momentText(s string, now time.Time) (string, error) {
	if s == "" {
		return "", nil
	}
	if _, err := time.Parse(time.RFC3339, s); err == nil {
		return s, nil
	}
	var ago config.Duration
	if err := ago.UnmarshalText([]byte(s)); err != nil || ago.D() < 0 {
		return "", fmt.Errorf("%q is no time (RFC 3339) and no length of time", s)
	}
	return now.Add(-ago.D()).UTC().Format(time.RFC3339), nil
}

// run asks and prints; errNo when the span is not complete.
func (o *ledgerOptions) run(ctx context.Context, out io.Writer) error {
	deadline := time.Now().Add(o.wait)
	for {
		raw, d, err := o.ask(ctx)
		if err != nil {
			return err
		}
		if !d.Complete && time.Now().Before(deadline) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second):
				continue
			}
		}
		if o.asJSON {
			_, err = fmt.Fprintf(out, "%s\n", raw)
		} else {
			_, err = fmt.Fprintln(out, verdict(d))
		}
		if err == nil && !d.Complete {
			err = errNo
		}
		return err
	}
}

// ask gets one answer, as it came and decoded.
func (o *ledgerOptions) ask(ctx context.Context) (json.RawMessage, *analytics.Delivery, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	q := url.Values{"since": {o.since}}
	if o.until != "" {
		q.Set("until", o.until)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(o.url, "/")+"/client/v4/system/delivery?"+q.Encode(), nil)
	if err != nil {
		return nil, nil, err
	}
	if o.token != "" {
		req.Header.Set("Authorization", "Bearer "+o.token)
	}
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("no Spate answers: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	var body struct {
		Success bool
		Errors  []struct{ Message string }
		Result  json.RawMessage
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 256<<20)).Decode(&body); err != nil {
		return nil, nil, fmt.Errorf("answer of %s (status %d): %w", o.url, res.StatusCode, err)
	}
	if !body.Success {
		why := "no reason given"
		if len(body.Errors) > 0 {
			why = body.Errors[0].Message
		}
		return nil, nil, fmt.Errorf("answer of %s (status %d): %w", o.url, res.StatusCode, errors.New(why))
	}
	var d analytics.Delivery
	if err := json.Unmarshal(body.Result, &d); err != nil {
		return nil, nil, fmt.Errorf("answer of %s: %w", o.url, err)
	}
	return body.Result, &d, nil
}

// verdict is the line.
func verdict(d *analytics.Delivery) string {
	edges := fmt.Sprintf("%d edges", len(d.Edges))
	if len(d.Edges) == 1 {
		edges = "1 edge"
	}
	t := &d.Totals
	line := fmt.Sprintf("%s events from %s, %s lost, %s duplicate batches dropped, %s late, up to %s",
		grouped(t.Stored), edges, grouped(t.Dropped), grouped(t.Duplicates), grouped(t.Late), d.Settled.UTC().Format(time.RFC3339))
	if d.Complete {
		return "complete: " + line
	}
	return "NOT complete: " + line + "; " + strings.Join(d.Reasons, "; ")
}

// grouped writes a number with a comma before each three digits.
func grouped(n uint64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
