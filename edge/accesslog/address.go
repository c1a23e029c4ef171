package accesslog

import (
	"bytes"
	"net/netip"
)

// parseIP reads an IPv4 or IPv6 address, with or without brackets, without allocating. IPv4 in IPv6 stays as written
// in IPv6 except for the mapped form, which becomes IPv4; a zone ("%eth0") is dropped.
func parseIP(v []byte) (netip.Addr, bool) {
	if len(v) >= 2 && v[0] == '[' && v[len(v)-1] == ']' {
		v = v[1 : len(v)-1]
	}
	if a, ok := parseIPv4(v); ok {
		return netip.AddrFrom4(a), true
	}
	if i := bytes.IndexByte(v, '%'); i >= 0 {
		v = v[:i]
	}
	if a, ok := parseIPv6(v); ok {
		return netip.AddrFrom16(a).Unmap(), true
	}
	return netip.Addr{}, false
}

func parseIPv4(v []byte) (a [4]byte, ok bool) {
	if len(v) < 7 || len(v) > 15 {
		return a, false
	}
	part, n, digits := 0, 0, 0
	for _, c := range v {
		if c == '.' {
			if digits == 0 || part == 3 {
				return a, false
			}
			a[part] = byte(n)
			part, n, digits = part+1, 0, 0
			continue
		}
		if c < '0' || c > '9' || digits == 3 || digits == 1 && n == 0 {
			return a, false
		}
		n = n*10 + int(c-'0')
		if n > 255 {
			return a, false
		}
		digits++
	}
	if part != 3 || digits == 0 {
		return a, false
	}
	a[3] = byte(n)
	return a, true
}

func parseIPv6(v []byte) (a [16]byte, ok bool) {
	if len(v) < 2 || len(v) > 45 {
		return a, false
	}
	gap, at := -1, 0
	if v[0] == ':' {
		if v[1] != ':' {
			return a, false
		}
		gap, v = 0, v[2:]
	}
	for len(v) > 0 {
		if at == 16 {
			return a, false
		}
		n, i := 0, 0
		for ; i < len(v) && i < 5; i++ {
			h := hexValue(v[i])
			if h < 0 {
				break
			}
			n = n<<4 | h
		}
		if i == 0 || i == 5 {
			return a, false
		}
		if i < len(v) && v[i] == '.' { // the last four bytes as IPv4
			four, ok := parseIPv4(v)
			if !ok || at > 12 {
				return a, false
			}
			copy(a[at:], four[:])
			at, v = at+4, nil
			break
		}
		a[at], a[at+1] = byte(n>>8), byte(n)
		at, v = at+2, v[i:]
		if len(v) == 0 {
			break
		}
		if v[0] != ':' || len(v) == 1 {
			return a, false
		}
		v = v[1:]
		if v[0] == ':' {
			if gap >= 0 {
				return a, false
			}
			gap, v = at, v[1:]
		}
	}
	if at < 16 {
		if gap < 0 {
			return a, false
		}
		copy(a[16-(at-gap):], a[gap:at])
		clear(a[gap : 16-(at-gap)])
	} else if gap >= 0 {
		return a, false
	}
	return a, true
}

// hexValue gives 0 to 15, or -1 for a byte that is no hexadecimal digit.
func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// splitPort cuts the port from "host:port", "[v6]:port" and, as AWS writes it, from "v6:port" where all eight groups or a
// "::" are there. A bare IPv6 address has no port.
func splitPort(v []byte) (host []byte, port uint16, ok bool) {
	i := bytes.LastIndexByte(v, ':')
	if i < 0 {
		return v, 0, true
	}
	if v[0] == '[' {
		j := bytes.IndexByte(v, ']')
		if j < 0 {
			return nil, 0, false
		}
		if j == len(v)-1 {
			return v[1:j], 0, true
		}
		if j+1 != i {
			return nil, 0, false
		}
		p, ok := parsePort(v[i+1:])
		return v[1:j], p, ok
	}
	p, ok := parsePort(v[i+1:])
	return v[:i], p, ok
}

func parsePort(v []byte) (uint16, bool) {
	n, ok := parseUint(v)
	if !ok || n > 65535 {
		return 0, false
	}
	return uint16(n), true
}

// isHostName tells whether v may be the name of a client that the server looked up, or one of its fixed words.
func isHostName(v []byte) bool {
	if len(v) == 0 || len(v) > 255 {
		return false
	}
	for _, c := range v {
		if c <= ' ' || c == '"' || c == ',' || c == '[' || c == ']' || c == '{' || c == '}' || c == '=' || c == 0x7f {
			return false
		}
	}
	return true
}
