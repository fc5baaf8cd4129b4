package connect

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/connect/clientfile"
)

// Problem is one thing that is wrong, with what mends it.
type Problem struct {
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

// Report is what Check found of one client. Its JSON is what --check --json prints.
type Report struct {
	Client    string    `json:"client"`
	OK        bool      `json:"ok"`
	File      string    `json:"file"`
	Transport string    `json:"transport,omitempty"`
	Principal string    `json:"principal,omitempty"`
	Node      string    `json:"node_id,omitempty"`
	Tools     int       `json:"tools"`
	Problems  []Problem `json:"problems"`
}

func (r *Report) add(code, fix, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{code, fmt.Sprintf(format, args...), fix})
}

// addError takes an error's own words.
func (r *Report) addError(code string, err error) {
	message, hint := err.Error(), ""
	if e := capabilities.AsError(err); e.Code != capabilities.CodeInternal {
		message, hint = e.PublicMessage(), command.OfError(err)
	}
	r.add(code, hint, "%s", message)
}

// Connected are the clients that have a connection in the store.
func (s Site) Connected() []Client {
	return slices.DeleteFunc(Clients(), func(c Client) bool {
		_, err := os.Stat(s.Store.Path(c.Name))
		return err != nil
	})
}

// Check says what is wrong with a client's connection. It changes nothing.
func (s Site) Check(ctx context.Context, q Request) Report {
	r := s.check(ctx, q)
	r.OK = len(r.Problems) == 0
	if r.OK {
		r.Problems = []Problem{}
	}
	return r
}

func (s Site) check(ctx context.Context, q Request) Report {
	client := q.Client
	r := Report{Client: client.Name}
	again := "Run 'handrail connect " + client.Name + "' again."
	known, had, err := s.Store.Read(client.Name)
	r.File = q.fileOf(known)
	switch {
	case err != nil:
		r.addError(problemNotConnected, err)
		return r
	case !had:
		if !client.found(r.File) {
			r.addError(problemNoClient, notFound(client, r.File))
		}
		r.add(problemNotConnected, "Run 'handrail connect "+client.Name+"'.", "%s is not connected to the gateway of %s", client.Title, s.Data)
		return r
	}
	r.Transport, r.Principal, r.Node = known.Transport, known.Principal, known.Node
	g, err := s.Reach(known)
	var entry map[string]any
	if known.File != "" {
		if !client.found(r.File) {
			r.addError(problemNoClient, notFound(client, r.File))
		}
		entry = r.checkFile(client, again)
	} else if r.File = ""; err == nil { // it was printed: only the person knows where it went
		entry = printed(client, s.fields(client, g.Base, known))
	}
	if err == nil {
		err = s.checkGateway(ctx, &r, g, known, again)
	}
	if err != nil {
		r.addError(problemGateway, err)
	}
	if err == nil && entry != nil {
		r.checkAddress(g, entry, client)
	}
	if len(r.Problems) > 0 || entry == nil {
		return r
	}
	if r.Tools, err = s.try(ctx, entry); err != nil {
		r.addError(problemTry, err)
	}
	s.checkNode(ctx, &r, known)
	return r
}

// printed is an entry as a client would read it from its file.
func printed(client Client, fields []clientfile.Field) map[string]any {
	text, err := clientfile.Put(client.Form(), nil, client.Path, fields, nil)
	if err != nil {
		return nil
	}
	entry, _, _ := clientfile.Get(client.Form(), text, client.Path...) // what Put wrote, Get reads
	return entry
}

// checkFile returns our entry in the client's file, or says why there is none.
func (r *Report) checkFile(client Client, again string) map[string]any {
	text, err := clientfile.Read(r.File)
	var entry map[string]any
	there := false
	if err == nil {
		entry, there, err = clientfile.Get(client.Form(), text, client.Path...)
	}
	switch {
	case err != nil:
		r.addError(problemFile, fileProblem(client, r.File, err))
		return nil
	case !there:
		r.add(problemEntry, again, "%s has no entry %s", r.File, strings.Join(client.Path, "."))
		return nil
	}
	command, _ := entry["command"].(string)
	address, _ := remoteOf(entry)
	switch {
	case command == "" && address == "":
		r.add(problemEntry, again, "the entry %s names neither a program nor an address", strings.Join(client.Path, "."))
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
func (s Site) checkGateway(ctx context.Context, r *Report, g Gateway, known Connection, again string) error {
	health, err := g.Health(ctx)
	err = s.Told(err)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if capabilities.CodeOf(err) == capabilities.CodeNotFound { // nobody there, as Told says it
		return err
	}
	if err != nil || !health.Ours() {
		r.add(problemURL, "Correct HANDRAIL_URL or --data and connect again.", "what answers at %s is not a Handrail gateway", g.Base)
		return nil
	}
	if health.SiteID != "" && string(health.SiteID) != known.Site {
		r.add(problemURL, again, "the gateway at %s is another one: site %s, and the client was connected to %s", g.Base, health.SiteID,
			known.Site)
		return nil
	}
	if _, err := g.Tools(ctx, ""); err != nil {
		if capabilities.CodeOf(err) == capabilities.CodeUnauthenticated {
			r.add(problemToken, again+" It gets a new token.", "the gateway refuses token %s: %s", known.TokenID, capabilities.AsError(err).
				PublicMessage())
			return nil
		}
		r.addError(problemGateway, err)
	}
	return nil
}

// checkAddress compares the address in the client's file with the gateway's.
func (r *Report) checkAddress(g Gateway, entry map[string]any, client Client) {
	address, headers := remoteOf(entry)
	if address == "" {
		return
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != g.Base.Scheme || u.Host != g.Base.Host || !strings.HasPrefix(u.Path, "/mcp") {
		r.add(problemURL, "Run 'handrail connect "+client.Name+" --http' again.", "the file names %s, but MCP is at %s/mcp", address, g.Base)
		return
	}
	header := http.Header{}
	for k, v := range headers {
		header.Set(k, v)
	}
	if header.Get("Authorization") != "Bearer "+g.Token.Reveal() {
		r.add(problemToken, "Run 'handrail connect "+client.Name+" --http' again.",
			"the file holds another token than the one that was made for the client")
	}
}

// checkNode says whether the node that is bound to the client's lane can be used.
// It needs more rights than the client has; without them nothing is said.
func (s Site) checkNode(ctx context.Context, r *Report, known Connection) {
	if known.Node == "" {
		return
	}
	g, err := s.Person()
	if err != nil {
		return
	}
	n, err := g.Node(ctx, capabilities.NodeID(known.Node))
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
