package maintain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spate-io/spate/internal/buildinfo"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb"
	"github.com/spate-io/spate/store/schema"
)

// holdTimeout bounds how long a backup waits for inserts to end, and so how long the others wait for it.
const holdTimeout = 30 * time.Second

// shadowPrefix begins the names of the engine's links to parts that a backup makes. Of other characters than letters, digits and
// underscores the engine would make something else.
const shadowPrefix = "spate_backup_"

// BackupOptions say what a backup is to be.
type BackupOptions struct {
	// Dir is the directory of backups.
	Dir string `json:"dir"`
	// Keep is how many backups are left in it, this one included; 0 keeps all.
	Keep int `json:"keep"`
}

// BackupResult is what became of it.
type BackupResult struct {
	Name        string        `json:"name"`
	Parts       int           `json:"parts"`        // in the backup
	Bytes       int64         `json:"bytes"`        // of all its parts
	CopiedParts int           `json:"copied_parts"` // that no earlier backup had
	CopiedBytes int64         `json:"copied_bytes"`
	Rows        uint64        `json:"rows"` // of the raw table
	Held        time.Duration `json:"held"` // how long inserts waited
	Positions   bool          `json:"positions"`
	Removed     []string      `json:"removed,omitempty"` // older backups
}

// Backup writes what is in the store at one moment into o.Dir, while inserts and queries go on: they wait only while the
// engine links its files, which takes milliseconds. Parts that an earlier backup in o.Dir has are not copied again.
// positions says where the loader stands on the bus; nil, or an error of it, leaves that out, with a note.
func Backup(ctx context.Context, db Engine, o BackupOptions, positions func(context.Context) (*Positions, error), note Note) (*BackupResult, error) {
	if o.Dir == "" || !filepath.IsAbs(o.Dir) {
		return nil, fmt.Errorf("back up: the directory %q is not an absolute path", o.Dir)
	}
	data := chdb.DataDir(db.Path())
	if rel, err := filepath.Rel(db.Path(), o.Dir); err == nil && filepath.IsLocal(rel) {
		return nil, fmt.Errorf("back up: %s lies in the store", o.Dir)
	}
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	if err := dropShadows(data); err != nil { // of a backup that was cut off
		return nil, fmt.Errorf("back up: %w", err)
	}
	defer func() { _ = dropShadows(data) }()
	now := time.Now().UTC()
	m := &Manifest{Format: formatVersion, Name: now.Format("20060102T150405.000Z"), Taken: now, Program: buildinfo.Version(), Rows: map[string]uint64{}}
	r := &BackupResult{Name: m.Name}
	shadow, err := freeze(ctx, db, m, r, positions, note)
	if err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	if err := copyParts(ctx, shadow, o.Dir, m, r, note); err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	r.Rows = m.Rows[schema.HTTPRequests]
	if err := m.write(o.Dir); err != nil {
		return nil, fmt.Errorf("back up: write the list of contents: %w", err)
	}
	if o.Keep > 0 {
		if r.Removed, err = Prune(o.Dir, o.Keep); err != nil {
			return r, fmt.Errorf("remove old backups: %w", err)
		}
	}
	return r, nil
}

// freeze links all parts as of one moment and reads what lies beside them. It gives the directory of the links.
func freeze(ctx context.Context, db Engine, m *Manifest, r *BackupResult, positions func(context.Context) (*Positions, error), note Note) (string, error) {
	var err error
	if m.Schema, err = schema.Version(ctx, db); err != nil {
		return "", err
	}
	list, err := tables(ctx, db)
	if err != nil {
		return "", err
	}
	if err := noMutations(ctx, db); err != nil {
		return "", err
	}
	wait, cancel := context.WithTimeout(ctx, holdTimeout)
	defer cancel()
	release, err := db.Hold(wait)
	if err != nil {
		return "", err
	}
	began := time.Now()
	defer func() {
		release()
		r.Held = time.Since(began)
	}()
	if positions != nil {
		m.Bus, err = positions(wait)
		if err != nil {
			m.Bus = nil
			note("warning: the bus does not say where the loader stands (%v): after a restore, what was stored since this backup is not loaded again by itself", err)
		}
		r.Positions = m.Bus != nil
	}
	shadow := shadowPrefix + strings.ReplaceAll(m.Name, ".", "_")
	for _, t := range list {
		if err := db.Exec(ctx, store.Query{SQL: "ALTER TABLE " + store.Ident(t.name) + " FREEZE WITH NAME " + store.Quote(shadow)}); err != nil {
			return "", fmt.Errorf("freeze %s: %w", t.name, err)
		}
	}
	data := chdb.DataDir(db.Path())
	if m.Small, err = smallFiles(data); err != nil {
		return "", err
	}
	dir := filepath.Join(data, "shadow", shadow)
	return dir, findParts(dir, data, list, m)
}

// noMutations gives an error while stored rows are being changed: a backup in the middle of it would be neither the one nor
// the other.
func noMutations(ctx context.Context, db store.DB) error {
	n, err := number(ctx, db, "SELECT count() FROM system.mutations WHERE NOT is_done", nil)
	if err == nil && n > 0 {
		err = fmt.Errorf("%d changes of stored rows are under way: try again when they are done", n)
	}
	return err
}

// smallFiles reads all that is in the engine's directory but parts: definitions of tables, links, tokens of inserts.
func smallFiles(data string) ([]Small, error) {
	var list []Small
	read := func(path string, d fs.DirEntry) error {
		rel, err := filepath.Rel(data, path)
		if err != nil {
			return err
		}
		s := Small{Path: rel}
		if d.Type()&fs.ModeSymlink != 0 {
			s.Link, err = os.Readlink(path)
		} else {
			s.Data, err = os.ReadFile(path)
		}
		list = append(list, s)
		return err
	}
	for _, top := range []string{"metadata", "data", "store"} {
		err := filepath.WalkDir(filepath.Join(data, top), func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // a merge or a finished mutation took it away
			case err != nil:
				return err
			case !d.IsDir():
				if err := read(path, d); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
				return nil
			}
			// store/abc/UUID/PART
			rel, err := filepath.Rel(data, path)
			if err == nil && strings.Count(rel, string(filepath.Separator)) == 3 && filepath.Base(rel) != "deduplication_logs" {
				return fs.SkipDir
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", top, err)
		}
	}
	return list, nil
}

// findParts lists the linked parts: shadow/NAME/store/abc/UUID/PART.
func findParts(shadow, data string, list []table, m *Manifest) error {
	for _, t := range list {
		m.Rows[t.name] = 0
		rel, err := filepath.Rel(data, t.dir)
		if err != nil || !filepath.IsLocal(rel) {
			return fmt.Errorf("table %s lies in %s, outside of the store", t.name, t.dir)
		}
		entries, err := os.ReadDir(filepath.Join(shadow, rel))
		if errors.Is(err, fs.ErrNotExist) {
			continue // no parts
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			dir := filepath.Join(shadow, rel, e.Name())
			sums, err := os.ReadFile(filepath.Join(dir, "checksums.txt"))
			if err != nil {
				return fmt.Errorf("part %s of %s: %w", e.Name(), t.name, err)
			}
			count, err := os.ReadFile(filepath.Join(dir, "count.txt"))
			if err != nil {
				return fmt.Errorf("part %s of %s: %w", e.Name(), t.name, err)
			}
			rows, err := strconv.ParseUint(strings.TrimSpace(string(count)), 10, 64)
			if err != nil {
				return fmt.Errorf("part %s of %s: %w", e.Name(), t.name, err)
			}
			sum := sha256.Sum256(sums)
			m.Rows[t.name] += rows
			m.Parts = append(m.Parts, Part{
				Path: filepath.Join(rel, e.Name()), Rows: rows,
				In: filepath.Join(partsDir, t.name, e.Name()+"-"+hex.EncodeToString(sum[:8])),
			})
		}
	}
	return nil
}

// copyParts copies the parts that are not in the directory of backups yet.
func copyParts(ctx context.Context, shadow, dir string, m *Manifest, r *BackupResult, note Note) error {
	known, err := knownParts(dir)
	if err != nil {
		return err
	}
	said := time.Now()
	for i := range m.Parts {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := &m.Parts[i]
		if files, ok := known[p.In]; ok && isThere(filepath.Join(dir, p.In), files) {
			p.Files = files
		} else {
			if p.Files, err = copyPart(filepath.Join(dir, p.In), filepath.Join(shadow, p.Path)); err != nil {
				return err
			}
			r.CopiedParts++
			r.CopiedBytes += p.Bytes()
		}
		r.Parts++
		r.Bytes += p.Bytes()
		if time.Since(said) > 2*time.Second {
			said = time.Now()
			note("%d of %d parts, %d bytes copied", i+1, len(m.Parts), r.CopiedBytes)
		}
	}
	return nil
}

// knownParts gives the files of all parts that earlier backups name.
func knownParts(dir string) (map[string][]File, error) {
	names, err := List(dir)
	if err != nil {
		return nil, err
	}
	known := map[string][]File{}
	for _, name := range names {
		m, err := ReadManifest(dir, name)
		if err != nil {
			return nil, err
		}
		for _, p := range m.Parts {
			known[p.In] = p.Files
		}
	}
	return known, nil
}

// isThere says whether all files are there with their sizes.
func isThere(dir string, files []File) bool {
	for _, f := range files {
		info, err := os.Stat(filepath.Join(dir, f.Name))
		if err != nil || info.Size() != f.Size {
			return false
		}
	}
	return true
}

// copyPart copies the files of a part; the directory gets its name when they are complete.
func copyPart(to, from string) ([]File, error) {
	tmp := to + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return nil, err
	}
	var files []File
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(tmp, rel), 0o750)
		}
		f, err := copyFile(filepath.Join(tmp, rel), path)
		f.Name = rel
		files = append(files, f)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(to); err != nil {
		return nil, err
	}
	return files, os.Rename(tmp, to)
}

// dropShadows removes the links that backups made.
func dropShadows(data string) error {
	dirs, err := filepath.Glob(filepath.Join(data, "shadow", shadowPrefix+"*"))
	for _, d := range dirs {
		err = errors.Join(err, os.RemoveAll(d))
	}
	return err
}
