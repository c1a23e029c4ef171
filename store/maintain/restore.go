package maintain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spate-io/spate/store/chdb"
)

// ErrNotEmpty is part of the error of Restore when there is a store already.
var ErrNotEmpty = errors.New("there is a store already")

// RestoreOptions say what to restore where.
type RestoreOptions struct {
	// Dir is the directory of backups, Name the backup in it; empty means the newest.
	Dir, Name string
	// Path is the directory of the store.
	Path string
	// Force moves a store that is there aside, to data.before-TIME beside the new one.
	Force bool
	// DryRun reads the backup through and changes nothing.
	DryRun bool
}

// Restore lays the files of a backup out as a store, each compared with the SHA-256 in the backup. No process may have the
// store open. It is there as a whole or not at all; the caller opens it, migrates it, and tells the bus where to go on.
func Restore(ctx context.Context, o RestoreOptions, note Note) (*Manifest, error) {
	m, err := ReadManifest(o.Dir, o.Name)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	if o.DryRun {
		return m, readThrough(ctx, o.Dir, m)
	}
	lock, err := chdb.Lock(o.Path)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	defer lock.Close()
	data := chdb.DataDir(o.Path)
	_, err = os.Stat(data)
	there := err == nil
	if there && !o.Force {
		return nil, fmt.Errorf("restore: %w in %s: restore elsewhere, or use --force, which moves it aside", ErrNotEmpty, o.Path)
	}
	tmp := data + ".restoring"
	if err := os.RemoveAll(tmp); err != nil { // of a restore that was cut off
		return nil, fmt.Errorf("restore: %w", err)
	}
	if err := layOut(ctx, o.Dir, tmp, m, note); err != nil {
		return nil, fmt.Errorf("restore: %w", errors.Join(err, os.RemoveAll(tmp)))
	}
	if err := syncDir(o.Path); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	if there {
		aside := data + ".before-" + time.Now().UTC().Format("20060102T150405Z")
		if err := os.Rename(data, aside); err != nil {
			return nil, fmt.Errorf("restore: %w", err)
		}
		note("the store that was there is now %s; delete it when you no longer need it", aside)
	}
	if err := os.Rename(tmp, data); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return m, syncDir(o.Path)
}

// layOut makes the engine's directory.
func layOut(ctx context.Context, dir, to string, m *Manifest, note Note) error {
	for _, s := range m.Small {
		path := filepath.Join(to, s.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		var err error
		if s.Link != "" {
			err = os.Symlink(s.Link, path)
		} else {
			err = os.WriteFile(path, s.Data, 0o640)
		}
		if err != nil {
			return err
		}
	}
	said, done := time.Now(), int64(0)
	for i := range m.Parts {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := &m.Parts[i]
		if err := restorePart(dir, filepath.Join(to, p.Path), p); err != nil {
			return err
		}
		done += p.Bytes()
		if time.Since(said) > 2*time.Second {
			said = time.Now()
			note("%d of %d parts, %d bytes", i+1, len(m.Parts), done)
		}
	}
	return nil
}

// restorePart copies a part and compares it with what the backup says of it.
func restorePart(dir, to string, p *Part) error {
	for _, f := range p.Files {
		path := filepath.Join(to, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		got, err := copyFile(path, filepath.Join(dir, p.In, f.Name))
		if err != nil {
			return missing(err, p, f)
		}
		if got.SHA256 != f.SHA256 {
			return damaged(p, f)
		}
	}
	return nil
}

func damaged(p *Part, f File) error {
	return fmt.Errorf("the backup is damaged: %s does not have the contents it was written with", filepath.Join(p.In, f.Name))
}

func missing(err error, p *Part, f File) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the backup is damaged: %s is missing", filepath.Join(p.In, f.Name))
	}
	return err
}

// readThrough compares every file of a backup with its SHA-256 and names all that are wrong.
func readThrough(ctx context.Context, dir string, m *Manifest) error {
	var wrong []error
	for i := range m.Parts {
		p := &m.Parts[i]
		for _, f := range p.Files {
			if err := ctx.Err(); err != nil {
				return err
			}
			got, err := copyFile(os.DevNull, filepath.Join(dir, p.In, f.Name))
			if err != nil {
				wrong = append(wrong, missing(err, p, f))
			} else if got.SHA256 != f.SHA256 {
				wrong = append(wrong, damaged(p, f))
			}
		}
	}
	return errors.Join(wrong...)
}
