//go:build linux

package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestFiles(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil { // not even readable for Chrome's account
			t.Fatal(err)
		}
	}
	secret := filepath.Join(outside, "secret.txt")
	write(secret, "SECRET")
	write(filepath.Join(root, "b.js"), "document.title += ' js'")
	os.Symlink(secret, filepath.Join(root, "link.txt"))
	page := filepath.Join(root, "a b.html")
	write(page, `<title>file</title><p>local</p><script src=b.js></script><iframe src="file://`+secret+`"></iframe><iframe src=link.txt></iframe><iframe src="`+outside+`"></iframe><a id=out href="file://`+secret+`">out</a><a id=pop target=_blank href="file://`+secret+`">pop</a>`)
	s := newSite(t, map[string]string{"/": html("<iframe src='file://" + page + "'></iframe>")})
	n := stateful(t, "", func(o *Options) { o.AllowSchemes, o.UploadRoots = []string{"file"}, []string{root} }, s.URL)
	address := "file://" + strings.ReplaceAll(page, " ", "%20")
	n.goTo(address)
	if got := n.eval("document.title"); got != "file js" {
		t.Errorf("title %v", got)
	}
	if snap := n.snap(); !strings.Contains(snap, "local") || strings.Contains(snap, "SECRET") {
		t.Error(snap)
	}
	for _, id := range []string{"#out", "#pop"} {
		n.goTo(address)
		n.must("click", obj{"selector": id})
		n.must("tabs", obj{"action": "select", "index": len(n.must("tabs", obj{}).m["tabs"].([]any)) - 1})
		if snap := n.snap(); strings.Contains(snap, "SECRET") {
			t.Errorf("%s led out:\n%s", id, snap)
		}
	}
	for _, url := range []string{"file://" + secret, "file://" + root + "/link.txt", "file://" + root, "file://" + root + "/../" + filepath.Base(outside) + "/secret.txt", "file:///etc/passwd", "file://host" + page, "file:a.html", "FILE://" + secret, "file://" + root + "/nope"} {
		n.refused(capabilities.CodeURLBlocked, "navigate", obj{"url": url})
	}
	n.goTo(s.URL + "/")
	if snap := n.snap(); strings.Contains(snap, "local") {
		t.Error("a web page shows a file:\n" + snap)
	}
	o, _ := options(t)
	for _, bad := range []func(){func() { o.AllowSchemes = []string{"chrome"} }, func() { o.AllowSchemes = []string{"file"} }} {
		if bad(); o.AllowSchemes != nil {
			if _, err := New(o); err == nil {
				t.Errorf("%v without roots was taken", o.AllowSchemes)
			}
		}
	}
}
