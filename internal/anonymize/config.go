package anonymize

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spate-io/spate/internal/config"
)

// Values of Config.Addresses.
const (
	Keep     = "keep"
	Truncate = "truncate"
	Hash     = "hash"
)

// Config is the section "privacy".
type Config struct {
	// Addresses says what of a client's address is stored: keep all of it, truncate it to its network, or put a keyed hash
	// in its place.
	Addresses string `yaml:"addresses"`
	// IPv4Prefix and IPv6Prefix are how many bits are left when addresses are truncated.
	IPv4Prefix int `yaml:"ipv4_prefix"`
	IPv6Prefix int `yaml:"ipv6_prefix"`
	// KeyFile has the key of the hash; it is made when it is not there. Loaders of one store need the same.
	KeyFile string `yaml:"key_file"`
}

// DefaultConfig keeps addresses, and has the prefixes that are usual where they are not kept.
func DefaultConfig() Config { return Config{Addresses: Keep, IPv4Prefix: 24, IPv6Prefix: 48} }

// Validate adds what is wrong to p.
func (c *Config) Validate(p *config.Problems) {
	p.Check(c.Addresses == Keep || c.Addresses == Truncate || c.Addresses == Hash, "addresses", c.Addresses, "must be keep, truncate or hash")
	p.Check(c.IPv4Prefix >= 0 && c.IPv4Prefix <= 32, "ipv4_prefix", c.IPv4Prefix, "must be 0 to 32")
	p.Check(c.IPv6Prefix >= 0 && c.IPv6Prefix <= 128, "ipv6_prefix", c.IPv6Prefix, "must be 0 to 128")
}

// keyBytes is the length of a key that is made, leastKey that of the shortest that is taken.
const keyBytes, leastKey = 32, 16

// key reads the key, and makes one when there is none. The file has it in hexadecimal digits.
func key(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKey(path); err != nil {
			return nil, fmt.Errorf("make key of addresses: %w", err)
		}
		text, err = os.ReadFile(path) // of another process, if that was faster
	}
	if err != nil {
		return nil, fmt.Errorf("read key of addresses: %w", err)
	}
	digits := text
	for len(digits) > 0 && (digits[len(digits)-1] == '\n' || digits[len(digits)-1] == '\r') {
		digits = digits[:len(digits)-1]
	}
	k, err := hex.DecodeString(string(digits))
	if err != nil || len(k) < leastKey {
		return nil, fmt.Errorf("key of addresses %s: must be at least %d hexadecimal digits and nothing else", path, 2*leastKey)
	}
	return k, nil
}

// makeKey writes a random key whole or not at all, and leaves one alone that is there.
func makeKey(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	k := make([]byte, keyBytes)
	_, _ = rand.Read(k)                                   // never fails
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(hex.EncodeToString(k) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
