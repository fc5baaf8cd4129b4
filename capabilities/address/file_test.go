package address

import (
	"path"
	"strings"
	"testing"
)

func TestFile(t *testing.T) {
	for _, c := range []struct {
		raw, goos, want string
		isFile          bool
	}{
		{"file:///a/b.html", "linux", "/a/b.html", true},
		{" FILE:///a/%62.html ", "linux", "/a/b.html", true},
		{"fi\tle:\n///a/b", "linux", "/a/b", true},
		{`file:\\\a\b`, "linux", "/a/b", true},
		{"file:/a", "linux", "/a", true},
		{"file:a", "linux", "/a", true},
		{"file://localhost/a", "linux", "/a", true},
		{"file://LocalHost/a?q#f", "linux", "/a", true},
		{"file://host/a", "linux", "", true},
		{"file:///a/../../b/./c", "linux", "/b/c", true},
		{"file:///a/%2e%2E/b", "linux", "/b", true},
		{"file:///ok/%3F/../no/x", "linux", "/ok/no/x", true}, // an escaped question mark ends no path
		{"file:///a%2fb", "linux", "", true},                  // Chrome opens no such path
		{"file:///a%00b", "linux", "", true},
		{"file:///100%.html", "linux", "/100%.html", true},
		{"file:///100%25.html", "linux", "/100%.html", true},
		{"file:///a%ffb", "linux", "", true},
		{"file:", "linux", "/", true},
		{"file:///C:/a/b", "windows", "C:/a/b", true},
		{"file:///c|/a/../b", "windows", "c:/b", true},
		{"file://C:/a", "windows", "C:/a", true},
		{"file:///C:/../x", "windows", "C:/x", true},
		{"file:///a/b", "windows", "", true},
		{"file:///C:/a%5cb", "windows", "", true},
		{"file://server/share", "windows", "", true},
		{"http://x/file:///a", "linux", "", false},
		{"view-source:file:///a", "linux", "", false},
		{"/a", "linux", "", false},
	} {
		if got, isFile := File(c.raw, c.goos); got != c.want || isFile != c.isFile {
			t.Errorf("%q on %s: %q, %v; want %q, %v", c.raw, c.goos, got, isFile, c.want, c.isFile)
		}
	}
}

func FuzzFile(f *testing.F) {
	for _, seed := range []string{"file:///a/b", "file://localhost/%41?x#y", `FILE:\a\..\b`, "file:///C:/x", "http://x/", "file:///%2e%2e/%zz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, goos := range []string{"linux", "windows"} {
			got, isFile := File(raw, goos)
			if got == "" {
				continue
			}
			if rest := strings.TrimPrefix(got, got[:strings.IndexByte(got, '/')]); !isFile || path.Clean(rest) != rest || strings.ContainsRune(got, 0) {
				t.Errorf("%q gives %q, %v", raw, got, isFile)
			}
		}
	})
}
