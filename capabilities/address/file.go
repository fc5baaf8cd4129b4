package address

import (
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

// File returns the path that a file address names on a system ("windows", "linux", ...),
// with slashes, absolute and without dot segments. It is read as browsers read it. isFile
// reports whether raw has that scheme at all; the path is empty where it names another
// host, or no path that Chrome would open.
func File(raw, goos string) (name string, isFile bool) {
	s := trim(raw)
	scheme, rest, ok := cutScheme(s)
	if !ok || scheme != "file" {
		return "", false
	}
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		rest = rest[:end]
	}
	rest = strings.ReplaceAll(rest, `\`, "/")
	switch {
	case strings.HasPrefix(rest, "//"):
		host, after, _ := strings.Cut(rest[2:], "/")
		if isDrive(host) && goos == "windows" { // file://C:/x
			after, host = host+"/"+after, ""
		}
		if host != "" && !strings.EqualFold(host, "localhost") {
			return "", true
		}
		rest = "/" + after
	case !strings.HasPrefix(rest, "/"):
		rest = "/" + rest // file:x is file:///x
	}
	var segments []string
	for segment := range strings.SplitSeq(rest[1:], "/") {
		plain := unescape(segment)
		if !utf8.ValidString(plain) || strings.ContainsAny(plain, "/\x00") || goos == "windows" && strings.ContainsAny(plain, `\`) {
			return "", true
		}
		segments = append(segments, plain)
	}
	drive := ""
	if goos == "windows" {
		if len(segments) < 2 || !isDrive(segments[0]) {
			return "", true
		}
		drive, segments = segments[0][:1]+":", segments[1:]
	}
	return drive + path.Clean("/"+strings.Join(segments, "/")), true
}

// unescape is the standard's percent-decoding: what is no escape stays as it is.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// isDrive reports whether a segment is a drive's letter, such as "C:".
func isDrive(s string) bool {
	return len(s) == 2 && (s[1] == ':' || s[1] == '|') && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z')
}
