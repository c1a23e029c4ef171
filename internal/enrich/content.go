package enrich

import "bytes"

// contentClass returns the class of an answer: from its content type, else from the end of the path. Logs often have no content
// type, and answers 304 have none; a path without an ending counts as html then, if page says that the request may show one
// and the path does not look like that of an interface.
func contentClass(contentType, path []byte, page bool) string {
	if len(contentType) > 0 {
		return ofType(contentType)
	}
	name := path[bytes.LastIndexByte(path, '/')+1:]
	if dot := bytes.LastIndexByte(name, '.'); dot >= 0 && len(name)-dot <= 8 {
		return ofExtension(name[dot+1:])
	}
	if page && !programmatic(path) {
		return "html"
	}
	return ""
}

// ofType returns the class of a content type.
func ofType(t []byte) string {
	if i := bytes.IndexByte(t, ';'); i >= 0 {
		t = t[:i]
	}
	if class := known(t); class != "" {
		return class
	}
	var buf [64]byte // as servers write it when they do not write it as usual
	n := 0
	for _, c := range t {
		if c == ',' || n == len(buf) {
			break
		}
		if c == ' ' || c == '\t' {
			continue
		}
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[n] = c
		n++
	}
	if class := known(buf[:n]); class != "" {
		return class
	}
	return ofFamily(buf[:n])
}

// known returns the class of a content type that has one of its own, empty for others.
func known(t []byte) string {
	switch string(t) {
	case "text/html", "application/xhtml+xml":
		return "html"
	case "text/css":
		return "css"
	case "application/javascript", "text/javascript", "application/x-javascript", "application/ecmascript":
		return "javascript"
	case "image/jpeg", "image/jpg", "image/pjpeg":
		return "jpeg"
	case "image/svg+xml":
		return "svg"
	case "image/x-icon", "image/vnd.microsoft.icon":
		return "ico"
	case "text/plain":
		return "txt"
	case "text/xml", "application/xml":
		return "xml"
	case "application/pdf":
		return "pdf"
	case "application/wasm":
		return "wasm"
	case "application/octet-stream":
		return "bin"
	case "text/event-stream":
		return "event-stream"
	case "application/zip", "application/gzip", "application/x-gzip", "application/x-tar", "application/x-7z-compressed", "application/x-rar-compressed":
		return "archive"
	case "application/vnd.apple.mpegurl", "application/x-mpegurl", "application/dash+xml":
		return "video"
	case "image/png":
		return "png"
	case "image/gif":
		return "gif"
	case "image/webp":
		return "webp"
	case "image/avif":
		return "avif"
	case "application/json":
		return "json"
	case "font/woff2", "font/woff":
		return "font"
	}
	return ""
}

// ofFamily returns the class of a content type that has no class of its own.
func ofFamily(t []byte) string {
	family, rest, _ := bytes.Cut(t, []byte{'/'})
	switch {
	case bytes.HasSuffix(rest, []byte("json")), string(rest) == "x-ndjson", string(rest) == "json-seq":
		return "json"
	case string(rest) == "rss+xml", string(rest) == "atom+xml":
		return "feed"
	case bytes.HasSuffix(rest, []byte("+xml")):
		return "xml"
	case bytes.Contains(rest, []byte("font")), bytes.HasPrefix(rest, []byte("woff")):
		return "font"
	}
	switch string(family) {
	case "image":
		return "image"
	case "video":
		return "video"
	case "audio":
		return "audio"
	case "font":
		return "font"
	case "text":
		return "txt"
	}
	return "other"
}

// ofExtension returns the class of a file whose name ends so, empty when the ending says nothing.
func ofExtension(ext []byte) string {
	var buf [8]byte
	for i, c := range ext {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[i] = c
	}
	switch string(buf[:len(ext)]) {
	case "html", "htm", "shtml", "xhtml", "php", "asp", "aspx", "jsp", "jspx", "do", "cfm":
		return "html"
	case "css":
		return "css"
	case "js", "mjs":
		return "javascript"
	case "json", "map", "geojson":
		return "json"
	case "jpg", "jpeg", "jpe":
		return "jpeg"
	case "png":
		return "png"
	case "gif":
		return "gif"
	case "webp":
		return "webp"
	case "avif":
		return "avif"
	case "svg":
		return "svg"
	case "ico":
		return "ico"
	case "bmp", "tif", "tiff":
		return "image"
	case "txt", "md", "csv":
		return "txt"
	case "xml", "xsl":
		return "xml"
	case "rss", "atom":
		return "feed"
	case "pdf":
		return "pdf"
	case "wasm":
		return "wasm"
	case "woff", "woff2", "ttf", "otf", "eot":
		return "font"
	case "mp4", "webm", "m3u8", "ts", "mov", "avi", "flv", "mkv", "mpd", "m4s":
		return "video"
	case "mp3", "ogg", "wav", "m4a", "flac", "aac":
		return "audio"
	case "zip", "gz", "tgz", "bz2", "xz", "zst", "tar", "7z", "rar", "jar":
		return "archive"
	case "exe", "dll", "bin", "iso", "deb", "rpm", "apk", "dmg", "swf":
		return "bin"
	}
	return ""
}

// programmatic reports whether a path looks like one that programs ask for rather than people.
func programmatic(path []byte) bool {
	for _, s := range []string{"/api/", "/graphql", "/wp-json", "/xmlrpc", "/rpc/", "/.well-known/", "/ajax/"} {
		if bytes.Contains(path, []byte(s)) {
			return true
		}
	}
	return bytes.HasSuffix(path, []byte("/api"))
}
