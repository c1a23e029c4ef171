package schema

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store"
)

// Migration brings a store from the version before to Version. Its statements may be run again after a crash in between.
type Migration struct {
	Version    uint32
	Name       string
	Statements []string
}

// ErrNewer is part of the error of Migrate when the store was written by a newer program.
var ErrNewer = errors.New("store is newer than this program")

//go:embed migrations/*.sql
var migrationFiles embed.FS

var migrationName = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.sql$`)

// Migrations gives the migrations of this program, from version 1 up without gaps.
func migrations() ([]Migration, error) {
	entries, err := fs.ReadDir(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	var list []Migration
	for _, e := range entries {
		m := migrationName.FindStringSubmatch(e.Name())
		if m == nil {
			return nil, fmt.Errorf("migration %s: bad name", e.Name())
		}
		v, err := strconv.ParseUint(m[1], 10, 32)
		if err != nil || v != uint64(len(list)+1) {
			return nil, fmt.Errorf("migration %s: want number %d", e.Name(), len(list)+1)
		}
		text, err := fs.ReadFile(migrationFiles, "migrations/"+e.Name())
		if err != nil {
			return nil, err
		}
		list = append(list, Migration{Version: uint32(v), Name: m[2], Statements: splitStatements(string(text))})
	}
	return list, nil
}

// splitStatements cuts a file at lines that end in a semicolon.
func splitStatements(text string) []string {
	var list []string
	for _, s := range strings.Split(text, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			list = append(list, s)
		}
	}
	return list
}

// Migrate brings the store to the version of this program: it makes what is not there and changes what is older. It may
// be called on every start. A store that is newer is left alone, with an error that is [ErrNewer]. Ingest may go on
// meanwhile.
func Migrate(ctx context.Context, db store.DB) error {
	list, err := migrations()
	if err != nil {
		return err
	}
	return migrate(ctx, db, list)
}

func migrate(ctx context.Context, db store.DB, list []Migration) error {
	exec := func(sql string) error {
		return db.Exec(ctx, store.Query{SQL: sql, Priority: store.Background})
	}
	if err := exec("CREATE TABLE IF NOT EXISTS " + Migrations +
		" (version UInt32, name String, applied DateTime DEFAULT now()) ENGINE = MergeTree ORDER BY version"); err != nil {
		return fmt.Errorf("create %s: %w", Migrations, err)
	}
	at, err := Version(ctx, db)
	if err != nil {
		return err
	}
	if at > uint32(len(list)) {
		return fmt.Errorf("%w: it has version %d, this program knows up to %d; use the newer program", ErrNewer, at, len(list))
	}
	for _, m := range list[at:] {
		for i, s := range m.Statements {
			if err := exec(s); err != nil {
				return fmt.Errorf("migration %d %s, statement %d: %w", m.Version, m.Name, i+1, err)
			}
		}
		if err := exec(fmt.Sprintf("INSERT INTO %s (version, name) VALUES (%d, %s)", Migrations, m.Version, store.Quote(m.Name))); err != nil {
			return fmt.Errorf("record migration %d: %w", m.Version, err)
		}
	}
	return nil
}

// Version gives the number of the last migration that was applied; 0 for none.
func Version(ctx context.Context, db store.DB) (uint32, error) {
	var v proto.ColUInt32
	var at uint32
	_, err := db.Select(ctx, store.Query{SQL: "SELECT max(version) AS v FROM " + Migrations}, proto.Results{{Name: "v", Data: &v}},
		func(context.Context, int) error {
			at = v.Row(0)
			return nil
		})
	if err != nil {
		return 0, fmt.Errorf("read version of the store: %w", err)
	}
	return at, nil
}
