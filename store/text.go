package store

import "strings"

// Text escapes a string for use as the value of a String parameter. Parameters travel in ClickHouse's TabSeparated text
// form, where a backslash, tab, newline and so on have a meaning.
func Text(s string) string { return textEscaper.Replace(s) }

var textEscaper = strings.NewReplacer("\\", "\\\\", "\t", "\\t", "\n", "\\n", "\r", "\\r", "\x00", "\\0", "\b", "\\b", "\f", "\\f")

// Quote gives s as a SQL string literal. Prefer parameters; this is for statements that take none, such as DDL.
func Quote(s string) string { return "'" + literalEscaper.Replace(s) + "'" }

var literalEscaper = strings.NewReplacer("\\", "\\\\", "'", "\\'", "\x00", "\\0")

// Ident gives s as a quoted SQL identifier.
func Ident(s string) string { return "`" + identEscaper.Replace(s) + "`" }

var identEscaper = strings.NewReplacer("\\", "\\\\", "`", "\\`", "\x00", "\\0")
