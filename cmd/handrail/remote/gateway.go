package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/client"
)

// Gateway is the typed client with what the commands want of it: raw objects for
// --json, and exit codes. It is safe for concurrent use.
type Gateway struct {
	*client.Client
	Base  *url.URL
	Token string
	Pin   client.Pin // of a gateway whose certificate is known by its fingerprint
	Away  bool       // it is not the one of the data directory
	Keeps bool       // its token is one that the gateway keeps in the data directory
}

// Find finds the gateway: HANDRAIL_URL with HANDRAIL_TOKEN, and
// HANDRAIL_FINGERPRINT for a certificate that no authority stands behind, else the
// one that runs on the command's data directory. On a device that was paired with a
// paste which carried the gateway's HTTPS, HANDRAIL_TOKEN alone is enough.
func Find(cmd *cobra.Command) (*Gateway, error) {
	return FindWith(cmd, datadir.Dir.TokenPath)
}

// FindFor is Find, or, for an agent, the same with the token that the gateway
// keeps for agents: what an admin asks for, the same admin cannot approve.
func FindFor(cmd *cobra.Command, agent bool) (*Gateway, error) {
	if !agent {
		return Find(cmd)
	}
	if os.Getenv("HANDRAIL_TOKEN") != "" || os.Getenv("HANDRAIL_URL") != "" {
		return nil,
			terminal.UsageError("--agent takes the token of the data directory; HANDRAIL_TOKEN and HANDRAIL_URL already say who calls where")
	}
	return FindWith(cmd, datadir.Dir.AgentTokenPath)
}

// FindWith is Find with the token that a data directory keeps in the named file.
func FindWith(cmd *cobra.Command, tokenFile func(datadir.Dir) string) (*Gateway, error) {
	token := strings.TrimSpace(os.Getenv("HANDRAIL_TOKEN"))
	if address := os.Getenv("HANDRAIL_URL"); address != "" {
		if token == "" {
			// The token of a local data directory is never sent anywhere else.
			return nil, &terminal.ExitError{Code: terminal.ExitForbidden, Err: capabilities.Errorf(capabilities.CodeUnauthenticated,
				"HANDRAIL_URL is set, but HANDRAIL_TOKEN is not").
				WithHint("Create a token on that gateway with 'handrail token create' and put it into HANDRAIL_TOKEN.")}
		}
		base, err := client.ParseAddress(address)
		if err != nil {
			return nil, terminal.UsageError("HANDRAIL_URL: %v", err)
		}
		pin, err := client.ParsePin(os.Getenv("HANDRAIL_FINGERPRINT"))
		if err != nil {
			return nil, terminal.UsageError("HANDRAIL_FINGERPRINT: %v", err)
		}
		if data, err := datadir.Of(cmd); err == nil && pin.IsZero() {
			if door, its, ok := data.Door(); ok && door.String() == base.String() {
				pin = its
			}
		}
		c := At(base, token, pin)
		c.Away = true
		return c, nil
	}
	data, err := datadir.Of(cmd)
	if err != nil {
		return nil, err
	}
	running, err := data.ReadRunning()
	if err != nil {
		if base, pin, ok := data.Door(); ok && token != "" {
			c := At(base, token, pin)
			c.Away = true
			return c, nil
		}
		return nil, err
	}
	base, pin, err := running.Place()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", data.RunningPath(), err)
	}
	kept := token == ""
	if kept {
		if token, err = ReadToken(tokenFile(data)); err != nil {
			return nil, err
		}
	}
	c := At(base, token, pin)
	c.Keeps = kept
	return c, nil
}

// ReadToken reads a token from a file that the gateway keeps.
func ReadToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrPermission) {
		return "", &terminal.ExitError{Code: terminal.ExitForbidden, Err: capabilities.Errorf(capabilities.CodeForbidden,
			"the token %s may not be read by this user", path).WithHint("Run as the user who runs the gateway, or set HANDRAIL_TOKEN.")}
	}
	if err != nil {
		return "", &terminal.ExitError{Code: terminal.ExitForbidden, Err: capabilities.Errorf(capabilities.CodeUnauthenticated,
			"no token at %s", path).WithHint("Set HANDRAIL_TOKEN, or name the gateway's data directory with --data.")}
	}
	return strings.TrimSpace(string(text)), nil
}

// At returns the gateway at an address that is known already.
func At(base *url.URL, token string, pin client.Pin) *Gateway {
	c := client.At(base, client.NewToken(token), pin).Within(traceParent(os.Getenv("TRACEPARENT")))
	return &Gateway{Client: c, Base: base, Token: token, Pin: pin}
}

// parent is a traceparent of version 00, of a trace and a span that are there.
var parent = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceParent returns where the command stands in its caller's trace, as the environment says it by
// OpenTelemetry's convention; empty if it does not say it as the standard has it.
func traceParent(text string) string {
	if !parent.MatchString(text) {
		return ""
	}
	return text
}

// Path joins segments into a path below /v1, each escaped.
func Path(segments ...string) string { return client.Path(segments...) }

// Escape makes one segment of a path of a text.
func Escape(segment string) string { return url.PathEscape(segment) }

// Query appends the non-empty pairs (name, value, name, value …) to p.
func Query(p string, pairs ...string) string { return client.Query(p, pairs...) }

// Get asks for path and decodes the answer into out.
func (c *Gateway) Get(ctx context.Context, path string, out any) error {
	return c.Ask(ctx, http.MethodGet, path, nil, out)
}

// Ask sends in (nil: no body) and decodes the answer into out (nil: discarded).
func (c *Gateway) Ask(ctx context.Context, method, path string, in, out any) error {
	return c.Told(c.Do(ctx, method, path, in, out))
}

// Told is the same as the function, and says where a data directory's own token comes from.
func (c *Gateway) Told(err error) error {
	if coded := (*capabilities.Error)(nil); c.Keeps && errors.As(err, &coded) && coded.Code == capabilities.CodeUnauthenticated {
		return command.Advise(coded, "The gateway makes this data directory's token anew when it starts: end ", command.Here("up"), " or ",
			command.Here("gateway"), " and start it again.")
	}
	return Told(err)
}

// Fetch sends in and returns the body of a successful answer; the caller closes it.
func (c *Gateway) Fetch(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	body, err := c.Open(ctx, method, path, in)
	return body, c.Told(err)
}

// Change has the gateway do one thing, and says that it is done as Confirmed does.
func Change(cmd *cobra.Command, method, path string, in any, format string, args ...any) error {
	c, err := Find(cmd)
	if err != nil {
		return err
	}
	return c.Change(cmd, method, path, in, format, args...)
}

// Change is the function, at this gateway.
func (c *Gateway) Change(cmd *cobra.Command, method, path string, in any, format string, args ...any) error {
	var raw json.RawMessage
	if err := c.Ask(cmd.Context(), method, path, in, &raw); err != nil {
		return err
	}
	return Confirmed(cmd, raw, format, args...)
}

// Confirmed prints the gateway's answer with --json, else the sentence.
func Confirmed(cmd *cobra.Command, raw json.RawMessage, format string, args ...any) error {
	if !terminal.FlagsOf(cmd).JSON {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), terminal.Plain(fmt.Sprintf(format, args...)))
		return err
	}
	if len(raw) == 0 {
		return terminal.PrintJSON(cmd.OutOrStdout(), map[string]bool{"ok": true})
	}
	return terminal.PrintJSON(cmd.OutOrStdout(), raw)
}

// Told returns a gateway that cannot be reached its exit code and what to do.
func Told(err error) error {
	if !errors.Is(err, client.ErrUnreachable) {
		return err
	}
	if client.Untrusted(err) {
		return &terminal.ExitError{Code: terminal.ExitUnreachable, Err: capabilities.Errorf(capabilities.CodeUnauthenticated, "%s", err.Error()).
			WithHint("If that is your gateway, compare the fingerprint that 'handrail login' shows on its machine, and put it into " +
				"HANDRAIL_FINGERPRINT. If it changed by itself, somebody may be in between.")}
	}
	return &terminal.ExitError{Code: terminal.ExitUnreachable,
		Err: command.Advise(capabilities.Errorf(capabilities.CodeNotFound, "%s", err.Error()),
			"Start it with ", command.Here("up"), " or ", command.Here("gateway"), ", or correct --data or HANDRAIL_URL.")}
}
