package spool

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// readID reads the spool's id, leaving it zero when there is none that can be read.
func (s *Spool) readID() error {
	f, err := s.fs.Open(filepath.Join(s.cfg.Dir, idFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open spool id: %w", err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	var text [33]byte
	if err := readFull(f, text[:], 0); err != nil {
		if isDamage(err) {
			return nil
		}
		return fmt.Errorf("read spool id: %w", err)
	}
	if b, err := hex.DecodeString(string(text[:32])); err == nil {
		s.id = [16]byte(b)
	}
	return nil
}

// writeID writes down the spool's id, drawing one when it has none. A disk without room for it does not matter: the
// segments have it too.
func (s *Spool) writeID() error {
	if s.id == ([16]byte{}) {
		if _, err := rand.Read(s.id[:]); err != nil {
			return fmt.Errorf("draw spool id: %w", err)
		}
	}
	if err := s.writeFile(filepath.Join(s.cfg.Dir, idFile), []byte(hex.EncodeToString(s.id[:])+"\n")); err != nil {
		s.log.Warn("spool id could not be written", "err", err)
	}
	return nil
}
