package process

import (
	"fmt"

	"github.com/handrail-dev/handrail/platform"
)

// Sandbox says how Chrome's own sandbox is used. The zero value is SandboxRequired.
type Sandbox string

const (
	// SandboxRequired runs Chrome in its sandbox, and not at all on a host that cannot
	// give it one; readiness says why.
	SandboxRequired Sandbox = "required"
	// SandboxAuto runs Chrome in its sandbox, and without it on a host that cannot give it
	// one. The owner chose that; readiness says so, and policy has to accept it.
	SandboxAuto Sandbox = "auto"
	// SandboxOff runs Chrome without its sandbox on every host. As of SandboxAuto.
	SandboxOff Sandbox = "off"
)

// ParseSandbox reads required, auto or off; empty is required.
func ParseSandbox(text string) (Sandbox, error) {
	switch s := Sandbox(text); s {
	case "":
		return SandboxRequired, nil
	case SandboxRequired, SandboxAuto, SandboxOff:
		return s, nil
	}
	return "", fmt.Errorf("want required, auto or off, not %q", text)
}

// Without reports whether Chrome runs without its sandbox, as a host gives it for b. missing
// says what keeps Chrome from running at all, and
// how the host could give it a sandbox; its owner can accept that it has none (ActionAcceptBare).
func (s Sandbox) Without(b platform.Browser) (without bool, missing *platform.MissingError) {
	switch {
	case s == SandboxOff:
		return true, nil
	case b.NoSandbox == "":
		return false, nil
	case s == SandboxAuto:
		return true, nil
	}
	return false, &platform.MissingError{What: b.NoSandbox, Fix: b.SandboxFix}
}

// DegradedSandbox is the Readiness.Degraded of a Chrome without its sandbox.
const DegradedSandbox = "chrome_sandbox"
