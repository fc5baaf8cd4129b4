package process

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// notStarted words why a browser did not start.
func notStarted(err error) error {
	var lent *platform.LentError
	if errors.As(err, &lent) {
		return profileInUse(lent)
	}
	var missing *platform.MissingError
	if errors.As(err, &missing) {
		return capabilities.Wrap(capabilities.CodeBrowserUnavailable, err, "The browser could not be started. "+missing.What).
			WithHint(missing.Fix)
	}
	return capabilities.Wrap(capabilities.CodeBrowserUnavailable, err, "The browser could not be started.")
}

// profileInUse says who has the profile.
func profileInUse(e *platform.LentError) error {
	who := e.Note
	if who == "" {
		who = "another process"
	}
	return capabilities.Wrap(capabilities.CodeConflict, e, "The profile is in use by "+capabilities.Clip(who, 300)+".").
		WithHint("Close it there with tool.browser.close, or launch another profile.")
}

// Missing words why no browser was found.
func Missing(err error) error {
	var missing *platform.MissingError
	if errors.As(err, &missing) {
		return capabilities.Errorf(capabilities.CodeBrowserUnavailable, "%s", missing.What).WithHint(missing.Fix)
	}
	return capabilities.Wrap(capabilities.CodeBrowserUnavailable, err, "")
}

// orBare is what the owner can do where the host gives Chrome no sandbox.
var orBare = capabilities.Action{Key: capabilities.ActionAcceptBare}

// orAccept is how a host could give Chrome its sandbox, before the words for orBare.
func orAccept(fix string) string {
	return strings.TrimSpace(fix + " Or the owner accepts Chrome without its sandbox.")
}

// mayStart says why Chrome must not be started on a host; nil: it may.
func mayStart(s Sandbox, b platform.Browser) error {
	if _, missing := s.Without(b); missing != nil {
		return capabilities.Errorf(capabilities.CodeIsolationUnavailable, "%s", missing.What).WithAction(orBare, orAccept(missing.Fix))
	}
	return nil
}

// startFailure names the usual reasons for which Chrome ends at once.
func startFailure(ctx context.Context, err error, output string) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case strings.Contains(output, "No usable sandbox"), strings.Contains(output, "sandbox_linux"), strings.Contains(output, "credentials.cc"):
		return capabilities.Wrap(capabilities.CodeIsolationUnavailable, err, "Chrome found no usable sandbox on this host.").
			WithAction(orBare, orAccept("Allow user namespaces."))
	case strings.Contains(output, "error while loading shared libraries"):
		return capabilities.Wrap(capabilities.CodeBrowserUnavailable, err, "Chrome misses a system library.").
			WithHint("Install the browser by the system's package manager.")
	}
	return capabilities.Wrap(capabilities.CodeBrowserUnavailable, errors.Join(err, errors.New(output)), "Chrome ended while it started.")
}

// Unreached words why a person's Chrome was not attached to.
func Unreached(at *url.URL, err error) error {
	return capabilities.Wrap(capabilities.CodeBrowserUnavailable, err, "No Chrome answers at "+at.Host+".").
		WithHint("Start Chrome with --remote-debugging-port and a --user-data-dir of its own, or launch without attach.")
}
