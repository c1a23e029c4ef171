package maintain

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A directory of backups holds
//
//	backups/NAME.json             a backup: what belongs to it, with the SHA-256 of every file
//	parts/TABLE/PART-CHECK/...    a part of a table, shared by all backups that have it
//
// Parts never change, so the next backup copies only those that are new. A backup without its .json is none: that file is
// written last, once everything else is on the disk.
const (
	backupsDir = "backups"
	partsDir   = "parts"
)

// formatVersion is the version of [Manifest].
const formatVersion = 1

// Manifest is one backup.
type Manifest struct {
	Format  int       `json:"format"`
	Name    string    `json:"name"`
	Taken   time.Time `json:"taken"`
	Schema  uint32    `json:"schema"` // version of the tables
	Program string    `json:"program"`
	// Rows are how many rows each table has, as the engine stores them.
	Rows map[string]uint64 `json:"rows"`
	// Bus is where the loader stood on the bus; nil when the bus could not be asked.
	Bus *Positions `json:"bus,omitempty"`
	// Small are the files beside the parts: definitions of tables, tokens of inserts.
	Small []Small `json:"small"`
	// Parts are all parts, by their directory below the engine's data directory.
	Parts []Part `json:"parts"`
}

// Positions is how far a loader has come.
type Positions struct {
	Group   string              `json:"group"`
	Topic   string              `json:"topic"`
	TopicID string              `json:"topic_id"` // hex
	At      map[int32]Committed `json:"at"`
}

// Committed is the position in one partition.
type Committed struct {
	Offset   int64  `json:"offset"`
	Metadata string `json:"metadata,omitempty"`
}

// Small is a file or a symbolic link, kept in the manifest itself.
type Small struct {
	Path string `json:"path"`
	Link string `json:"link,omitempty"`
	Data []byte `json:"data,omitempty"`
}

// Part is a part of a table.
type Part struct {
	Path  string `json:"path"` // below the engine's data directory
	In    string `json:"in"`   // below the directory of backups
	Rows  uint64 `json:"rows"`
	Files []File `json:"files"`
}

// File is one file of a part.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Bytes gives the size of the files of the part.
func (p *Part) Bytes() int64 {
	var n int64
	for _, f := range p.Files {
		n += f.Size
	}
	return n
}

// List gives the names of the backups in a directory, oldest first.
func List(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, backupsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list backups: %w", err)
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names) // they begin with the time
	return names, nil
}

// ReadManifest reads a backup; the newest when name is empty.
func ReadManifest(dir, name string) (*Manifest, error) {
	names, err := List(dir)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("there is no backup in %s", dir)
	}
	if name == "" {
		name = names[len(names)-1]
	}
	if !slices.Contains(names, name) {
		return nil, fmt.Errorf("there is no backup %s in %s; there are %s", name, dir, strings.Join(names, ", "))
	}
	b, err := os.ReadFile(filepath.Join(dir, backupsDir, name+".json"))
	if err != nil {
		return nil, fmt.Errorf("read backup: %w", err)
	}
	var m Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("read backup %s: %w", name, err)
	}
	if m.Format > formatVersion {
		return nil, fmt.Errorf("backup %s has format %d, this program knows up to %d: use the newer program", name, m.Format, formatVersion)
	}
	return &m, m.check()
}

// check refuses paths that lead out of the directories.
func (m *Manifest) check() error {
	for _, s := range m.Small {
		if !filepath.IsLocal(s.Path) || s.Link != "" && !filepath.IsLocal(filepath.Join(filepath.Dir(s.Path), s.Link)) {
			return fmt.Errorf("backup %s: bad path %q", m.Name, s.Path)
		}
	}
	for _, p := range m.Parts {
		if !filepath.IsLocal(p.Path) || !filepath.IsLocal(p.In) {
			return fmt.Errorf("backup %s: bad path %q", m.Name, p.Path)
		}
		for _, f := range p.Files {
			if !filepath.IsLocal(f.Name) {
				return fmt.Errorf("backup %s: bad path %q", m.Name, f.Name)
			}
		}
	}
	return nil
}

// write puts the manifest in place, after everything it names is on the disk.
func (m *Manifest) write(dir string) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, backupsDir), 0o750); err != nil {
		return err
	}
	name := filepath.Join(dir, backupsDir, m.Name+".json")
	if err := os.WriteFile(name+".tmp", b, 0o640); err != nil {
		return err
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	if err := os.Rename(name+".tmp", name); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir writes through to the disk what was written to the file system of a directory.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// copyFile copies a file and gives its size and SHA-256.
func copyFile(to, from string) (File, error) {
	in, err := os.Open(from)
	if err != nil {
		return File{}, err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return File{}, err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, h), in)
	if err = errors.Join(err, out.Close()); err != nil {
		return File{}, fmt.Errorf("copy %s: %w", from, err)
	}
	return File{Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}

// Prune removes the oldest backups until keep are left, and the parts that no backup has any more.
func Prune(dir string, keep int) (removed []string, err error) {
	names, err := List(dir)
	if err != nil || len(names) <= keep {
		return nil, err
	}
	used := map[string]bool{}
	for _, name := range names[len(names)-keep:] {
		m, err := ReadManifest(dir, name)
		if err != nil {
			return nil, err
		}
		for _, p := range m.Parts {
			used[filepath.Clean(p.In)] = true
		}
	}
	for _, name := range names[:len(names)-keep] {
		if err := os.Remove(filepath.Join(dir, backupsDir, name+".json")); err != nil {
			return removed, err
		}
		removed = append(removed, name)
	}
	dirs, err := filepath.Glob(filepath.Join(dir, partsDir, "*", "*"))
	if err != nil {
		return removed, err
	}
	for _, d := range dirs {
		rel, err := filepath.Rel(dir, d)
		if err != nil || used[rel] {
			continue
		}
		if err := os.RemoveAll(d); err != nil {
			return removed, err
		}
	}
	return removed, nil
}
