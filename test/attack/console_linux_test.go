package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// An agent that was lent mouse and keyboard sits before the person's own console, which is open and
// signed in, and presses what allows its question: by keys and all over the window. Its key presses
// arrive, and never count; denying does.
func TestAnAgentAtTheConsoleCanNotApproveItself(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a desktop, a Chrome and the program")
	}
	a := openOffice(t, site.Options{ApprovalWait: 1, Rules: site.Rules}, onX)
	if r := a.as(site.ToolPress, `{"text":"wanted"}`); r.Code != capabilities.CodeApprovalPending {
		t.Fatalf("%+v", r)
	}
	w := a.waiting()
	anna, err := a.Tokens.Authenticate(a.operator)
	if err != nil {
		t.Fatal(err)
	}
	code, _, err := a.Tokens.Login(anna, "")
	if err != nil {
		t.Fatal(err)
	}
	found, err := finder.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--app=" + a.URL() + "/console/login#" + code.Reveal(), "--user-data-dir=" + filepath.Join(profile(t), "profile"), "--no-first-run", "--no-default-browser-check",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-gpu", "--no-proxy-server", "--password-store=basic", "--window-size=700,780", "--window-position=560,0"}
	if os.Getuid() == 0 || found.NoSandbox != "" {
		args = append(args, "--no-sandbox", "--test-type")
	}
	page := a.desk.AppTitled("Approvals", found.Path, args...)
	if n := len(a.Tokens.Sessions("anna")); n != 1 {
		t.Fatalf("%d sessions: the page is not signed in", n)
	}
	a.Grant("agent", a.node, "tool.desktop.*")
	a.desk.Activate(page.Window.ID)
	press := func(key string) {
		t.Helper()
		if r := a.as("tool.desktop.keyboard", fmt.Sprintf(`{"action":"press","key":%q}`, key)); r.Status != capabilities.StatusOK {
			t.Fatalf("%s: %+v", key, r)
		}
	}
	still := func(about string) {
		t.Helper()
		got, err := a.Consent.Approval(w.ID)
		if err != nil || got.State != consent.StatePending || a.h.Runs("wanted") != 0 || len(a.Consent.Grants()) != 1 {
			t.Fatalf("%s: %+v %v, %d grants", about, got, err, len(a.Consent.Grants()))
		}
	}
	for i := range 12 {
		press("j") // to the question
		press([]string{"a", "f"}[i%2])
		still("by keys")
	}
clicks:
	for y := 220; y < 780; y += 50 { // the buttons are somewhere, Deny among them
		for _, x := range []int{620, 760, 900} {
			if r := a.as("tool.desktop.mouse", fmt.Sprintf(`{"action":"click","x":%d,"y":%d}`, x, y)); r.Status != capabilities.StatusOK {
				t.Fatalf("%d,%d: %+v", x, y, r)
			}
			if got, _ := a.Consent.Approval(w.ID); got.State == consent.StateDenied {
				break clicks
			}
			if a.h.Runs("wanted") != 0 || len(a.Consent.Grants()) != 1 {
				t.Fatalf("a click at %d,%d", x, y)
			}
		}
	}
	// The control: what it presses does arrive.
	desk.Await(t, "the question to be denied by what the agent presses", func() bool {
		got, err := a.Consent.Approval(w.ID)
		if err == nil && got.State == consent.StatePending {
			a.desk.Activate(page.Window.ID)
			press("j")
			press("d")
		}
		return err == nil && got.State == consent.StateDenied
	})
	if a.h.Runs("wanted") != 0 || len(a.Consent.Grants()) != 1 {
		t.Error("it ran after all")
	}
}
