package browser

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// A page is audited by the axe-core that the owner named and pinned, and by no other.
func TestAudit(t *testing.T) {
	t.Parallel()
	path := os.Getenv("HANDRAIL_CONFORMANCE")
	if path == "" {
		t.Skip("HANDRAIL_CONFORMANCE names no folder with axe-core")
	}
	path = filepath.Join(path, "node_modules", "axe-core", "axe.min.js")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	s := newSite(t, map[string]string{"/": `<!doctype html><html lang=en><title>Shop</title><main><h1>Shop</h1><img id=logo src=/x.png><button id=b></button>
<form id=f><label for=n>Name</label><input id=n></form></main><script>axe = {run() { throw 1 }}</script>`})
	n := nodeWith(t, func(o *Options) { o.Audit = AuditScript{Path: path, SHA256: hex.EncodeToString(sum[:])} }, s.URL)
	n.goTo(s.URL)
	a := n.must("audit", obj{})
	for _, want := range []string{`"engine":"axe-core `, `"rule":"image-alt"`, `"rule":"button-name"`, `"selector":"#logo"`, `"impact":"critical"`} {
		if !strings.Contains(a.json, want) {
			t.Errorf("%s is missing: %s", want, a.json)
		}
	}
	if a = n.must("audit", obj{"selector": "#f", "tags": []string{"wcag2a"}}); strings.Contains(a.json, "image-alt") {
		t.Errorf("a part of the page: %s", a.json)
	}
	n.refused(capabilities.CodeElementNotFound, "audit", obj{"selector": "#gone"})
	if got := n.eval("typeof axe.run + typeof axe.version"); got != "functionundefined" {
		t.Errorf("the page's own axe is %v", got)
	}
}

func TestAuditOfWhatIsNotPinned(t *testing.T) {
	file := filepath.Join(t.TempDir(), "axe.min.js")
	if err := os.WriteFile(file, []byte("axe = {}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		script AuditScript
		code   capabilities.Code
	}{
		{AuditScript{}, capabilities.CodeNotSupported},
		{AuditScript{Path: file + "x", SHA256: strings.Repeat("0", 64)}, capabilities.CodeNotSupported},
		{AuditScript{Path: file, SHA256: strings.Repeat("0", 64)}, capabilities.CodeDeniedByNode},
		{AuditScript{Path: file}, capabilities.CodeDeniedByNode},
	} {
		if _, err := tc.script.read(); !isCode(err, tc.code) || capabilities.AsError(err).PublicHint() == "" {
			t.Errorf("%+v: %v", tc.script, err)
		}
	}
}
