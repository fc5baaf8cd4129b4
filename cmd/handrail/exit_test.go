package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/front"
)

func TestExitCodes(t *testing.T) {
	for code := range exitCodes {
		if !code.Known() {
			t.Errorf("%q is not in the list of codes", code)
		}
	}
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, exitOK},
		{errors.New("disk"), exitFailed},
		{usageError("x"), exitUsage},
		{fmt.Errorf("wrapped: %w", capabilities.Errorf(capabilities.CodeDeniedByNode, "x")), exitDenied},
		{capabilities.Errorf(capabilities.CodeLedgerCorrupt, "x"), exitIntegrity},
		{&exitError{code: exitUnreachable, err: capabilities.Errorf(capabilities.CodeNotFound, "x")}, exitUnreachable},
		{noNode("several"), exitFailed},
		{noNode("no_node"), exitUnreachable},
		{noNode("not_ready"), exitUnreachable},
		{noNode("denied_by_policy"), exitDenied},
		{noNode("mixed"), exitUnreachable},
		{context.Canceled, exitInterrupted},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v ends with %d, want %d", c.err, got, c.want)
		}
	}
}

func noNode(reason string) error {
	return &capabilities.Error{Code: capabilities.CodeAmbiguousNode, Details: map[string]any{"reason": reason}}
}

// 'handrail resume' waits for hands that were revoked, and not for those that are still lent.
func TestHandsThatAreOver(t *testing.T) {
	until := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for name, c := range map[string]struct {
		code  capabilities.Code
		about capabilities.Presence
		want  time.Duration
	}{
		"revoked":         {capabilities.CodeHandsElsewhere, capabilities.Presence{Node: "n1", Until: until, Seconds: 12}, 12 * time.Second},
		"a call runs":     {capabilities.CodeHandsElsewhere, capabilities.Presence{Node: "n1"}, time.Second},
		"lent":            {capabilities.CodeHandsElsewhere, capabilities.Presence{Node: "n1", Until: until, Seconds: 300}, 0},
		"another refusal": {capabilities.CodeForbidden, capabilities.Presence{Passkey: true}, 0},
	} {
		answer := httptest.NewRecorder()
		front.WriteError(answer, capabilities.Errorf(c.code, "no").WithDetails(c.about))
		if got := handsOver(client.DecodeError(answer.Result())); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestDefaultDataDir(t *testing.T) {
	abs := filepath.Join(t.TempDir(), "state")
	for name, c := range map[string]struct {
		goos string
		env  map[string]string
		want string
	}{
		"XDG":                {"linux", map[string]string{"XDG_STATE_HOME": abs, "HOME": "h"}, filepath.Join(abs, "handrail")},
		"relative XDG is no": {"linux", map[string]string{"XDG_STATE_HOME": "state", "HOME": "h"}, filepath.Join("h", ".local", "state", "handrail")},
		"mac":                {"darwin", map[string]string{"HOME": "h"}, filepath.Join("h", "Library", "Application Support", "handrail")},
		"windows":            {"windows", map[string]string{"LOCALAPPDATA": "l"}, filepath.Join("l", "handrail")},
	} {
		got, err := defaultDataDir(c.goos, func(k string) string { return c.env[k] })
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, c.want)
		}
	}
	if _, err := defaultDataDir("linux", func(string) string { return "" }); err == nil {
		t.Error("no home directory gave a data directory")
	}
}

// Names that others gave (a device, a page) must not drive the terminal.
func TestPlainText(t *testing.T) {
	for in, want := range map[string]string{
		"desk":           "desk",
		"a\x1b[31mb":     `a\u{1b}[31mb`,
		"a\nb":           `a\u{a}b`,
		"x\u202etxt.exe": `x\u{202e}txt.exe`,
		"é ü 漢":          "é ü 漢",
	} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
	if got := plainBlock("a\tb\nc\r"); got != "a\tb\nc\\u{d}" {
		t.Errorf("plainBlock kept %q", got)
	}
}
