// Package zone says which zone (site) a request belongs to, by its host.
//
// Zones come from the configuration, from the store, and, where that is allowed, from the traffic itself: a host that no
// zone covers makes a zone named after its registrable domain. Registry is the type: Match is called for every event by
// the loader and takes no lock; the API asks All and Get.
//
// It is not an authorisation: what a token may see is decided in package api. The invariant: Match always names a zone,
// the one called "unknown" when nothing else fits, so no event is lost for having a strange host; and no flood of invented
// hosts can make more zones than Config allows.
package zone

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"
)

// Zone is one site. Zones that a Registry hands out are shared: never change one.
type Zone struct {
	ID      string    // 32 lower-case hexadecimal digits
	Name    string    // usually its domain, lower case
	Hosts   []string  // hosts it covers, each with all its subdomains unless another zone has a longer match
	Plan    string    // free text of the operator, "free" unless configured
	Created time.Time // UTC, whole seconds
}

// UnknownName is the name of the zone for events whose host is empty, an address, no valid name, or over the limit of
// automatic zones.
const UnknownName = "unknown"

// DefaultPlan is the plan of zones that name none.
const DefaultPlan = "free"

// maxHost is the most bytes a host name can have.
const maxHost = 253

// ID gives the id of a zone that has no configured one: the first 16 bytes of SHA-256("zone:" + name) in hexadecimal.
// Every process that sees the name first gives it the same id.
func ID(name string) string {
	sum := sha256.Sum256([]byte("zone:" + name))
	return hex.EncodeToString(sum[:16])
}

// ValidID says whether id is 32 lower-case hexadecimal digits.
func ValidID(id string) bool {
	if len(id) != 32 {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// ValidHost says whether host, as Normalize gives it, can be a name in DNS: labels of 1 to 63 letters, digits, hyphens and
// underscores, at most 253 bytes, and not an address. Bytes above 127 (an internationalised name that was not encoded) are
// let through.
func ValidHost(host string) bool {
	if host == "" || len(host) > maxHost {
		return false
	}
	label, digits := 0, true // digits: the last label has digits only, as addresses and no domain names do
	for i := range len(host) {
		c := host[i]
		switch {
		case c == '.':
			if label == 0 {
				return false
			}
			label, digits = 0, true
			continue
		case c >= '0' && c <= '9':
		case c >= 'a' && c <= 'z', c == '-', c == '_', c >= 0x80:
			digits = false
		default:
			return false
		}
		if label++; label > 63 {
			return false
		}
	}
	return label > 0 && !digits
}

// Normalize gives the host in the form zones are kept by: ASCII letters in lower case, without port and final dot. Encoded
// and other internationalised names stay as they are. An IPv6 address keeps its brackets. The result aliases host when
// nothing was to do, else buf.
func Normalize(host, buf []byte) []byte {
	if len(host) > 0 && host[0] == '[' {
		for i, c := range host {
			if c == ']' {
				return host[:i+1]
			}
		}
		return host
	}
	upper := false
	for i, c := range host {
		if c == ':' {
			host = host[:i]
			break
		}
		upper = upper || c >= 'A' && c <= 'Z'
	}
	if n := len(host); n > 0 && host[n-1] == '.' {
		host = host[:n-1]
	}
	if !upper {
		return host
	}
	buf = append(buf[:0], host...)
	for i, c := range buf {
		if c >= 'A' && c <= 'Z' {
			buf[i] = c + 'a' - 'A'
		}
	}
	return buf
}

// Registrable gives the domain an automatic zone for host would be named after: the public suffix and one label; for a
// name of one label that is no public suffix (localhost, a name of the local network) that name. ok is false when host is
// a public suffix or no valid ASCII name. host must be normalised.
func Registrable(host string) (name string, ok bool) {
	if !ValidHost(host) {
		return "", false
	}
	for i := range len(host) {
		if host[i] >= 0x80 {
			return "", false
		}
	}
	if !strings.ContainsAny(host, "abcdefghijklmnopqrstuvwxyz") {
		return "", false // such as "_", which nginx gives for a request without a host
	}
	suffix, icann := publicsuffix.PublicSuffix(host)
	if suffix == host {
		return host, !icann && !strings.Contains(host, ".")
	}
	head := strings.TrimSuffix(host, "."+suffix)
	if i := strings.LastIndexByte(head, '.'); i >= 0 {
		head = head[i+1:]
	}
	return head + "." + suffix, true
}
