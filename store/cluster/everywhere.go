package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spate-io/spate/store"
)

const (
	// ddlWait is how long a statement for all servers waits for them.
	ddlWait = 60 * time.Second
	// ddlWaitAbsent is how long it waits once it is known that some do not answer.
	ddlWaitAbsent = 5 * time.Second
	// ddlTries is how often one is tried that two servers began at once, or whose server went away. All of them may be repeated.
	ddlTries = 5
)

// absent remembers which servers did not run a statement in time.
type absent struct {
	mu    sync.Mutex
	hosts map[string]time.Time
}

func (a *absent) saw(host string, there bool) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, missing := a.hosts[host]
	if there {
		delete(a.hosts, host)
		return false
	}
	if a.hosts == nil {
		a.hosts = map[string]time.Time{}
	}
	a.hosts[host] = time.Now()
	return !missing
}

func (a *absent) some() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for host, at := range a.hosts {
		if time.Since(at) > forgetAbsent {
			delete(a.hosts, host)
		}
	}
	return len(a.hosts) > 0
}

// run runs one statement. With ON CLUSTER all servers are waited for that are alive.
func (db *DB) run(ctx context.Context, q store.Query) error {
	q.Settings = maps.Clone(q.Settings)
	if q.Settings == nil {
		q.Settings = map[string]string{}
	}
	if !strings.Contains(q.SQL, db.rewrite.on()+" ") {
		q.Settings["insert_deduplicate"] = "0" // replicated tables take equal rows for a repetition
		return db.all.Exec(ctx, q)
	}
	wait := ddlWait
	if db.absent.some() {
		wait = ddlWaitAbsent
	}
	q.Settings["distributed_ddl_task_timeout"] = strconv.Itoa(int(wait.Seconds()))
	q.Settings["distributed_ddl_output_mode"] = "null_status_on_timeout"
	q.Format = "TabSeparated"
	var err error
	for try := range ddlTries {
		var answer bytes.Buffer
		if err = db.ddl.ExecTo(ctx, q, &answer); err == nil {
			return db.heard(ctx, answer.String())
		}
		wait := time.Second << try
		var e *store.Error
		if !errors.As(err, &e) { // the server went away; the others have the statement, or take it
			wait = 10 * time.Millisecond
		}
		if try == ddlTries-1 || !store.IsCode(err, codeCannotAssignAlter) && (e != nil || !store.Retriable(err)) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
	return err
}

// insist is run for a statement that may be repeated, however it is sent.
func (db *DB) insist(ctx context.Context, q store.Query) error {
	var err error
	for range ddlTries {
		var e *store.Error
		if err = db.run(ctx, q); err == nil || errors.As(err, &e) || !store.Retriable(err) {
			return err
		}
	}
	return err
}

// codeCannotAssignAlter is what a server answers whose table was changed by another one at the same time.
const codeCannotAssignAlter = 517

// heard reads which servers have run a statement: host, port, status, error, and how many are left.
func (db *DB) heard(ctx context.Context, answer string) error {
	for line := range strings.SplitSeq(strings.TrimSpace(answer), "\n") {
		f := strings.Split(line, "\t")
		if len(f) < 4 {
			continue
		}
		host := f[0] + ":" + f[1]
		switch f[2] {
		case "0":
			db.absent.saw(host, true)
		case `\N`, "NULL":
			if db.absent.saw(host, false) {
				db.log.WarnContext(ctx, "server has not run a statement yet, it will when it is back", "server", host)
			}
		default:
			return fmt.Errorf("%s: %w", host, store.ParseError(f[3]))
		}
	}
	return nil
}

// missing gives the servers that did not run a statement in time.
func (db *DB) missing() []string {
	db.absent.mu.Lock()
	defer db.absent.mu.Unlock()
	var list []string
	for host := range db.absent.hosts {
		list = append(list, host)
	}
	return list
}
