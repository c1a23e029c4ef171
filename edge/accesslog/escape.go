package accesslog

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// unescape undoes what web servers do to bytes that would break a line: \xHH, \", \\, \n, \r, \t, \b, \f, \v, \a. A backslash
// before anything else stands for itself, as some servers write it. The result is v itself when there is nothing to undo,
// else it lies in scratch, which is returned longer.
func unescape(v, scratch []byte) (out, grown []byte) {
	i := bytes.IndexByte(v, '\\')
	if i < 0 {
		return v, scratch
	}
	from := len(scratch)
	for i >= 0 {
		scratch = append(scratch, v[:i]...)
		v = v[i:]
		c, n := unescapeOne(v)
		scratch = append(scratch, c)
		v = v[n:]
		i = bytes.IndexByte(v, '\\')
	}
	scratch = append(scratch, v...)
	return scratch[from:len(scratch):len(scratch)], scratch
}

// unescapeOne decodes the escape at the start of v, which is a backslash, and gives its length.
func unescapeOne(v []byte) (byte, int) {
	if len(v) < 2 {
		return '\\', 1
	}
	switch v[1] {
	case 'x', 'X':
		if len(v) >= 4 {
			if h, l := hexValue(v[2]), hexValue(v[3]); h >= 0 && l >= 0 {
				return byte(h<<4 | l), 4
			}
		}
	case '"', '\\':
		return v[1], 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'v':
		return '\v', 2
	case 'a':
		return '\a', 2
	}
	return '\\', 1
}

// unescapeJSON undoes the escapes of a JSON string, and \xHH, which nginx writes into JSON when its log_format lacks
// escape=json. It fails on an escape that neither has.
func unescapeJSON(v, scratch []byte) (out, grown []byte, ok bool) {
	i := bytes.IndexByte(v, '\\')
	if i < 0 {
		return v, scratch, true
	}
	from := len(scratch)
	for i >= 0 {
		scratch = append(scratch, v[:i]...)
		v = v[i:]
		if len(v) < 2 {
			return nil, scratch, false
		}
		n := 2
		switch v[1] {
		case '"', '\\', '/':
			scratch = append(scratch, v[1])
		case 'u':
			var r rune
			if r, n = unescapeRune(v); n == 0 {
				return nil, scratch, false
			}
			scratch = utf8.AppendRune(scratch, r)
		default:
			var c byte
			if c, n = unescapeOne(v); n == 1 {
				return nil, scratch, false
			}
			scratch = append(scratch, c)
		}
		v = v[n:]
		i = bytes.IndexByte(v, '\\')
	}
	scratch = append(scratch, v...)
	return scratch[from:len(scratch):len(scratch)], scratch, true
}

// unescapeRune decodes \uXXXX, joined with a second one when both are a surrogate pair; n is 0 when it is none.
func unescapeRune(v []byte) (r rune, n int) {
	a := hex4(v)
	if a < 0 {
		return 0, 0
	}
	if utf16.IsSurrogate(a) {
		if len(v) >= 12 && v[6] == '\\' && v[7] == 'u' {
			if b := hex4(v[6:]); b >= 0 {
				if r := utf16.DecodeRune(a, b); r != utf8.RuneError {
					return r, 12
				}
			}
		}
		return utf8.RuneError, 6
	}
	return a, 6
}

func hex4(v []byte) rune {
	if len(v) < 6 {
		return -1
	}
	r := 0
	for _, c := range v[2:6] {
		h := hexValue(c)
		if h < 0 {
			return -1
		}
		r = r<<4 | h
	}
	return rune(r)
}

// percentDecode undoes %XX. Anything else, and a broken escape, stays as it is.
func percentDecode(v, scratch []byte) (out, grown []byte) {
	i := bytes.IndexByte(v, '%')
	if i < 0 {
		return v, scratch
	}
	from := len(scratch)
	for i >= 0 {
		scratch = append(scratch, v[:i]...)
		v = v[i:]
		if len(v) >= 3 {
			if h, l := hexValue(v[1]), hexValue(v[2]); h >= 0 && l >= 0 {
				scratch, v = append(scratch, byte(h<<4|l)), v[3:]
				i = bytes.IndexByte(v, '%')
				continue
			}
		}
		scratch, v = append(scratch, '%'), v[1:]
		i = bytes.IndexByte(v, '%')
	}
	scratch = append(scratch, v...)
	return scratch[from:len(scratch):len(scratch)], scratch
}

// lower gives v in lower case (ASCII); in scratch when something changes.
func lower(v, scratch []byte) (out, grown []byte) {
	for i, c := range v {
		if c >= 'A' && c <= 'Z' {
			from := len(scratch)
			scratch = append(scratch, v...)
			for j := from + i; j < len(scratch); j++ {
				if c := scratch[j]; c >= 'A' && c <= 'Z' {
					scratch[j] = c + 'a' - 'A'
				}
			}
			return scratch[from:len(scratch):len(scratch)], scratch
		}
	}
	return v, scratch
}
