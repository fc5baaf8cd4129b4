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
