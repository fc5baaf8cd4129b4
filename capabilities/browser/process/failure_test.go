package process

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// Each failure of a start has its code, and says what to do.
func TestFailures(t *testing.T) {
	broken := errors.New("the pipe ended")
	bare := platform.Browser{Path: "/x", NoSandbox: "No namespaces.", SandboxFix: "Allow."}
	for name, tc := range map[string]struct {
		err  error
		code capabilities.Code
		hint bool
	}{
		"no browser":          {Missing(&platform.MissingError{What: "None.", Fix: "Install one."}), capabilities.CodeBrowserUnavailable, true},
		"no sandbox":          {mayStart(SandboxRequired, bare), capabilities.CodeIsolationUnavailable, true},
		"the sandbox broke":   {startFailure(t.Context(), broken, "FATAL: No usable sandbox!"), capabilities.CodeIsolationUnavailable, true},
		"a library":           {startFailure(t.Context(), broken, "error while loading shared libraries: x"), capabilities.CodeBrowserUnavailable, true},
		"another end":         {startFailure(t.Context(), broken, ""), capabilities.CodeBrowserUnavailable, false},
		"a profile in use":    {notStarted(&platform.LentError{Note: "conversation x"}), capabilities.CodeConflict, true},
		"the host lacks":      {notStarted(&platform.MissingError{What: "No.", Fix: "Do."}), capabilities.CodeBrowserUnavailable, true},
		"nobody answers":      {Unreached(&url.URL{Host: "127.0.0.1:9"}, broken), capabilities.CodeBrowserUnavailable, true},
		"neither of the ones": {notStarted(broken), capabilities.CodeBrowserUnavailable, false},
	} {
		e := capabilities.AsError(tc.err)
		if own := e.Hint != "" || !e.Action.IsZero(); e.Code != tc.code || tc.hint && !own {
			t.Errorf("%s: %+v", name, e)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := startFailure(gone, broken, "No usable sandbox"); !errors.Is(err, context.Canceled) {
		t.Error("it was called off:", err)
	}
	if err := mayStart(SandboxAuto, bare); err != nil {
		t.Error("the owner accepted it:", err)
	}
}

func TestReadAddress(t *testing.T) {
	for raw, ok := range map[string]bool{
		"http://127.0.0.1:9222": true, "http://localhost:9222/": true, "http://[::1]:9222": true, "http://127.0.0.1": false,
		"https://127.0.0.1:9222": false, "http://192.0.2.1:9222": false, "http://u@127.0.0.1:9222": false, "http://127.0.0.1:9222/x": false,
	} {
		if u, err := ReadAddress(raw); (err == nil) != ok || (u != nil) != ok {
			t.Errorf("%s: %v, %v", raw, u, err)
		}
	}
	if u, err := ReadAddress(""); u != nil || err != nil {
		t.Error(u, err)
	}
}
