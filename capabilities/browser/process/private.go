package process

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/target"

	cdpbrowser "github.com/chromedp/cdproto/browser"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/platform"
)

// PrivateOptions of StartPrivate; required unless a default is named.
type PrivateOptions struct {
	Finder   platform.BrowserFinder
	Launcher platform.Launcher
	Sandbox  Sandbox // default: SandboxRequired
	Dir      string  // as Options.Dir
	// Args are switches added to those of a lane's browser, and Env variables of this
	// process's that it may see; default: none.
	Args, Env []string
	// OnEvent takes the page's events on the reading goroutine: it must not block.
	OnEvent func(method string, params []byte)
	Log     *slog.Logger // default: discards
}

// Private is a headless Chrome for this program's own work, with one page and no way
// to any network: no lane and no call ever sees it. Safe for concurrent use.
type Private struct {
	proc    platform.Process
	conn    *devtools.Conn
	page    *devtools.Session
	version string
	reader  sync.WaitGroup
}

// StartPrivate starts one. Errors are capabilities.Error.
func StartPrivate(ctx context.Context, o PrivateOptions) (*Private, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	b, err := o.Finder.Find(ctx)
	if err != nil {
		return nil, Missing(err)
	}
	if err := mayStart(o.Sandbox, b); err != nil {
		return nil, err
	}
	proc, err := o.Launcher.Start(ctx, platform.Command{
		Path: b.Path, Name: "chrome", ScratchBase: o.Dir, User: b.RunAs, Alone: true,
		Build: func(scratch string) (args, env []string) {
			args = flags(b, o.Sandbox, How{Headless: true}, scratch)
			return append(args, o.Args...), keepEnv(environment(scratch, true), o.Env)
		},
	})
	if err != nil {
		return nil, notStarted(err)
	}
	p := &Private{proc: proc, conn: devtools.New(devtools.OverPipe(proc.Out(), proc.In()))}
	p.reader.Go(func() {
		err := p.conn.Run(func(string, []byte) {})
		proc.Close()
		o.Log.Info("browser.private.ended", "pid", proc.PID(), "error", err)
	})
	if err := p.open(ctx, o.OnEvent); err != nil {
		p.Close()
		return nil, startFailure(ctx, err, proc.Output())
	}
	o.Log.Info("browser.private.started", "version", p.version, "pid", proc.PID())
	return p, nil
}

// open greets Chrome and makes its one page.
func (p *Private) open(ctx context.Context, onEvent func(string, []byte)) error {
	version := devtools.Start(ctx, p.conn.Root(), cdpbrowser.GetVersion, cdp.Empty{})
	made, err := devtools.Do(ctx, p.conn.Root(), target.CreateTarget, target.CreateTargetParams{URL: "about:blank"})
	if err != nil {
		return err
	}
	attached, err := devtools.Do(ctx, p.conn.Root(), target.AttachToTarget,
		target.AttachToTargetParams{TargetID: made.TargetID, Flatten: ptr(true)})
	if err != nil {
		return err
	}
	p.page = p.conn.Open(string(attached.SessionID), onEvent)
	v, err := version.Get(ctx)
	p.version = v.Product
	return err
}

// Call sends the page a command of the protocol and decodes its result, unless into
// is nil. ErrPrivateGone says that the browser ended.
func (p *Private) Call(ctx context.Context, method string, params, into any) error {
	return callRaw(ctx, p.page, method, params, into)
}

// CallBrowser is Call for the browser itself.
func (p *Private) CallBrowser(ctx context.Context, method string, params, into any) error {
	return callRaw(ctx, p.conn.Root(), method, params, into)
}

// ErrPrivateGone says that a private browser ended, by itself or by Close.
var ErrPrivateGone = errors.New("the private browser ended")

func callRaw(ctx context.Context, s *devtools.Session, method string, params, into any) error {
	raw, err := s.Send(ctx, method, params).Wait(ctx)
	switch {
	case errors.Is(err, devtools.ErrClosed):
		return ErrPrivateGone
	case err != nil || into == nil || raw == nil:
		return err
	}
	return jsonv2.Unmarshal(raw, into, jsonv2.AllowInvalidUTF8(true))
}

// Send is Call without waiting for an answer; a browser that ended takes nothing.
func (p *Private) Send(ctx context.Context, method string, params any) {
	p.page.Send(ctx, method, params)
}

// Version is such as "Chrome/156.0.8078.79".
func (p *Private) Version() string { return p.version }

// PID is the browser's own process.
func (p *Private) PID() int { return p.proc.PID() }

// Gone is closed when the browser ended.
func (p *Private) Gone() <-chan struct{} { return p.conn.Done() }

// Close ends the browser with everything below it and waits for that. Idempotent.
func (p *Private) Close() error {
	p.conn.Fail(devtools.ErrClosed)
	err := p.proc.Close()
	p.reader.Wait()
	return err
}
