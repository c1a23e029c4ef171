package chdb

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// allWrites is more inserts than can ever be under way.
const allWrites = 1 << 30

// Hold waits until no insert is under way and lets none begin until release is called, so that what lies in several tables
// can be looked at, or linked, as of one moment. Inserts wait meanwhile; queries and merges go on. When ctx ends first,
// nothing is held. Calling release once is enough and necessary.
func (db *DB) Hold(ctx context.Context) (release func(), err error) {
	if err := db.writes.Acquire(ctx, allWrites); err != nil {
		return nil, fmt.Errorf("hold inserts: %w", err)
	}
	return func() { db.writes.Release(allWrites) }, nil
}

// Path gives the absolute path that the store was opened with.
func (db *DB) Path() string { return db.cfg.Path }

// DataDir gives the engine's own directory below the path of a store.
func DataDir(path string) string { return filepath.Join(path, "data") }

// Lock takes the lock of the path of a store without opening it, for work on its files. The path is made when it is not
// there. The error is [ErrLocked] when a process has it open. Closing the file ends the lock.
func Lock(path string) (*os.File, error) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, fmt.Errorf("lock store: %w", err)
	}
	return lockPath(path)
}
