package connect

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/connect/clientfile"
	"github.com/handrail-dev/handrail/gateway/client"
)

// Site is the Handrail that clients are connected to: a data directory of this machine, and
// the gateway that is called from it.
type Site struct {
	Data    string // required; the data directory, as entries and messages name it
	Store   Store  // required
	Version string // required; of this program, as it names itself to gateways

	// Person finds the gateway as the person who runs the command. Required.
	Person func() (Gateway, error)
	// Running finds where the gateway of the data directory listens. Required.
	Running func() (*url.URL, client.Pin, error)
	// Told adds to the error of a gateway that cannot be reached what a person can do; that
	// error then has the code not_found. Required.
	Told func(error) error
}

// Gateway is one gateway, called as one principal.
type Gateway struct {
	*client.Client
	Base  *url.URL
	Token client.Token
	Pin   client.Pin // of a certificate that is known by its fingerprint only
	Away  bool       // it is not the one of the data directory
}

// at returns the gateway of that address, called with that token.
func at(base *url.URL, token client.Token, pin client.Pin) Gateway {
	return Gateway{Client: client.At(base, token, pin), Base: base, Token: token, Pin: pin}
}

// Request is what a person asked for.
type Request struct {
	Client Client
	File   string // the client's settings file; empty: where it was, or where it usually is
	As     string // the principal; empty: as it was, or the client's name
	HTTP   bool   // the client calls an address instead of starting a program
}

// fileOf is the client's settings file: as asked for, as it was connected, or where it
// usually is.
func (r Request) fileOf(known Connection) string {
	file := cmp.Or(r.File, known.File, r.Client.file(here()))
	if full, err := filepath.Abs(file); err == nil {
		file = full
	}
	return file
}

// Plan is what is there before a connection is made or shown. A change goes by Plan, Editable,
// Make, Try.
type Plan struct {
	File string // of the client

	site    Site
	gateway Gateway
	request Request
	old     Connection
	had     bool // there is a connection already
}

// Plan looks at what there is. It changes nothing.
func (s Site) Plan(ctx context.Context, r Request) (*Plan, error) {
	g, err := s.Person()
	if err != nil {
		return nil, err
	}
	if r.HTTP {
		if err := s.othersTrust(ctx, g, r.Client); err != nil {
			return nil, err
		}
	}
	old, had, err := s.Store.Read(r.Client.Name)
	if err != nil {
		return nil, err
	}
	return &Plan{File: r.fileOf(old), site: s, gateway: g, request: r, old: old, had: had}, nil
}

// othersTrust refuses to send a client to an address whose certificate it would not
// take: no client but ours can be told a fingerprint.
func (s Site) othersTrust(ctx context.Context, g Gateway, kind Client) error {
	if g.Pin.IsZero() {
		return nil
	}
	if _, err := at(g.Base, g.Token, client.Pin{}).Health(ctx); !client.Untrusted(err) {
		return s.Told(err)
	}
	return capabilities.Errorf(capabilities.CodeInvalidRequest,
		"%s would not take the certificate of %s, which is known by its fingerprint only", kind.Title, g.Base).
		WithHint("Leave --http out: 'handrail mcp', which the client then starts, pins the fingerprint. Or set HANDRAIL_URL and HANDRAIL_TOKEN " +
			"to the name that the gateway's certificate is for.")
}

// Editable is a plan whose client is on this machine, with a file that can be edited.
type Editable struct{ plan *Plan }

// Editable refuses where the client is not on this machine, or where its file cannot be edited:
// no token is made for such a file.
func (p *Plan) Editable() (*Editable, error) {
	kind := p.request.Client
	if p.request.File == "" && !kind.found(p.File) {
		return nil, notFound(kind, p.File)
	}
	text, err := clientfile.Read(p.File)
	if err == nil {
		_, _, err = clientfile.Get(kind.Form(), text, kind.Path...)
	}
	if err != nil {
		return nil, fileProblem(kind, p.File, err)
	}
	return &Editable{p}, nil
}

// Made is a connection that was made.
type Made struct {
	Connection
	Backup      string // copy of the file as it was; empty: there was none
	Fingerprint string // of the gateway's certificate, where it is pinned

	site  Site
	entry map[string]any // as the client reads it
}

// Make has the gateway make the client's token, and puts the entry into the client's file. node
// is where calls go that name none; empty: as it was.
func (e *Editable) Make(ctx context.Context, node string) (*Made, error) {
	p := e.plan
	kind := p.request.Client
	now, fresh, err := p.authorise(ctx)
	if err != nil {
		return nil, err
	}
	if node != "" {
		if err := p.bindNode(ctx, now.Principal, node); err != nil {
			return nil, err
		}
		now.Node = node
	}
	now.Transport = p.request.transport()
	now.File = p.File
	fields := p.site.fields(kind, p.gateway.Base, now)
	if err := p.site.Store.save(now); err != nil {
		return nil, err
	}
	backup, err := clientfile.Edit(p.File, clientfile.Options{Private: p.request.HTTP}, func(old []byte) ([]byte, error) {
		return clientfile.Put(kind.Form(), old, kind.Path, fields, dropped(fields))
	})
	if err != nil {
		return nil, fileProblem(kind, p.File, err)
	}
	if fresh && p.had && p.old.Site == now.Site && p.old.TokenID != now.TokenID {
		// Its successor is in place. If this fails, the old token is listed as any other.
		_, _ = p.gateway.RevokeToken(ctx, p.old.TokenID)
	}
	text, err := clientfile.Read(p.File)
	if err != nil {
		return nil, err
	}
	entry, _, err := clientfile.Get(kind.Form(), text, kind.Path...)
	if err != nil {
		return nil, fileProblem(kind, p.File, err)
	}
	made := &Made{Connection: now, Backup: backup, site: p.site, entry: entry}
	if own, err := p.site.Reach(now); err == nil {
		made.Fingerprint = own.Pin.String()
	}
	return made, nil
}

// Try does what the client will do with its entry, and returns how many tools it gets.
func (m *Made) Try(ctx context.Context) (tools int, err error) { return m.site.try(ctx, m.entry) }

func (r Request) transport() string {
	if r.HTTP {
		return "http"
	}
	return "stdio"
}

// authorise returns the connection with a token that is good: the one it has, or a
// new one; fresh says which.
func (p *Plan) authorise(ctx context.Context) (now Connection, fresh bool, err error) {
	g, name := p.gateway, p.request.Client.Name
	health, err := g.Health(ctx)
	if err != nil {
		return now, false, p.site.Told(err)
	}
	now = Connection{Client: name, Site: string(health.SiteID), Principal: name}
	if g.Away {
		now.URL, now.Pin = g.Base.String(), g.Pin.String()
	}
	if p.had {
		now.Node, now.Principal = p.old.Node, p.old.Principal
	}
	if p.request.As != "" {
		now.Principal = p.request.As
	}
	if p.had && p.old.Site == now.Site && p.old.Principal == now.Principal {
		now.TokenID, now.Token = p.old.TokenID, p.old.Token
		_, err := at(g.Base, now.Token, g.Pin).Tools(ctx, "")
		if err == nil {
			return now, false, nil
		}
		if capabilities.CodeOf(err) != capabilities.CodeUnauthenticated {
			return now, false, err
		}
	}
	made, secret, err := g.CreateToken(ctx, capabilities.PrincipalID(now.Principal), "agent", "", 0)
	if err != nil {
		return now, false, p.site.Told(err)
	}
	now.TokenID, now.Token = made.ID, secret
	return now, true, nil
}

// bindNode makes node the only one of the principal's own lane. Every new lane of the principal
// begins with what is attached there.
func (p *Plan) bindNode(ctx context.Context, lane, node string) error {
	lanes, err := p.gateway.Lanes(ctx)
	if err != nil {
		return p.site.Told(err)
	}
	if _, err := p.gateway.Attach(ctx, capabilities.LaneID(lane), capabilities.NodeID(node)); err != nil {
		return p.site.Told(err)
	}
	for _, l := range lanes {
		for _, other := range l.Nodes {
			if string(l.Lane) != lane || string(other) == node {
				continue
			}
			if _, err := p.gateway.Detach(ctx, l.Lane, other); err != nil {
				return p.site.Told(err)
			}
		}
	}
	return nil
}

// fields are those of a connection's entry.
func (s Site) fields(client Client, base *url.URL, now Connection) []clientfile.Field {
	if now.Transport == "http" {
		return client.http(base.String(), now.Token.Reveal())
	}
	return client.stdio(Program(), []string{"mcp", "--data", s.Data, "--client", client.Name})
}

// Program is this program by a path that outlives an update: the one on the PATH, if it is
// the same.
func Program() string {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	found, err := exec.LookPath("handrail")
	if err != nil {
		return self
	}
	if found, err = filepath.Abs(found); err != nil {
		return self
	}
	a, errA := os.Stat(self)
	b, errB := os.Stat(found)
	if errA == nil && errB == nil && os.SameFile(a, b) {
		return found
	}
	return self
}

// Entry is what would stand in a client's file.
type Entry struct {
	Text      string
	Principal string
	TokenID   string // empty: the client has no token of its own yet
	TokenFile string // where that token is kept
	Hidden    bool   // the word TOKEN stands where the token belongs
}

// Entry returns what Make would write, and writes nothing: no file, no token, no lane. The
// token is in it on demand only, if there is one.
func (p *Plan) Entry(show bool) (Entry, error) {
	client, now := p.request.Client, p.old
	if now.Principal == "" || p.request.As != "" {
		now.Principal = cmp.Or(p.request.As, client.Name)
	}
	now.Transport = p.request.transport()
	if show && !p.had {
		return Entry{},
			command.Advise(capabilities.Errorf(capabilities.CodeNotFound, "%s has no token yet, and --print makes none", client.Title),
				command.Here("token", "create", now.Principal), " makes one and prints it; put it where TOKEN stands.")
	}
	e := Entry{Principal: now.Principal, Hidden: p.request.HTTP && !show}
	if p.had {
		e.TokenID, e.TokenFile = now.TokenID, p.site.Store.Path(client.Name)
	}
	fields := p.site.fields(client, p.gateway.Base, now)
	if e.Hidden {
		fields = client.http(p.gateway.Base.String(), "TOKEN")
	}
	if !p.request.HTTP && !p.had { // its own token is not there, so it calls with the agents'
		fields = client.stdio(Program(), []string{"mcp", "--data", p.site.Data})
	}
	text, err := clientfile.Put(client.Form(), nil, client.Path, fields, nil)
	e.Text = string(text)
	return e, err
}

// Removed is what became of a connection that was taken out.
type Removed struct {
	File    string
	Backup  string // copy of the file as it was; empty: the entry was not there
	TokenID string
	// Left is why the token is still good; nil: it is revoked, or there was none.
	Left error
}

// Remove takes a client's entry out of its file and revokes its token.
func (s Site) Remove(ctx context.Context, r Request) (Removed, error) {
	client := r.Client
	known, had, err := s.Store.Read(client.Name)
	if err != nil {
		return Removed{}, err
	}
	gone := Removed{File: r.fileOf(known), TokenID: known.TokenID}
	text, err := clientfile.Read(gone.File)
	if err != nil {
		return gone, err
	}
	_, there, err := clientfile.Get(client.Form(), text, client.Path...)
	if err != nil {
		return gone, fileProblem(client, gone.File, err)
	}
	if !had && !there {
		return gone, capabilities.Errorf(capabilities.CodeNotFound, "%s is not connected", client.Title).
			WithHint("Name its file with --file if it is not " + gone.File + ".")
	}
	if there {
		gone.Backup, err = clientfile.Edit(gone.File, clientfile.Options{Private: known.Transport == "http"}, func(old []byte) ([]byte, error) {
			return clientfile.Remove(client.Form(), old, client.Path...)
		})
		if err != nil {
			return gone, fileProblem(client, gone.File, err)
		}
	}
	if had {
		if gone.Left = s.revoke(ctx, known); gone.Left == nil {
			gone.Left = os.Remove(s.Store.Path(client.Name))
		}
	}
	return gone, nil
}

func (s Site) revoke(ctx context.Context, known Connection) error {
	g, err := s.Person()
	if err != nil {
		return err
	}
	_, err = g.RevokeToken(ctx, known.TokenID)
	if capabilities.CodeOf(err) == capabilities.CodeNotFound && !errors.Is(err, client.ErrUnreachable) {
		return nil // that gateway does not know it: nothing to revoke
	}
	return s.Told(err)
}

func notFound(client Client, file string) error {
	missing := "no " + file
	if client.program != "" {
		missing = "no program '" + client.program + "' on the PATH and " + missing
	}
	return capabilities.Errorf(capabilities.CodeNotFound, "%s was not found: there is %s", client.Title, missing).
		WithHint("Install it, or name its settings file with --file.")
}

// fileProblem says what is wrong with a client's file and who mends it.
func fileProblem(client Client, file string, err error) error {
	var bad *clientfile.SyntaxError
	coded := capabilities.Errorf(capabilities.CodeExecutionFailed, "%s: %v", file, err)
	switch {
	case errors.Is(err, clientfile.ErrForm):
		return command.Advise(coded, "Put the entry in by hand: ", command.Here("connect", client.Name, "--print"), " shows it.")
	case errors.As(err, &bad):
		return capabilities.Errorf(capabilities.CodeExecutionFailed, "%s is broken: %v (%s)", file, err, client.Form()).
			WithHint("Correct that place, or put back an older copy; " + client.Title + " cannot read it either.")
	case errors.Is(err, clientfile.ErrBusy):
		return coded.WithHint("Close " + client.Title + " and try again.")
	}
	return coded.WithHint("Look at the file's owner and rights.")
}
