//go:build linux

package browser

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

func TestReadiness(t *testing.T) {
	t.Parallel()
	o, _ := options(t)
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	all := h.Readiness(t.Context())
	if len(all) != len(tools()) || len(h.Capabilities()) != len(tools()) {
		t.Fatal(all)
	}
	for i, r := range all {
		if r.Capability != h.Capabilities()[i] || !r.Ready() || !strings.HasPrefix(r.Backend, "chrom") {
			t.Errorf("%+v", r)
		}
		if o.Sandbox == "" && (r.Isolation != capabilities.ClassT2 || r.Degraded != "") {
			t.Errorf("%+v", r)
		}
	}
	o.Sandbox = SandboxOff
	h, _ = New(o)
	if r := h.Readiness(t.Context())[0]; !r.Ready() || r.Degraded != "chrome_sandbox" || r.Isolation.Rank() >= capabilities.ClassT2.Rank() {
		t.Errorf("without sandbox: %+v", r)
	}
	bare := finderFunc(func() (platform.Browser, error) {
		return platform.Browser{Path: "/x", NoSandbox: "No namespaces.", SandboxFix: "Allow."}, nil
	})
	o.Sandbox, o.Finder = SandboxAuto, bare
	h, _ = New(o)
	if r := h.Readiness(t.Context())[0]; !r.Ready() || r.Degraded != "chrome_sandbox" || r.Isolation != capabilities.ClassT1 {
		t.Errorf("auto without namespaces: %+v", r)
	}
	o.Sandbox, o.Finder = SandboxRequired, bare
	h, _ = New(o)
	if r := h.Readiness(t.Context())[0]; r.Action.Key != capabilities.ActionAcceptBare {
		t.Errorf("the fix names no flag: %+v", r)
	}
	for _, tc := range []struct {
		finder finderFunc
		reason capabilities.Reason
		code   capabilities.Code
	}{
		{func() (platform.Browser, error) {
			return platform.Browser{}, &platform.MissingError{What: "None.", Fix: "Install one."}
		}, capabilities.ReasonBackendMissing, capabilities.CodeBrowserUnavailable},
		{bare, capabilities.ReasonIsolationMissing, capabilities.CodeIsolationUnavailable},
		{func() (platform.Browser, error) {
			return platform.Browser{}, errors.New("odd")
		}, capabilities.ReasonBackendFailing, capabilities.CodeBrowserUnavailable},
		{func() (platform.Browser, error) {
			return platform.Browser{Path: "/bin/false"}, nil
		}, capabilities.ReasonReady, capabilities.CodeBrowserUnavailable},
	} {
		o.Finder = tc.finder
		h, _ = New(o)
		if r := h.Readiness(t.Context())[0]; r.Reason != tc.reason || (r.Fix == "") != r.Ready() {
			t.Errorf("%+v, want %s with a fix", r, tc.reason)
		}
		n := &node{t: t, h: h, lane: "l", log: &syncBuffer{}}
		n.refused(tc.code, "snapshot", obj{})
		h.Close()
	}
}

type finderFunc func() (platform.Browser, error)

func (f finderFunc) Find(context.Context) (platform.Browser, error) { return f() }

func TestVisibleWithoutDisplay(t *testing.T) {
	t.Setenv("DISPLAY", "")
	t.Setenv("WAYLAND_DISPLAY", "")
	n := newNode(t)
	n.refused(capabilities.CodeNotSupported, "launch", obj{"headless": false})
	n.must("launch", obj{})
}

func TestOptions(t *testing.T) {
	t.Parallel()
	o, _ := options(t)
	for _, origin := range []string{"localhost", "ftp://x", "http://", "http://x/path", "http://u@x", "*"} {
		o.AllowOrigins = []string{origin}
		if _, err := New(o); err == nil {
			t.Errorf("origin %q was taken", origin)
		}
	}
	o.AllowOrigins, o.Sandbox = nil, "maybe"
	if _, err := New(o); err == nil {
		t.Error("sandbox maybe was taken")
	}
	if _, err := New(Options{}); err == nil {
		t.Error("no finder was taken")
	}
	h, err := New(Options{Finder: o.Finder, Launcher: o.Launcher})
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	h.Close()
	if _, err := h.Handle(t.Context(), capabilities.Invocation{Capability: "tyrum.browser.snapshot", Lane: "l"}); capabilities.CodeOf(err) != capabilities.CodeBrowserUnavailable {
		t.Error(err)
	}
	if _, err := h.Handle(t.Context(), capabilities.Invocation{Capability: "tyrum.browser.fly", Lane: "l"}); capabilities.CodeOf(err) != capabilities.CodeNotSupported {
		t.Error(err)
	}
}
