package owner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// The folders hold for a file by whichever name it is read: its own, a link's, or one
// below a folder that is itself a link.
func TestReadingAFile(t *testing.T) {
	real := t.TempDir()
	linked := filepath.Join(t.TempDir(), "linked")
	for _, dir := range []string{"never", "ask", "fine"} {
		if err := os.MkdirAll(filepath.Join(real, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(real, dir, "x"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{linked: real, filepath.Join(real, "fine", "link"): filepath.Join(real, "never", "x")} {
		if err := os.Symlink(to, link); err != nil {
			t.Skip(err)
		}
	}
	for _, named := range []string{real, linked} {
		r := mustRules(t, `{"version":1,"folders":{"never":[`+quote(filepath.Join(named, "never"))+`],"ask":[`+quote(filepath.Join(named, "ask"))+`]}}`)
		for name, want := range map[string]capabilities.Code{
			"never/x": capabilities.CodeDeniedByNode, "ask/x": capabilities.CodeConsentUnavailable, "fine/x": "", "fine/link": capabilities.CodeDeniedByNode,
			"fine/../never/x": capabilities.CodeDeniedByNode, "never": capabilities.CodeDeniedByNode,
		} {
			for _, base := range []string{real, linked} {
				var got capabilities.Code
				if err := r.Read(base + "/" + name); err != nil {
					got = err.Code
				}
				if got != want {
					t.Errorf("rules name %s: %s/%s is %q, want %q", named, base, name, got, want)
				}
			}
		}
		// The same file as a call names it; an escaped question mark hides no way up.
		for _, address := range []string{"file://" + real + "/never/x", "file://" + linked + "/never/x", "file://" + real + "/fine/%3F/../../never/x", "file://" + real + "/fine/%3f/%2e%2E/%2e%2e/never/x", `file:\\` + real + `\never\x`} {
			if d := r.Judge(request("tool.browser.navigate", `{"url":`+quote(address)+`}`)); d.Effect != policy.Deny {
				t.Errorf("%s: %v", address, d.Effect)
			}
		}
	}
}

// The folders hold for a file that is not there yet, behind links, too.
func TestANewFileBehindALink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "never"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"in": "never", "dangling": "never/later"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip(err)
		}
	}
	for _, named := range []string{"never", "in"} {
		r := mustRules(t, `{"version":1,"folders":{"never":[`+quote(filepath.Join(dir, named))+`]}}`)
		for _, name := range []string{"never/new", "in/new", "in/deep/new", "dangling", "dangling/new"} {
			if err := r.Read(filepath.Join(dir, name)); err == nil || err.Code != capabilities.CodeDeniedByNode {
				t.Errorf("rules name %s: %s: %v", named, name, err)
			}
		}
		if err := r.Read(filepath.Join(dir, "fine", "new")); err != nil {
			t.Error(err)
		}
	}
}

// A program gets a whole folder only if no rule is about a part of it.
func TestWholeFolders(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"work/private", "work/src", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("work", filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		list, rule, folder string
		want               capabilities.Code
	}{
		{"never", "work/private", "work", capabilities.CodeDeniedByNode},
		{"never", "work/private", "link", capabilities.CodeDeniedByNode},
		{"never", "link/private", "work", capabilities.CodeDeniedByNode},
		{"never", "work/later", "work", capabilities.CodeDeniedByNode},
		{"never", "work", "work/src", capabilities.CodeDeniedByNode},
		{"never", "work/private", "work/src", ""},
		{"never", "other", "work", ""},
		{"ask", "work/private", "work", capabilities.CodeConsentUnavailable},
		{"ask", "work", "work", capabilities.CodeConsentUnavailable},
		{"ask", "other", "work", ""},
		{"only", "work", "work", ""},
		{"only", "link", "work/src", ""},
		{"only", "work/src", "work", capabilities.CodeDeniedByNode},
		{"only", "other", "work", capabilities.CodeDeniedByNode},
	} {
		r := mustRules(t, `{"version":1,"folders":{"`+c.list+`":[`+quote(filepath.Join(dir, c.rule))+`]}}`)
		err := r.Whole(filepath.Join(dir, c.folder))
		if (err == nil) != (c.want == "") || err != nil && (err.Code != c.want || err.Hint == "") {
			t.Errorf("%s %s, the folder %s: %v", c.list, c.rule, c.folder, err)
		}
	}
	if err := mustRules(t, `{"version":1}`).Whole(dir); err != nil {
		t.Error(err)
	}
}
