package main

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
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/gateway/client"
)

// remote is the typed client with what the commands want of it: raw objects for
// --json, and exit codes. It is safe for concurrent use.
type remote struct {
	*client.Client
	base  *url.URL
	token string
	pin   client.Pin // of a gateway whose certificate is known by its fingerprint
	away  bool       // it is not the one of the data directory
	keeps bool       // its token is one that the gateway keeps in the data directory
}

// newClient finds the gateway: HANDRAIL_URL with HANDRAIL_TOKEN, and
// HANDRAIL_FINGERPRINT for a certificate that no authority stands behind, else the
// one that runs on the command's data directory. On a device that was paired with a
// paste which carried the gateway's HTTPS, HANDRAIL_TOKEN alone is enough.
func newClient(cmd *cobra.Command) (*remote, error) {
	return findGateway(cmd, dataDir.tokenPath)
}

// newCaller is newClient, or, for an agent, the same with the token that the gateway
// keeps for agents: what an admin asks for, the same admin cannot approve.
func newCaller(cmd *cobra.Command, agent bool) (*remote, error) {
	if !agent {
		return newClient(cmd)
	}
	if os.Getenv("HANDRAIL_TOKEN") != "" || os.Getenv("HANDRAIL_URL") != "" {
		return nil, usageError("--agent takes the token of the data directory; HANDRAIL_TOKEN and HANDRAIL_URL already say who calls where")
	}
	return findGateway(cmd, dataDir.agentTokenPath)
}

func findGateway(cmd *cobra.Command, tokenFile func(dataDir) string) (*remote, error) {
	token := strings.TrimSpace(os.Getenv("HANDRAIL_TOKEN"))
	if address := os.Getenv("HANDRAIL_URL"); address != "" {
		if token == "" {
			// The token of a local data directory is never sent anywhere else.
			return nil, &exitError{code: exitForbidden, err: capabilities.Errorf(capabilities.CodeUnauthenticated,
				"HANDRAIL_URL is set, but HANDRAIL_TOKEN is not").
				WithHint("Create a token on that gateway with 'handrail token create' and put it into HANDRAIL_TOKEN.")}
		}
		base, err := client.ParseAddress(address)
		if err != nil {
			return nil, usageError("HANDRAIL_URL: %v", err)
		}
		pin, err := client.ParsePin(os.Getenv("HANDRAIL_FINGERPRINT"))
		if err != nil {
			return nil, usageError("HANDRAIL_FINGERPRINT: %v", err)
		}
		if data, err := dataDirOf(cmd); err == nil && pin.IsZero() {
			if door, its, ok := data.door(); ok && door.String() == base.String() {
				pin = its
			}
		}
		c := newClientAt(base, token, pin)
		c.away = true
		return c, nil
	}
	data, err := dataDirOf(cmd)
	if err != nil {
		return nil, err
	}
	running, err := data.readRunning()
	if err != nil {
		if base, pin, ok := data.door(); ok && token != "" {
			c := newClientAt(base, token, pin)
			c.away = true
			return c, nil
		}
		return nil, err
	}
	base, pin, err := running.place()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", data.runningPath(), err)
	}
	kept := token == ""
	if kept {
		if token, err = readToken(tokenFile(data)); err != nil {
			return nil, err
		}
	}
	c := newClientAt(base, token, pin)
	c.keeps = kept
	return c, nil
}

func readToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrPermission) {
		return "", &exitError{code: exitForbidden, err: capabilities.Errorf(capabilities.CodeForbidden,
			"the token %s may not be read by this user", path).WithHint("Run as the user who runs the gateway, or set HANDRAIL_TOKEN.")}
	}
	if err != nil {
		return "", &exitError{code: exitForbidden, err: capabilities.Errorf(capabilities.CodeUnauthenticated,
			"no token at %s", path).WithHint("Set HANDRAIL_TOKEN, or name the gateway's data directory with --data.")}
	}
	return strings.TrimSpace(string(text)), nil
}

func newClientAt(base *url.URL, token string, pin client.Pin) *remote {
	return &remote{Client: client.At(base, client.NewToken(token), pin), base: base, token: token, pin: pin}
}

// path joins segments into a path below /v1, each escaped.
func path(segments ...string) string { return client.Path(segments...) }

func escape(segment string) string { return url.PathEscape(segment) }

// query appends the non-empty pairs (name, value, name, value …) to p.
func query(p string, pairs ...string) string { return client.Query(p, pairs...) }

func (c *remote) get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

// do sends in (nil: no body) and decodes the answer into out (nil: discarded).
func (c *remote) do(ctx context.Context, method, path string, in, out any) error {
	return c.told(c.Do(ctx, method, path, in, out))
}

// told is the same as the function, and says where a data directory's own token comes from.
func (c *remote) told(err error) error {
	if coded := (*capabilities.Error)(nil); c.keeps && errors.As(err, &coded) && coded.Code == capabilities.CodeUnauthenticated {
		return command.Advise(coded, "The gateway makes this data directory's token anew when it starts: end ", command.Here("up"), " or ", command.Here("gateway"), " and start it again.")
	}
	return told(err)
}

// open sends in and returns the body of a successful answer; the caller closes it.
func (c *remote) open(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	body, err := c.Open(ctx, method, path, in)
	return body, c.told(err)
}

// change has the gateway do one thing, and says that it is done as confirmed does.
func change(cmd *cobra.Command, method, path string, in any, format string, args ...any) error {
	c, err := newClient(cmd)
	if err != nil {
		return err
	}
	return c.change(cmd, method, path, in, format, args...)
}

func (c *remote) change(cmd *cobra.Command, method, path string, in any, format string, args ...any) error {
	var raw json.RawMessage
	if err := c.do(cmd.Context(), method, path, in, &raw); err != nil {
		return err
	}
	return confirmed(cmd, raw, format, args...)
}

// confirmed prints the gateway's answer with --json, else the sentence.
func confirmed(cmd *cobra.Command, raw json.RawMessage, format string, args ...any) error {
	if !commonOf(cmd).json {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), plain(fmt.Sprintf(format, args...)))
		return err
	}
	if len(raw) == 0 {
		return printJSON(cmd.OutOrStdout(), map[string]bool{"ok": true})
	}
	return printJSON(cmd.OutOrStdout(), raw)
}

// told returns a gateway that cannot be reached its exit code and what to do.
func told(err error) error {
	if !errors.Is(err, client.ErrUnreachable) {
		return err
	}
	if client.Untrusted(err) {
		return &exitError{code: exitUnreachable, err: capabilities.Errorf(capabilities.CodeUnauthenticated, "%s", err.Error()).
			WithHint("If that is your gateway, compare the fingerprint that 'handrail login' shows on its machine, and put it into HANDRAIL_FINGERPRINT. If it changed by itself, somebody may be in between.")}
	}
	return &exitError{code: exitUnreachable, err: command.Advise(capabilities.Errorf(capabilities.CodeNotFound, "%s", err.Error()),
		"Start it with ", command.Here("up"), " or ", command.Here("gateway"), ", or correct --data or HANDRAIL_URL.")}
}
