package provider

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/handrail-dev/handrail/agent/withhold"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/egress"
	"github.com/handrail-dev/handrail/capabilities/folder"
)

// Bounds of what a program returns.
const (
	maxStdout = 1 << 20
	maxFile   = 16 << 20
)

// command is a provider whose tools are programs, each started anew for a call.
type command struct {
	record    *tools.Provider
	start     Starter
	templates map[string]*template
	offers    *tools.ToolManifest
	way       *egress.Way
	secrets   *credentials
	writes    paths // of all calls
	misses          // likewise
	// modules runs the module that the record names, if it names one; nil: none is run here.
	modules Modules
	// changed is told what the provider offers, when that is not what was approved.
	changed func(*tools.ToolManifest)
}

func newCommand(p *tools.Provider, start Starter, way *egress.Way, secrets *credentials) (*command, error) {
	list, err := readTemplates(p.Manifest)
	if err != nil {
		return nil, err
	}
	c := &command{
		record: p, start: start, way: way, secrets: secrets, templates: map[string]*template{}, offers: &tools.ToolManifest{Provider: p.Name},
	}
	for i := range list {
		t := &list[i]
		if c.templates[t.Name] != nil {
			return nil, badManifest("two tools are called %s", t.Name)
		}
		if p.Module() != "" {
			if err := t.module(); err != nil {
				return nil, badManifest("%s: %v", t.Name, err)
			}
		}
		remote, err := t.remote(p)
		if err != nil {
			return nil, badManifest("%s: %v", t.Name, err)
		}
		c.templates[t.Name] = t
		c.offers.Tools = append(c.offers.Tools, remote)
	}
	return c, nil
}

func (c *command) manifest(ctx context.Context) (*tools.ToolManifest, error) {
	if c.record.Module() != "" {
		return c.modulesManifest(ctx)
	}
	return c.offers, nil
}

func (c *command) health() *capabilities.Error { return nil }

func (c *command) restart(change) {} // the next call starts its own; one that runs ends when they are taken back

func (c *command) refused() []egress.Refused { return c.way.Refused() }

func (c *command) moved() map[string]uint64 { return nil } // each call tells of its own

func (c *command) changes() map[string]int { return nil } // likewise

func (c *command) wrote() map[string]int { return nil } // likewise

func (c *command) tried() map[attempt]int { return nil } // likewise

func (c *command) denied() map[string]int { return c.writes.all() }

func (c *command) hold(on bool) { c.way.Hold(on) }

func (c *command) close() {}

func (c *command) call(ctx context.Context, one call) (capabilities.Output, error) {
	t := c.templates[one.upstream]
	if t == nil {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeUnknownTool, "the manifest has no %q", one.upstream)
	}
	var args map[string]any
	if err := json.Unmarshal(one.args, &args); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "")
	}
	if c.record.Module() != "" {
		return c.callModule(ctx, t, args, one)
	}
	scratch, err := os.MkdirTemp("", "handrail-command-")
	if err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeExecutionFailed, err,
			"The node could not make a folder for the program.")
	}
	defer os.RemoveAll(scratch)
	// Open from before the program runs: what it makes of the folder's name leads nowhere else.
	made, err := os.OpenRoot(scratch)
	if err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeExecutionFailed, err,
			"The node could not make a folder for the program.")
	}
	defer made.Close()
	words, stdin, outputs, err := t.fill(args, filling{read: c.record.Read, write: c.record.Write, scratch: scratch})
	if err != nil {
		return capabilities.Output{}, err
	}
	env, taken := c.secrets.lend()
	if err := c.secrets.missing(); err != nil { // taken back since the call was let
		return capabilities.Output{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-taken:
			cancel(capabilities.Errorf(capabilities.CodeSecretUnavailable, "the provider's credentials were taken back"))
		case <-ctx.Done():
		}
	}()
	sockets := &refusedSockets{}
	program := Program{
		Argv: words, Env: env, Read: c.record.Read, Write: c.record.Write, Own: []string{scratch},
		Net:   c.way.Told(one.reached).For(one.inv.Reach),
		Class: one.class, Call: true, Keys: one.inv.Grants,
		Refused: func(socket string) { c.way.Socket(socket); sockets.add(socket) },
		Ran:     one.inv.ReportRan,
		Denied:  func(key, what string) { one.inv.ReportRefused(key, what) },
		Wrote: func(path string) {
			c.writes.add(path)
			one.inv.ReportRefused(capabilities.WriteKey(path), c.secrets.withheld().Text(path))
		},
		Changed: func(folder string) { one.inv.Observe(capabilities.KeyWrite, c.secrets.withheld().Text(folder)) },
		Missed:  c.teller(),
	}
	if one.class == capabilities.ClassT0 {
		program.Own = nil
	}
	p, err := c.start.Start(ctx, program)
	if err != nil {
		return capabilities.Output{}, err
	}
	defer p.Kill()
	one.ran(c.record)
	text, left, err := c.follow(ctx, p, t, stdin, one, sockets)
	if err != nil {
		return left, err
	}
	name := filepath.Base(outputs[t.Output])
	out, err := t.result(text, made, name)
	if err != nil || !slices.Contains(one.inv.Grants, capabilities.KeyRetained) {
		return out, err
	}
	given := out.Blobs // a file that is kept for longer is an artifact, however small it is
	out.Blobs = nil
	for _, b := range given {
		if err := one.inv.Give(&out, b, name); err != nil {
			return capabilities.Output{Effect: out.Effect}, err
		}
	}
	return out, nil
}

// follow hands a program its standard input and returns what it wrote, once it has ended well. With
// an error it says what the call left behind. The sockets are those that it was refused.
func (c *command) follow(ctx context.Context, p Process, t *template, stdin string, one call,
	sockets *refusedSockets) ([]byte, capabilities.Output, error) {
	go func() {
		_, _ = io.WriteString(p.Stdin(), stdin) // a program that does not read it needs none
		_ = p.Stdin().Close()
	}()
	text, whole := readAll(p.Stdout(), maxStdout, c.tell(one.progress))
	if !whole {
		p.Kill()
	}
	code, err := p.Wait()
	switch {
	case err != nil:
		return nil, capabilities.Output{}, err
	case ctx.Err() != nil:
		return nil, capabilities.Output{Effect: capabilities.EffectUnverifiable}, context.Cause(ctx)
	case !whole:
		return nil, capabilities.Output{}, capabilities.Errorf(capabilities.CodeResultTooLarge, "the program wrote more than %d bytes", maxStdout)
	case code != 0:
		stderr := capabilities.Clip(string(c.secrets.withheld().Cut([]byte(p.Stderr()))), 4096)
		if code < 0 { // it had no say in its end
			one.reads = one.reads || t.ReadOnly != nil && *t.ReadOnly
			e := capabilities.Errorf(capabilities.CodeExecutionFailed, "%s was killed", t.Argv[0]).WithDetails(map[string]any{"stderr": stderr})
			return nil, capabilities.Output{Effect: capabilities.EffectUnverifiable}, one.unanswered(e)
		}
		e := capabilities.Errorf(capabilities.CodeExecutionFailed, "%s ended with exit code %d", t.Argv[0], code)
		details := map[string]any{"exit_code": code, "stderr": stderr}
		if tried := sockets.all(); len(tried) > 0 {
			details["refused"] = tried
			e = e.WithAction(capabilities.Action{Key: capabilities.ActionNameProviderHost},
				"It wanted "+strings.Join(tried, " and ")+", and its class has no network: a provider that needs one names each host.")
		}
		return nil, capabilities.Output{}, e.WithDetails(details)
	}
	return text, capabilities.Output{}, nil
}

// refusedSockets are the kinds of sockets that one program was refused.
type refusedSockets struct {
	mu   sync.Mutex
	list []string
}

const maxRefusedSockets = 8

func (r *refusedSockets) add(socket string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.list, socket) && len(r.list) < maxRefusedSockets {
		r.list = append(r.list, socket)
	}
}

func (r *refusedSockets) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// result makes a call's result of what its program returned: its text, or the file of that name
// among those it made.
func (t *template) result(text []byte, made *os.Root, name string) (capabilities.Output, error) {
	out := capabilities.Output{Effect: capabilities.EffectUnverifiable}
	if t.ReadOnly != nil && *t.ReadOnly {
		out.Effect = capabilities.EffectConfirmed
	}
	result := map[string]any{}
	out.Result = result
	switch t.Output {
	case "", "text":
		result[tools.FieldText] = strings.ToValidUTF8(string(text), "\uFFFD")
		return out, nil
	case "json":
		data, err := canonical.Parse(text, canonical.Limits{MaxBytes: maxStdout, Foreign: true})
		if err != nil {
			return out, capabilities.Wrap(capabilities.CodeExecutionFailed, err,
				"The program wrote no JSON that can be read: "+capabilities.AsError(err).PublicMessage())
		}
		result[tools.FieldData] = json.RawMessage(data)
		return out, nil
	}
	f, err := openMade(made, name)
	if err != nil {
		return out, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return out, capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The program's file cannot be read.")
	case len(data) > maxFile:
		return out, capabilities.Errorf(capabilities.CodeResultTooLarge, "the program's file has more than %d bytes", maxFile)
	case len(data) == 0:
		return out, capabilities.Errorf(capabilities.CodeExecutionFailed, "the program's file is empty")
	}
	mime := t.MIME
	if mime == "" {
		mime = http.DetectContentType(data)
	}
	result["mime"] = mime
	out.Blobs = []capabilities.Blob{{Field: tools.FieldBytes, MIME: mime, Bytes: data}}
	return out, nil
}

// openMade opens a file that a program made. The node reads what the program cannot, so a link or
// a pipe in the file's place is none.
func openMade(made *os.Root, name string) (*os.File, error) {
	here, err := made.Lstat(name)
	if err != nil {
		return nil, capabilities.Errorf(capabilities.CodeExecutionFailed, "the program made no file")
	}
	f, info, err := folder.Open(made, name, os.O_RDONLY)
	if err == nil && here.Mode().IsRegular() && os.SameFile(here, info) {
		return f, nil
	}
	if err == nil {
		_ = f.Close()
	}
	return nil, capabilities.Errorf(capabilities.CodeExecutionFailed, "what the program made is no regular file")
}

// tell has a person who waits see how much a program wrote, and its last line.
func (c *command) tell(progress func(capabilities.Progress)) func([]byte) {
	if progress == nil {
		return nil
	}
	return func(all []byte) {
		progress(capabilities.Progress{Done: float64(len(all)), Message: lastLine(all, c.secrets.withheld())})
	}
}

// readAll reads at most most bytes; false: there was more. It tells what came until now.
func readAll(r io.Reader, most int, tell func(all []byte)) ([]byte, bool) {
	var all []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if len(all)+n > most {
			return all, false
		}
		all = append(all, buf[:n]...)
		if n > 0 && tell != nil {
			tell(all)
		}
		if err != nil {
			return all, true
		}
	}
}

// lastLine is the last line of what was written until now, for the person who waits.
func lastLine(text []byte, kept *withhold.Filter) string {
	end := strings.TrimRight(string(kept.Cut(text[max(0, len(text)-400):])), "\n")
	return capabilities.Clip(capabilities.Printable(end[strings.LastIndex(end, "\n")+1:]), 200)
}
