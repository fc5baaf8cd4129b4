package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/platform/chrome"
)

// sandboxFlag is --browser-sandbox; empty: it was not given.
type sandboxFlag browser.Sandbox

func (f *sandboxFlag) String() string { return string(*f) }
func (*sandboxFlag) Type() string     { return "required|auto|off" }
func (f *sandboxFlag) Set(text string) error {
	s, err := browser.ParseSandbox(text)
	*f = sandboxFlag(s)
	return err
}

// addSandboxFlag returns cmd --browser-sandbox; otherwise says what holds without it.
func addSandboxFlag(cmd *cobra.Command, otherwise string) *browser.Sandbox {
	f := new(browser.Sandbox)
	cmd.Flags().Var((*sandboxFlag)(f), "browser-sandbox",
		"Chrome's own sandbox: required, or no browser; auto, without it where the host has none; off, never used (default: "+otherwise+")")
	return f
}

// withoutSandbox reports whether a Chrome that this command itself starts, as the account it runs
// under, has to do without its sandbox.
func withoutSandbox(ctx context.Context, mode browser.Sandbox) bool {
	b, err := chrome.New(chrome.Options{}).Locate(ctx)
	if err == nil && b.RunAs != nil {
		b.NoSandbox = "Chrome's sandbox refuses root."
	}
	without, _ := mode.Without(b)
	return without
}

// settleSandbox says how a start uses Chrome's sandbox. accepted says why Chrome runs without
// it, and who accepted that; empty: it does not. Where the sandbox is required and this host
// cannot give it, the person at the terminal is asked. Without one, or after a no, the error is
// CodeIsolationUnavailable.
func settleSandbox(cmd *cobra.Command, mode browser.Sandbox, finder *chrome.Finder) (as browser.Sandbox, accepted string, err error) {
	command := cmd.Root().Name() + " " + strings.TrimSuffix(cmd.Name(), "-site")
	if mode == browser.SandboxOff {
		return mode, fmt.Sprintf("Added by '%s --browser-sandbox off'.", command), nil
	}
	b, err := finder.Locate(cmd.Context())
	if err != nil || b.NoSandbox == "" {
		return mode, "", nil // the node's readiness tells of a missing browser
	}
	if mode == browser.SandboxAuto {
		return mode, fmt.Sprintf("Added by '%s --browser-sandbox auto': %s", command, b.NoSandbox), nil
	}
	refused := capabilities.Errorf(capabilities.CodeIsolationUnavailable, "Chrome's sandbox cannot start here, and nothing was started. %s",
		b.NoSandbox).
		WithHint(b.SandboxFix + " Or accept Chrome without its sandbox: --browser-sandbox auto.")
	in, out := cmd.InOrStdin(), cmd.OutOrStdout()
	if !terminal.Interactive(in) || !terminal.Interactive(out) || terminal.FlagsOf(cmd).JSON {
		return mode, "", refused
	}
	fmt.Fprintf(out, "Chrome's sandbox cannot start here. %s\n  -> %s\n", b.NoSandbox, b.SandboxFix)
	fmt.Fprint(out, "Without it, a page that breaks out of Chrome can do on this machine whatever the account that Chrome runs as can do.\n"+
		"A yes becomes a rule of this gateway's policy, and every call records it. A start with --browser-sandbox auto does not ask.\n"+
		"Run Chrome without its sandbox? [y/N] ")
	yes, err := readYes(cmd.Context(), in)
	if err != nil {
		return mode, "", err
	}
	if !yes {
		return mode, "", refused
	}
	who := "somebody"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	return browser.SandboxAuto, fmt.Sprintf("Added by '%s': %s said yes at the terminal. %s", command, who, b.NoSandbox), nil
}

// readYes reads one answer; anything but y or yes is a no.
func readYes(ctx context.Context, in io.Reader) (bool, error) {
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(in, 64)).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case a := <-answer:
		return a == "y" || a == "yes", nil
	}
}
