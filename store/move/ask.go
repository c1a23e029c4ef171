package move

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spate-io/spate/store"
)

// readSettings keep a question from taking the machine: it may take long instead.
func readSettings() map[string]string {
	return map[string]string{
		"max_execution_time": "0", "max_threads": "2", "max_block_size": "8192", "do_not_merge_across_partitions_select_final": "1",
	}
}

// tries and firstWait bound how long a move waits for a store that is away: about a minute.
const (
	tries     = 7
	firstWait = 500 * time.Millisecond
)

// again calls fn until it works or its error is one that stays.
func (m *mover) again(ctx context.Context, what string, fn func() error) error {
	wait := firstWait
	for n := 1; ; n++ {
		err := fn()
		if err == nil || n == tries || m.ending || !store.Retriable(err) || ctx.Err() != nil {
			return err
		}
		m.o.Note("%s: %v; trying again in %s", what, err, wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait *= 2
	}
}

// texts runs a query and gives its rows, every value as text.
func texts(ctx context.Context, s Source, sql string) ([][]string, error) {
	var b bytes.Buffer
	q := store.Query{SQL: sql, Format: "JSONCompactStringsEachRow", Priority: store.Background, Settings: readSettings()}
	if _, err := s.Stream(ctx, q, &b); err != nil {
		return nil, err
	}
	var out [][]string
	for dec := json.NewDecoder(&b); dec.More(); {
		var row []string
		if err := dec.Decode(&row); err != nil {
			return nil, fmt.Errorf("decode answer: %w", err)
		}
		out = append(out, row)
	}
	return out, nil
}

// ask is texts with patience.
func (m *mover) ask(ctx context.Context, s Source, sql string) ([][]string, error) {
	var rows [][]string
	err := m.again(ctx, "read", func() error {
		var err error
		rows, err = texts(ctx, s, sql)
		return err
	})
	return rows, err
}

// tell runs a statement in the target, with patience.
func (m *mover) tell(ctx context.Context, sql string, settings map[string]string) error {
	set := map[string]string{"max_execution_time": "0"}
	for k, v := range settings {
		set[k] = v
	}
	return m.again(ctx, "change the target", func() error {
		return m.dst.Exec(ctx, store.Query{SQL: sql, Priority: store.Background, Settings: set})
	})
}

// numbers reads the columns of a row from the given one on.
func numbers(row []string, from int) ([]uint64, error) {
	list := make([]uint64, 0, len(row))
	for _, s := range row[min(from, len(row)):] {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("decode answer: %w", err)
		}
		list = append(list, n)
	}
	return list, nil
}
