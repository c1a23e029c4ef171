package enrich

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/oschwald/maxminddb-golang/v2"
	"github.com/phuslu/iploc"

	"github.com/spate-io/spate/internal/enrich/asndb"
)

// unknownCountry is the country of addresses that are in none, or that no database has.
const unknownCountry = "XX"

// place is where an address is.
type place struct {
	country string
	asn     uint32
}

// geo looks up addresses. It never changes.
type geo struct {
	country, asn  *maxminddb.Reader // nil without such a file
	table         *asndb.DB         // nil without such a file
	countrySource string
	asnSource     string
	codes         [26 * 26]string // all that look like a code, so that a Result keeps no part of a database
}

// openGeo opens the databases that cfg names.
func openGeo(cfg *Config) (*geo, error) {
	g := &geo{countrySource: "built in " + iploc.Version, asnSource: none}
	for i := range g.codes {
		g.codes[i] = string([]byte{'A' + byte(i/26), 'A' + byte(i%26)})
	}
	if cfg.CountryDB != "" && cfg.CountryDB != none {
		b, err := os.ReadFile(cfg.CountryDB)
		if err == nil {
			g.country, err = maxminddb.OpenBytes(b)
		}
		if err != nil {
			return nil, fmt.Errorf("open country database %s: %w", cfg.CountryDB, err)
		}
		g.countrySource = cfg.CountryDB
	}
	path := cfg.ASNDB
	if path == "" {
		path = findASN()
	}
	if path == "" || path == none {
		return g, nil
	}
	b, err := os.ReadFile(path)
	switch {
	case err != nil:
	case asndb.IsFile(b):
		g.table, err = asndb.Parse(b)
	default:
		g.asn, err = maxminddb.OpenBytes(b)
	}
	if err != nil {
		return nil, fmt.Errorf("open database of autonomous systems %s: %w", path, err)
	}
	g.asnSource = path
	return g, nil
}

// lookup returns where a is. The place is right, if unknown, even when there is an error.
func (g *geo) lookup(a netip.Addr) (place, error) {
	p := place{country: unknownCountry}
	if !public(a) {
		return p, nil
	}
	var err1, err2 error
	if g.country != nil {
		var r struct {
			Code    string `maxminddb:"country_code"`
			Country struct {
				Code string `maxminddb:"iso_code"`
			} `maxminddb:"country"`
		}
		err1 = g.country.Lookup(a).Decode(&r)
		if r.Code == "" {
			r.Code = r.Country.Code
		}
		p.country = g.code(r.Code)
	} else {
		p.country = g.code(iploc.IPCountry(a))
	}
	switch {
	case g.table != nil:
		p.asn = g.table.Lookup(a)
	case g.asn != nil:
		var r struct {
			Number uint32 `maxminddb:"autonomous_system_number"`
		}
		err2 = g.asn.Lookup(a).Decode(&r)
		p.asn = r.Number
	}
	return p, errors.Join(err1, err2)
}

// code returns the country of that code, XX when it is none.
func (g *geo) code(s string) string {
	if len(s) != 2 || s[0] < 'A' || s[0] > 'Z' || s[1] < 'A' || s[1] > 'Z' || s == "ZZ" {
		return unknownCountry
	}
	return g.codes[int(s[0]-'A')*26+int(s[1]-'A')]
}

// public reports whether a may be the address of a host on the internet: not private, local, shared, multicast, reserved, or
// meant for documentation or benchmarks (RFC 6890 and those after it). Databases disagree about the others, and some are wrong.
func public(a netip.Addr) bool {
	if a.Is4() {
		b := a.As4()
		switch b[0] {
		case 0, 10, 127:
			return false
		case 100:
			return b[1]&0xC0 != 64
		case 169:
			return b[1] != 254
		case 172:
			return b[1]&0xF0 != 16
		case 192:
			switch {
			case b[1] == 168:
				return false
			case b[1] == 0:
				return b[2] != 0 && b[2] != 2
			case b[1] == 88:
				return b[2] != 99
			}
		case 198:
			return b[1]&0xFE != 18 && !(b[1] == 51 && b[2] == 100)
		case 203:
			return !(b[1] == 0 && b[2] == 113)
		}
		return b[0] < 224
	}
	if !a.Is6() {
		return false
	}
	b := a.As16()
	if b[0]&0xE0 != 0x20 { // all that is given out begins 2000::/3
		return false
	}
	if b[0] == 0x20 && b[1] == 0x01 { // 2001:db8::/32 documentation, 2001::/32 Teredo, 2001:2::/48 benchmarks, 2001:10::/27 ORCHID
		switch {
		case b[2] == 0x0d && b[3] == 0xb8, b[2] == 0 && b[3] == 0, b[2] == 0 && b[3] == 2 && b[4] == 0 && b[5] == 0, b[2] == 0 && b[3]&0xE0 == 0x20, b[2] == 0 && b[3]&0xF0 == 0x10:
			return false
		}
	}
	if b[0] == 0x20 && b[1] == 0x02 { // 6to4: as the address inside
		return public(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return !(b[0] == 0x3f && b[1] == 0xff && b[2]&0xF0 == 0) // 3fff::/20 documentation
}
