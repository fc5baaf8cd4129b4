package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/clientfile"
)

// clientProblem is one thing that is wrong, with what mends it.
type clientProblem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Fix     string `json:"fix"`
}

// The codes of what can be wrong with a connected client; docs/clients.md lists
// them.
const (
	problemNotConnected = "not_connected"
	problemNoClient     = "client_not_found"
	problemFile         = "file_broken"
	problemEntry        = "entry_missing"
	problemProgram      = "program_missing"
	problemGateway      = "no_gateway"
	problemURL          = "wrong_url"
	problemToken        = "token_refused"
	problemNode         = "node_not_ready"
	problemTry          = "does_not_answer"
)

// clientReport is what --check found of one client.
type clientReport struct {
	Client    string          `json:"client"`
	OK        bool            `json:"ok"`
	File      string          `json:"file"`
	Transport string          `json:"transport,omitempty"`
	Principal string          `json:"principal,omitempty"`
	Node      string          `json:"node_id,omitempty"`
	Tools     int             `json:"tools"`
	Problems  []clientProblem `json:"problems"`
}

func (r *clientReport) add(code, fix, format string, args ...any) {
	r.Problems = append(r.Problems, clientProblem{code, fmt.Sprintf(format, args...), fix})
}

// addError takes an error's own words.
func (r *clientReport) addError(code string, err error) {
	message, hint := err.Error(), ""
	if e := capabilities.AsError(err); e.Code != capabilities.CodeInternal {
		message, hint = e.PublicMessage(), e.PublicHint()
	}
	r.add(code, hint, "%s", message)
}

// checkClients looks at one client, or at all that are connected.
func checkClients(cmd *cobra.Command, data dataDir, kind clientKind, o connectOptions) error {
	kinds := []clientKind{kind}
	if kind.Name == "" {
		kinds = nil
		for _, k := range clientKinds {
			if _, err := os.Stat(data.connectionPath(k.Name)); err == nil {
				kinds = append(kinds, k)
			}
		}
	}
	out, bad := cmd.OutOrStdout(), 0
	if len(kinds) == 0 && !commonOf(cmd).json {
		fmt.Fprintf(out, "No client is connected. 'handrail connect CLIENT' connects one of %s.\n", strings.Join(clientNames(), ", "))
	}
	for _, k := range kinds {
		r := checkClient(cmd, data, k, o)
		if r.OK = len(r.Problems) == 0; !r.OK {
			bad++
		}
		if commonOf(cmd).json {
			if r.Problems == nil {
				r.Problems = []clientProblem{}
			}
			if err := printJSON(out, r); err != nil {
				return err
			}
			continue
		}
		where := cmp.Or(r.File, "its entry was printed")
		if r.OK {
			fmt.Fprintf(out, "%s: OK. It answers over %s with %s (%s)\n", k.Name, r.Transport, count(r.Tools, "tool"), plain(where))
			continue
		}
		fmt.Fprintf(out, "%s: has problems (%s)\n", k.Name, plain(where))
		for _, p := range r.Problems {
			fmt.Fprintf(out, "  %s: %s\n", p.Code, plain(p.Message))
			if p.Fix != "" {
				fmt.Fprintf(out, "    -> %s\n", plain(p.Fix))
			}
		}
	}
	if bad > 0 {
		return &exitError{code: exitFailed, err: fmt.Errorf("%s with problems", count(bad, "client")), silent: true}
	}
	return nil
}

func checkClient(cmd *cobra.Command, data dataDir, kind clientKind, o connectOptions) clientReport {
	r := clientReport{Client: kind.Name}
	again := "Run 'handrail connect " + kind.Name + "' again."
	known, had, err := data.readConnection(kind.Name)
	r.File = o.fileOf(kind, known)
	switch {
	case err != nil:
		r.addError(problemNotConnected, err)
		return r
	case !had:
		if !kind.found(r.File) {
			r.addError(problemNoClient, notFound(kind, r.File))
		}
		r.add(problemNotConnected, "Run 'handrail connect "+kind.Name+"'.", "%s is not connected to the gateway of %s", kind.Title, data)
		return r
	}
	r.Transport, r.Principal, r.Node = known.Transport, known.Principal, known.Node
	c, err := data.gatewayOf(known)
	var entry map[string]any
	if known.File != "" {
		if !kind.found(r.File) {
			r.addError(problemNoClient, notFound(kind, r.File))
		}
		entry = r.checkFile(kind, again)
	} else if r.File = ""; err == nil { // it was printed: only the person knows where it went
		entry = printed(kind, kind.fields(data, c, known))
	}
	if err == nil {
		err = r.checkGateway(cmd.Context(), c, known, again)
	}
	if err != nil {
		r.addError(problemGateway, err)
	}
	if err == nil && entry != nil {
		r.checkAddress(c, entry, kind)
	}
	if len(r.Problems) > 0 || entry == nil {
		return r
	}
	if r.Tools, err = tryEntry(cmd.Context(), entry); err != nil {
		r.addError(problemTry, err)
	}
	r.checkNode(cmd, known)
	return r
}

// printed is an entry as a client would read it from its file.
func printed(kind clientKind, fields []clientfile.Field) map[string]any {
	text, err := clientfile.Put(kind.format(), nil, kind.Path, fields, nil)
	if err != nil {
		return nil
	}
	entry, _, _ := clientfile.Get(kind.format(), text, kind.Path...) // what Put wrote, Get reads
	return entry
}

// checkFile returns our entry in the client's file, or says why there is none.
func (r *clientReport) checkFile(kind clientKind, again string) map[string]any {
	text, err := clientfile.Read(r.File)
	var entry map[string]any
	there := false
	if err == nil {
		entry, there, err = clientfile.Get(kind.format(), text, kind.Path...)
	}
	switch {
	case err != nil:
		r.addError(problemFile, fileProblem(kind, r.File, err))
		return nil
	case !there:
		r.add(problemEntry, again, "%s has no entry %s", r.File, strings.Join(kind.Path, "."))
		return nil
	}
	command, _ := entry["command"].(string)
	address, _ := remoteOf(entry)
	switch {
	case command == "" && address == "":
		r.add(problemEntry, again, "the entry %s names neither a program nor an address", strings.Join(kind.Path, "."))
		return nil
	case command != "":
		if _, err := exec.LookPath(command); err != nil {
			r.add(problemProgram, again, "the program %s, which the entry starts, is not there", command)
			return nil
		}
	}
	return entry
}

// checkGateway says whether a gateway answers, and whether it is the one, with a
// token that is good. Only that nobody answers is an error.
func (r *clientReport) checkGateway(ctx context.Context, c *client, known connection, again string) error {
	health, err := c.Health(ctx)
	err = told(err)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if capabilities.CodeOf(err) == capabilities.CodeNotFound { // nobody there, as told says it
		return err
	}
	if err != nil || health.SiteID == "" {
		r.add(problemURL, "Correct HANDRAIL_URL or --data and connect again.", "what answers at %s is not a Handrail gateway", c.base)
		return nil
	}
	if string(health.SiteID) != known.Site {
		r.add(problemURL, again, "the gateway at %s is another one: site %s, and the client was connected to %s", c.base, health.SiteID, known.Site)
		return nil
	}
	if _, err := c.Tools(ctx, ""); err != nil {
		if capabilities.CodeOf(err) == capabilities.CodeUnauthenticated {
			r.add(problemToken, again+" It gets a new token.", "the gateway refuses token %s: %s", known.TokenID, capabilities.AsError(err).PublicMessage())
			return nil
		}
		r.addError(problemGateway, err)
	}
	return nil
}

// checkAddress compares the address in the client's file with the gateway's.
func (r *clientReport) checkAddress(c *client, entry map[string]any, kind clientKind) {
	address, headers := remoteOf(entry)
	if address == "" {
		return
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != c.base.Scheme || u.Host != c.base.Host || !strings.HasPrefix(u.Path, "/mcp") {
		r.add(problemURL, "Run 'handrail connect "+kind.Name+" --http' again.", "the file names %s, but MCP is at %s/mcp", address, c.base)
		return
	}
	header := http.Header{}
	for k, v := range headers {
		header.Set(k, v)
	}
	if header.Get("Authorization") != "Bearer "+c.token {
		r.add(problemToken, "Run 'handrail connect "+kind.Name+" --http' again.", "the file holds another token than the one that was made for the client")
	}
}

// checkNode says whether the node that is bound to the client's lane can be used.
// It needs more rights than the client has; without them nothing is said.
func (r *clientReport) checkNode(cmd *cobra.Command, known connection) {
	if known.Node == "" {
		return
	}
	c, err := newClient(cmd)
	if err != nil {
		return
	}
	n, err := c.Node(cmd.Context(), capabilities.NodeID(known.Node))
	switch {
	case capabilities.CodeOf(err) == capabilities.CodeNodeNotFound:
		r.add(problemNode, "Bind another one with 'handrail connect "+known.Client+" --node NODE'.", "there is no node %s any more", known.Node)
	case err != nil:
	case n.State != "approved":
		r.add(problemNode, "Bind another one with 'handrail connect "+known.Client+" --node NODE'.", "node %s is %s", known.Node, n.State)
	case !n.Connected:
		r.add(problemNode, "Start 'handrail node' on it, or bind another one.", "node %s is not connected", known.Node)
	}
}
