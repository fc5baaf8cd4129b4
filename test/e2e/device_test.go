package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/pairing"
	"github.com/handrail-dev/handrail/test/site"
)

// A device that cannot keep its promises does not start, and says why.
func TestDeviceThatMustNotStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, n *site.Node)
		code  capabilities.Code
		names string
	}{
		"owner's rules that are no Cedar": {func(t *testing.T, n *site.Node) {
			must(t, os.WriteFile(filepath.Join(n.Dir, "owner-mine.cedar"), []byte("permit (principal"), 0o600))
		}, "", "owner-mine.cedar"},
		"a journal with a flipped byte": {func(t *testing.T, n *site.Node) {
			path := filepath.Join(n.Dir, "journal", string(n.ID))
			files, err := filepath.Glob(filepath.Join(path, "*.log"))
			must(t, err)
			if len(files) == 0 {
				entries, _ := os.ReadDir(path)
				t.Fatalf("no segment among %v", entries)
			}
			data, err := os.ReadFile(files[0])
			must(t, err)
			data[40] ^= 1 // inside the first record
			must(t, os.WriteFile(files[0], data, 0o600))
		}, capabilities.CodeLedgerCorrupt, ""},
		"an identity that is gone": {func(t *testing.T, n *site.Node) {
			must(t, os.Remove(filepath.Join(n.Dir, "identity.json")))
		}, capabilities.CodeNodeNotPaired, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h, handler, n := one(t)
			for range 5 {
				want(t, h.Call(t.Context(), site.ToolEcho, text("x"), ""), capabilities.StatusOK, "")
			}
			n.Stop()
			c.spoil(t, n)
			cat, err := site.Catalog()
			must(t, err)
			_, err = agent.New(agent.Options{Dir: n.Dir, Handlers: []capabilities.Handler{handler}, Catalog: cat})
			if err == nil || c.code != "" && capabilities.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.names) {
				t.Errorf("%v", err)
			}
		})
	}
}

// Two processes with one identity would answer for each other's calls.
func TestOneProcessPerDevice(t *testing.T) {
	_, handler, n := one(t)
	cat, err := site.Catalog()
	must(t, err)
	if _, err := agent.New(agent.Options{Dir: n.Dir, Handlers: []capabilities.Handler{handler}, Catalog: cat}); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("%v", err)
	}
}

// With nobody at the other end a node tries on, and ends when it is told to.
func TestDeviceWithoutAGateway(t *testing.T) {
	_, handler, n := one(t)
	n.Stop()
	cat, err := site.Catalog()
	must(t, err)
	c, cancel := context.WithCancel(ctx())
	tried := make(chan struct{}, 100)
	a, err := agent.New(agent.Options{
		Dir: n.Dir, Handlers: []capabilities.Handler{handler}, Catalog: cat, Addrs: []string{"127.0.0.1:9"},
		OnState: func(s link.State) {
			if s.Err != nil {
				select {
				case tried <- struct{}{}:
				default:
				}
			}
		},
	})
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- a.Run(c) }()
	await(t, "a failed attempt", tried)
	cancel()
	must(t, await(t, "the node to end", done))
}

// The paste: used, withdrawn, expired, for another site. Nobody gets in and the
// device is told what to do.
func TestPastesThatDoNotLetIn(t *testing.T) {
	h := start(t, site.Options{})
	join := func(paste pairing.Paste) (string, error) {
		dir := privateDir(t)
		paste.Addrs = []string{h.QUICAddr().String()}
		_, err := link.Join(ctx(), paste, link.JoinOptions{Dir: dir, Profile: pairing.Profile{Host: "new"}})
		return dir, err
	}
	refused := func(name string, paste pairing.Paste, code capabilities.Code) {
		t.Helper()
		dir, err := join(paste)
		var e *capabilities.Error
		if !errors.As(err, &e) || e.Code != code || e.PublicHint() == "" {
			t.Errorf("%s: %v, want %s", name, err, code)
		}
		if _, err := link.LoadIdentity(dir); err == nil {
			t.Errorf("%s: the device has an identity", name)
		}
	}
	_, used, err := h.Nodes.Invite(ctx(), h.invitation())
	must(t, err)
	_, err = join(used)
	must(t, err)
	refused("used", used, capabilities.CodePasteUsed)

	inv, withdrawn, err := h.Nodes.Invite(ctx(), h.invitation())
	must(t, err)
	must(t, h.Nodes.Withdraw(ctx(), inv.ID, "admin"))
	refused("withdrawn", withdrawn, capabilities.CodePasteExpired)

	_, other, err := h.Nodes.Invite(ctx(), h.invitation())
	must(t, err)
	stranger := start(t, site.Options{})
	other.Site = stranger.Site.Site()
	refused("for another site", other, capabilities.CodeSiteMismatch)
	if n := len(h.Nodes.Views()); n != 1 {
		t.Errorf("%d nodes in the roster", n)
	}
}
