package main

import (
	"context"
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
	api "github.com/handrail-dev/handrail/gateway/client"
)

// client is the typed client with what the commands want of it: raw objects for
// --json, and exit codes. It is safe for concurrent use.
type client struct {
	*api.Client
	base  *url.URL
	token string
}

// newClient finds the gateway: HANDRAIL_URL with HANDRAIL_TOKEN, else the one
// that runs on the command's data directory.
func newClient(cmd *cobra.Command) (*client, error) {
	return findGateway(cmd, dataDir.tokenPath)
}

// newCaller is newClient, or, for an agent, the same with the token that the gateway
// keeps for agents: what an admin asks for, the same admin can not approve.
func newCaller(cmd *cobra.Command, agent bool) (*client, error) {
	if !agent {
		return newClient(cmd)
	}
	if os.Getenv("HANDRAIL_TOKEN") != "" || os.Getenv("HANDRAIL_URL") != "" {
		return nil, usageError("--agent takes the token of the data directory; HANDRAIL_TOKEN and HANDRAIL_URL already say who calls where")
	}
	return findGateway(cmd, dataDir.agentTokenPath)
}

func findGateway(cmd *cobra.Command, tokenFile func(dataDir) string) (*client, error) {
	token := strings.TrimSpace(os.Getenv("HANDRAIL_TOKEN"))
	if address := os.Getenv("HANDRAIL_URL"); address != "" {
		if token == "" {
			// The token of a local data directory is never sent anywhere else.
			return nil, &exitError{code: exitForbidden, err: capabilities.Errorf(capabilities.CodeUnauthenticated,
				"HANDRAIL_URL is set, but HANDRAIL_TOKEN is not").
				WithHint("Create a token on that gateway with 'handrail token create' and put it into HANDRAIL_TOKEN.")}
		}
		base, err := api.ParseAddress(address)
		if err != nil {
			return nil, usageError("HANDRAIL_URL: %v", err)
		}
		return newClientAt(base, token), nil
	}
	data, err := dataDirOf(cmd)
	if err != nil {
		return nil, err
	}
	running, err := data.readRunning()
	if err != nil {
		return nil, err
	}
	base, err := api.ParseAddress(running.HTTP)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", data.runningPath(), err)
	}
	if token == "" {
		if token, err = readToken(tokenFile(data)); err != nil {
			return nil, err
		}
	}
	return newClientAt(base, token), nil
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

func newClientAt(base *url.URL, token string) *client {
	return &client{Client: api.At(base, api.NewToken(token)), base: base, token: token}
}

// path joins segments into a path below /v1, each escaped.
func path(segments ...string) string { return api.Path(segments...) }

func escape(segment string) string { return url.PathEscape(segment) }

// query appends the non-empty pairs (name, value, name, value …) to p.
func query(p string, pairs ...string) string { return api.Query(p, pairs...) }

func (c *client) get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

// do sends in (nil: no body) and decodes the answer into out (nil: discarded).
func (c *client) do(ctx context.Context, method, path string, in, out any) error {
	return told(c.Do(ctx, method, path, in, out))
}

// open sends in and gives the body of a successful answer; the caller closes it.
func (c *client) open(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	body, err := c.Open(ctx, method, path, in)
	return body, told(err)
}

// told gives a gateway that can not be reached its exit code and what to do.
func told(err error) error {
	if !errors.Is(err, api.ErrUnreachable) {
		return err
	}
	return &exitError{code: exitUnreachable, err: capabilities.Errorf(capabilities.CodeNotFound, "%s", err.Error()).
		WithHint("Start it with 'handrail up' or 'handrail gateway', or correct --data or HANDRAIL_URL.")}
}
