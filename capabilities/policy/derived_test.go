package policy

import (
	"testing"

	"github.com/handrail-dev/handrail/capabilities/canonical"
)

func TestApplicationOfACall(t *testing.T) {
	for args, want := range map[string]string{
		`{"action":{"kind":"launch","app":" GEdit "}}`:                                     "gedit",
		`{"target":"app:\"Text Editor\" >> role:button","action":{"kind":"click"}}`:        "text editor",
		`{"target":"app:gedit && name:x","action":{"kind":"click"}}`:                       "gedit",
		`{"target":"app='gedit'","action":{"kind":"click"}}`:                               "gedit",
		`{"target":"app:gedit || app:xterm","action":{"kind":"click"}}`:                    "",
		`{"target":"app~:gedit","action":{"kind":"click"}}`:                                "",
		`{"target":"!app:gedit","action":{"kind":"click"}}`:                                "",
		`{"target":"role:button >> app:gedit","action":{"kind":"click"}}`:                  "",
		`{"target":"app:gedit x","action":{"kind":"click"}}`:                               "",
		`{"target":"e12","action":{"kind":"click"}}`:                                       "",
		`{"target":{"kind":"ref","ref":"app:gedit"},"action":{"kind":"click"}}`:            "",
		`{"target":"app:gedit","action":{"kind":"drag","to":"app:xterm >> role:textbox"}}`: "",
		`{"target":"app:gedit","action":{"kind":"drag","to":"app:gedit >> role:textbox"}}`: "gedit",
	} {
		root, err := canonical.Decode([]byte(args), canonical.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(application(root)); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

func TestRootOfFiles(t *testing.T) {
	for _, c := range []struct {
		paths []string
		want  string
	}{
		{[]string{"/srv/out/a.txt"}, "/srv/out/"},
		{[]string{"/srv/out/a.txt", "/srv/out/b/c.txt"}, "/srv/out/"},
		{[]string{"/srv/out/a.txt", "/srv/output/b"}, "/srv/"},
		{[]string{"/srv/out/../../etc/passwd"}, "/etc/"},
		{[]string{"/a"}, "/"},
		{[]string{"/a", "/b/c"}, "/"},
		{[]string{"a.txt"}, "./"},
		{[]string{"x/a.txt", "y/b.txt"}, "./"},
		{[]string{"../a.txt"}, "../"},
		{[]string{"x/../../a.txt"}, "../"},
		{[]string{"a.txt", "/b"}, ""},
		{[]string{`C:\Users\a\x.txt`, `C:\Users\b.txt`}, "C:/Users/"},
		{nil, ""},
	} {
		if got := string(commonRoot(c.paths)); got != c.want {
			t.Errorf("%q: %q, want %q", c.paths, got, c.want)
		}
	}
}
