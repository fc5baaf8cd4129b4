package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestExitCodes(t *testing.T) {
	for code := range ExitCodes {
		if !code.Known() {
			t.Errorf("%q is not in the list of codes", code)
		}
	}
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, ExitOK},
		{errors.New("disk"), ExitFailed},
		{UsageError("x"), ExitUsage},
		{fmt.Errorf("wrapped: %w", capabilities.Errorf(capabilities.CodeDeniedByNode, "x")), ExitDenied},
		{capabilities.Errorf(capabilities.CodeLedgerCorrupt, "x"), ExitIntegrity},
		{&ExitError{Code: ExitUnreachable, Err: capabilities.Errorf(capabilities.CodeNotFound, "x")}, ExitUnreachable},
		{noNode("several"), ExitFailed},
		{noNode("no_node"), ExitUnreachable},
		{noNode("not_ready"), ExitUnreachable},
		{noNode("denied_by_policy"), ExitDenied},
		{noNode("mixed"), ExitUnreachable},
		{context.Canceled, ExitInterrupted},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%v ends with %d, want %d", c.err, got, c.want)
		}
	}
}

func noNode(reason string) error {
	return &capabilities.Error{Code: capabilities.CodeAmbiguousNode, Details: map[string]any{"reason": reason}}
}

// An error of a command itself has a code of the list where one fits it, in JSON.
func TestReportedCodes(t *testing.T) {
	_, missing := os.ReadFile(filepath.Join(t.TempDir(), "nothing"))
	_, none := exec.LookPath("no-such-program-anywhere")
	for _, c := range []struct {
		err  error
		want string
	}{
		{missing, string(capabilities.CodeNotFound)},
		{fmt.Errorf("starting: %w", none), string(capabilities.CodeNotFound)},
		{fmt.Errorf("listen: %w", syscall.EADDRINUSE), string(capabilities.CodeConflict)},
		{context.Canceled, string(capabilities.CodeCancelled)},
		{capabilities.Errorf(capabilities.CodeDeniedByNode, "x"), string(capabilities.CodeDeniedByNode)},
		{errors.New("anything else"), failed},
	} {
		var said bytes.Buffer
		Report(&said, c.err, true, nil)
		var body struct {
			Error struct{ Code, Message string }
		}
		if err := json.Unmarshal(said.Bytes(), &body); err != nil || body.Error.Code != c.want || body.Error.Message == "" {
			t.Errorf("%v is reported as %s, want %s: %v", c.err, &said, c.want, err)
		}
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
		if got := Plain(in); got != want {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
	if got := PlainBlock("a\tb\nc\r"); got != "a\tb\nc\\u{d}" {
		t.Errorf("plainBlock kept %q", got)
	}
}
