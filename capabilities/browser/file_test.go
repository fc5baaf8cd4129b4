//go:build linux

package browser

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

func TestFiles(t *testing.T) {
	t.Parallel()
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
	if got := n.must("tabs", obj{}).m["tabs"].([]any)[0].(obj)["url"]; got != address {
		t.Errorf("the tab is at %v", got)
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

// Every way of a page to a file that it is not to have: the secret is in no tab of any
// lane, and Chrome shows no document of the scheme file.
func TestNoWayToAFile(t *testing.T) {
	t.Parallel()
	root, other, outside := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(path, text string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for dir := filepath.Dir(path); dir != os.TempDir(); dir = filepath.Dir(dir) { // Chrome could, if we let it
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	const secret = "TOPSECRET"
	out := write(filepath.Join(outside, "s.txt"), secret)
	never := write(filepath.Join(root, "no", "s.txt"), secret)
	asked := write(filepath.Join(root, "ask", "s.html"), "asked about")
	write(filepath.Join(other, "s.txt"), secret)
	write(filepath.Join(root, "fine.txt"), "FINE")
	write(filepath.Join(root, "sibling.txt"), secret)
	if err := os.Symlink(never, filepath.Join(root, "link.txt")); err != nil {
		t.Fatal(err)
	}
	local := write(filepath.Join(root, "a.html"), `<title>a</title><p>mine</p><a id=fine href=fine.txt>fine</a> <a id=never href=no/s.txt>never</a> <a id=link href=link.txt>link</a> <a id=ask href=ask/s.html>ask</a>
		<a id=up href="../`+filepath.Base(outside)+`/s.txt">up</a> <a id=slash href="no%2fs.txt">slash</a> <a id=out href="file://`+out+`">out</a> <iframe id=f></iframe>`)
	s := newSite(t, map[string]string{"/": html(`<a id=out href="file://` + out + `">out</a><iframe id=f></iframe>`)})
	n := stateful(t, "", func(o *Options) {
		o.AllowSchemes, o.UploadRoots = []string{"file"}, []string{root, other}
		o.CheckFile = func(path string) *capabilities.Error {
			real, _ := filepath.EvalSymlinks(path)
			switch {
			case strings.Contains(path, "/no/") || strings.Contains(real, "/no/"):
				return capabilities.Errorf(capabilities.CodeDeniedByNode, "never").WithHint("Ask.")
			case strings.Contains(path, "/ask/"):
				return capabilities.Errorf(capabilities.CodeConsentUnavailable, "ask").WithHint("Ask.")
			}
			return nil
		}
	}, s.URL)
	look := func(n *node, what string) {
		t := n.t
		t.Helper()
		list := n.must("tabs", obj{}).m["tabs"].([]any)
		for i, tab := range list {
			if address := tab.(obj)["url"].(string); strings.HasPrefix(address, "file://"+outside) {
				t.Errorf("%s: a tab is at %s", what, address)
			}
			n.must("tabs", obj{"action": "select", "index": i})
			if snap := n.snap(); strings.Contains(snap, secret) {
				t.Errorf("%s showed the secret:\n%s", what, snap)
			}
			if text, err := n.try("evaluate", obj{"expression": "document.documentElement.outerHTML"}); err == nil && strings.Contains(text.json, secret) {
				t.Errorf("%s: the document holds the secret", what)
			}
		}
		if len(list) > 1 {
			n.must("close", obj{})
		}
	}
	// The control: what is allowed is shown, by a link and by its address, with a query.
	n.goTo("file://" + local + "?q#f")
	n.must("click", obj{"selector": "#fine"})
	n.until("the file", func() bool { return strings.Contains(n.snap(), "FINE") })
	n.must("navigate-back", obj{})
	if got := n.eval("location.search+location.hash"); got != "?q#f" {
		t.Errorf("query and fragment %v", got)
	}
	n.goTo("file://" + asked) // the guard has asked
	if snap := n.snap(); !strings.Contains(snap, "asked about") {
		t.Error(snap)
	}
	if _, err := n.try("navigate-back", obj{"direction": "reload"}); err == nil || err.Code != capabilities.CodeConsentUnavailable {
		t.Errorf("read again without a question: %v", err)
	}
	look(n, "reload")
	n.refused(capabilities.CodeDeniedByNode, "navigate", obj{"url": "file://" + never})
	n.refused(capabilities.CodeDeniedByNode, "navigate", obj{"url": "file://" + root + "/link.txt"})

	ways := map[string]obj{"plain": {}, "control": {"modifiers": []string{"Control"}}, "shift": {"modifiers": []string{"Shift"}}, "middle": {"button": "middle"}}
	t.Run("ways", func(t *testing.T) { // of each page side by side, in lanes of their own
		beside := func(name string, try func(n *node)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				n := n.on(capabilities.LaneID(name))
				n.t = t
				try(n)
				n.must("close", obj{})
			})
		}
		for name, page := range map[string]string{"file": "file://" + local, "web": s.URL + "/", "data": "data:text/html,<a id=out href='file://" + out + "'>out</a><iframe id=f></iframe>"} {
			beside(name+" links", func(n *node) {
				targets := []string{"#out"}
				if name == "file" {
					targets = append(targets, "#never", "#link", "#up", "#slash", "#ask")
				}
				for _, id := range targets {
					for way, how := range ways {
						n.goTo(page)
						how := maps.Clone(how)
						how["selector"] = id
						n.try("click", how)
						look(n, page+" "+id+" "+way)
					}
				}
			})
			beside(name+" scripts", func(n *node) {
				for _, script := range []string{
					"document.getElementById('f').src = X", "open(X)", "location = X", "location = 'view-source:' + X", "location.replace('blob:' + X)", "document.getElementById('f').srcdoc = '<iframe src=\"' + X + '\"></iframe>'",
					"Object.assign(document.body.appendChild(document.createElement('a')), {href: X, download: 'x'}).click()",
					"document.body.appendChild(document.createElement('object')).data = X", "document.body.appendChild(document.createElement('embed')).src = X",
					"fetch(X).then(r => r.text()).then(t => { document.title = t })", "import(X)", "new Worker(X)",
					"document.getElementById('f').src = '" + s.URL + "/redirect?to=' + encodeURIComponent(X)", "location = '" + s.URL + "/redirect?to=' + encodeURIComponent(X)",
				} {
					n.goTo(page)
					n.try("evaluate", obj{"expression": strings.ReplaceAll(script, "X", "'file://"+out+"'") + ", 1", "timeout_ms": 3000})
					look(n, page+" "+script)
				}
			})
		}
	})

	// A page among the owner's files reads no other: each is an origin of its own.
	for _, script := range []string{
		"fetch('sibling.txt').then(r => r.text())", "new Promise(r => { f.src = 'sibling.txt'; f.onload = () => { try { r(f.contentDocument.body.textContent) } catch (e) { r('no') } } })",
		"new Promise(r => { const x = new XMLHttpRequest(); x.open('GET', 'sibling.txt'); x.onloadend = () => r(x.responseText); x.send() })",
	} {
		n.goTo("file://" + local)
		if a, err := n.try("evaluate", obj{"expression": script}); err == nil && strings.Contains(a.json, secret) {
			t.Errorf("%s: %s", script, a.json)
		}
		n.must("close", obj{})
	}
	// And whoever learns the name of one root has none of the others', nor of another lane's.
	n.goTo("file://" + local)
	host := n.eval("location.host").(string)
	if !strings.HasSuffix(host, "."+egress.FilesDomain) {
		t.Fatal(host)
	}
	for _, address := range []string{"http://" + host + "/sibling.txt", "http://" + host + "./sibling.txt", "https://" + host + "/sibling.txt", "http://" + egress.FilesDomain + "/sibling.txt", "http://X" + host + "/"} {
		n.refused(capabilities.CodeURLBlocked, "navigate", obj{"url": address})
	}
	second := n.on("lane-2")
	second.goTo(s.URL + "/")
	if a, err := second.try("evaluate", obj{"expression": "location = 'http://" + host + "/sibling.txt', new Promise(r => setTimeout(r, 300))"}); err == nil && strings.Contains(a.json, secret) {
		t.Error("another lane has it")
	}
	if snap := second.snap(); strings.Contains(snap, secret) {
		t.Error("another lane has it:\n" + snap)
	}
}
