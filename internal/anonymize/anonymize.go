// Package anonymize takes from client addresses what must not be stored.
//
// A Masker is made from the section "privacy" and used where events and notices become rows, after country and network of
// the address are known. It is deterministic: the same address with the same key is the same row, so counting again after
// a crash counts the same.
package anonymize

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"net/netip"
)

// Masker changes addresses. A nil Masker keeps them. It belongs to one goroutine: Fork makes more.
type Masker struct {
	cfg Config
	key []byte
	mac hash.Hash
	sum []byte
	out []byte

	last, masked netip.Addr // requests of one client often come together
}

// New gives a masker, nil when addresses are kept. For a hash it reads the key, and makes one when there is none.
func New(cfg Config) (*Masker, error) {
	if cfg.Addresses == Keep || cfg.Addresses == "" {
		return nil, nil
	}
	m := &Masker{cfg: cfg}
	if cfg.Addresses == Hash {
		k, err := key(cfg.KeyFile)
		if err != nil {
			return nil, err
		}
		m.key, m.mac = k, hmac.New(sha256.New, k)
	}
	return m, nil
}

// Fork gives a masker for another goroutine that does the same.
func (m *Masker) Fork() *Masker {
	if m == nil {
		return nil
	}
	f := &Masker{cfg: m.cfg, key: m.key}
	if m.key != nil {
		f.mac = hmac.New(sha256.New, m.key)
	}
	return f
}

// Hashes says whether an address can still be found by whoever has the key.
func (m *Masker) Hashes() bool { return m != nil && m.mac != nil }

// Address gives what is stored for an address: itself, its network's first address, or an address in fd00::/8, which no
// client has, whose other 120 bits are the beginning of HMAC-SHA-256 of the address' 16 bytes. An invalid one stays invalid.
func (m *Masker) Address(a netip.Addr) netip.Addr {
	if m == nil || !a.IsValid() {
		return a
	}
	if a == m.last {
		return m.masked
	}
	m.last, m.masked = a, m.mask(a.Unmap().WithZone(""))
	return m.masked
}

func (m *Masker) mask(a netip.Addr) netip.Addr {
	if m.mac == nil {
		bits := m.cfg.IPv6Prefix
		if a.Is4() {
			bits = m.cfg.IPv4Prefix
		}
		p, err := a.Prefix(bits)
		if err != nil { // bits are checked
			return netip.IPv6Unspecified()
		}
		return p.Addr()
	}
	b := a.As16()
	m.mac.Reset()
	_, _ = m.mac.Write(b[:]) // never fails
	m.sum = m.mac.Sum(m.sum[:0])
	b[0] = 0xfd
	copy(b[1:], m.sum)
	return netip.AddrFrom16(b)
}

// Text gives a text with every address in it changed, as X-Forwarded-For or a log line has them, with or without a port.
// What it gives is valid until the next call, and text itself where nothing has to be changed.
func (m *Masker) Text(text []byte) []byte {
	if m == nil {
		return text
	}
	m.out = m.out[:0]
	done := 0 // up to here text is in out
	for i := 0; i < len(text); {
		if !ofAddress(text[i]) {
			i++
			continue
		}
		end := i
		for end < len(text) && ofAddress(text[end]) {
			end++
		}
		if a, n, ok := address(text[i:end]); ok {
			m.out = append(m.out, text[done:i]...)
			m.out = m.Address(a).AppendTo(m.out)
			done = i + n
		}
		i = end
	}
	if done == 0 {
		return text
	}
	m.out = append(m.out, text[done:]...)
	return m.out
}

// address reads the address that a run of its characters begins with; n is its length. What may follow is a port, or the
// end of a sentence.
func address(run []byte) (a netip.Addr, n int, ok bool) {
	if len(run) < len("::1") || len(run) > len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255:65535") {
		return a, 0, false
	}
	for n = len(run); n > 0 && (run[n-1] == '.' || run[n-1] == ':' && (n < 2 || run[n-2] != ':')); n-- {
	}
	if a, err := netip.ParseAddr(string(run[:n])); err == nil {
		return a, n, true
	}
	if ap, err := netip.ParseAddrPort(string(run[:n])); err == nil { // of IPv4: that of IPv6 stands in brackets
		for n > 0 && run[n-1] != ':' {
			n--
		}
		return ap.Addr(), n - 1, true
	}
	return a, 0, false
}

// ofAddress says whether an address may have the character.
func ofAddress(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c == ':' || 'a' <= c|0x20 && c|0x20 <= 'f'
}
