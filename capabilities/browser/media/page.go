package media

import (
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities/browser/process"
	"github.com/handrail-dev/handrail/platform"
)

//go:embed page.js
var script string

// origin is where the page seems to come from: devices are given to pages of secure
// origins only. Nothing is ever fetched from it: requests are answered here.
const origin = "https://sensors.handrail.invalid"

// releaseTime bounds what the page has to free a device; then its browser ends.
const releaseTime = 150 * time.Millisecond

// page is the one page of a running browser.
type page struct {
	browser *process.Private

	mu     sync.Mutex
	next   int
	takers map[int]*taker
}

// taker takes what one capture says, until that is over.
type taker struct {
	w    *writing           // nil: it says nothing
	stop context.CancelFunc // writing failed

	mu   sync.Mutex
	over bool
}

func (t *taker) take(m message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over && t.w != nil && !t.w.take(m) {
		t.stop()
	}
}

func (t *taker) end() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
}

// args are Chrome's switches beside a lane's.
func (o Options) args() []string {
	args := []string{"--autoplay-policy=no-user-gesture-required"}
	if o.Fake != nil {
		args = append(args, "--use-fake-device-for-media-stream")
		if o.Fake.CameraFile != "" {
			args = append(args, "--use-file-for-fake-video-capture="+o.Fake.CameraFile)
		}
		if o.Fake.MicrophoneFile != "" {
			args = append(args, "--use-file-for-fake-audio-capture="+o.Fake.MicrophoneFile)
		}
	}
	return args
}

// env are variables by which Chrome finds the session's sound server.
var env = []string{"XDG_RUNTIME_DIR", "PULSE_SERVER", "PULSE_COOKIE", "PIPEWIRE_REMOTE"}

// enter returns the running page, started if there is none; leave says that its use is over.
func (b *Backend) enter(ctx context.Context) (p *page, leave func(), err error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	b.mu.Lock()
	p = b.page
	if p != nil {
		select {
		case <-p.browser.Gone():
			p = nil
		default:
		}
	}
	if p == nil {
		rests := b.rests
		b.mu.Unlock()
		if p, err = b.start(ctx); err != nil {
			return nil, nil, err
		}
		b.mu.Lock()
		if b.rests != rests { // Rest found no browser yet, and means this one
			b.mu.Unlock()
			p.browser.Close()
			return nil, nil, fmt.Errorf("%w: it was stopped while its browser started", platform.ErrSensorLost)
		}
		b.page = p
	}
	if b.closed {
		b.mu.Unlock()
		p.browser.Close()
		return nil, nil, platform.ErrSensorLost
	}
	b.using++
	if b.idle != nil {
		b.idle.Stop()
		b.idle = nil
	}
	b.mu.Unlock()
	return p, b.leave, nil
}

func (b *Backend) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.using--; b.using == 0 && !b.closed {
		b.idle = time.AfterFunc(b.o.Warm, b.cool)
	}
}

// cool ends a browser that nobody used for a while.
func (b *Backend) cool() {
	b.mu.Lock()
	p := b.page
	if b.using > 0 || p == nil || b.closed {
		b.mu.Unlock()
		return
	}
	b.page = nil
	b.cooling.Add(1)
	b.mu.Unlock()
	defer b.cooling.Done()
	p.browser.Close()
}

// Rest ends the browser, and with it every use of a device.
func (b *Backend) Rest() {
	b.mu.Lock()
	p := b.page
	b.page = nil
	b.rests++
	b.mu.Unlock()
	if p != nil {
		p.browser.Close()
	}
}

// Close is Rest for good.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	if b.idle != nil {
		b.idle.Stop()
	}
	b.mu.Unlock()
	b.Rest()
	b.cooling.Wait()
	return nil
}

// start starts a browser and loads the page.
func (b *Backend) start(ctx context.Context) (*page, error) {
	p := &page{takers: map[int]*taker{}}
	loaded := make(chan struct{})
	ready := sync.OnceFunc(func() { close(loaded) })
	begun := make(chan struct{}) // p.browser is set
	var err error
	p.browser, err = process.StartPrivate(ctx, process.PrivateOptions{
		Finder: b.o.Finder, Launcher: b.o.Launcher, Sandbox: b.o.Sandbox, Dir: b.o.Dir, Args: b.o.args(), Env: env, Log: b.log,
		OnEvent: func(method string, params []byte) {
			switch method {
			case "Fetch.requestPaused":
				<-begun
				p.serve(params)
			case "Page.loadEventFired":
				ready()
			case "Runtime.bindingCalled":
				p.said(params)
			case "Inspector.targetCrashed": // it would never answer again
				go func() { <-begun; p.browser.Close() }()
			}
		},
	})
	close(begun)
	if err != nil {
		return nil, err
	}
	if err := p.load(ctx, loaded); err != nil {
		p.browser.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: %w", platform.ErrSensorLost, err)
	}
	return p, nil
}

type object = map[string]any

// load sets the page up and waits for it.
func (p *page) load(ctx context.Context, loaded <-chan struct{}) error {
	if err := p.browser.CallBrowser(ctx, "Browser.grantPermissions",
		object{"origin": origin, "permissions": []string{"videoCapture", "audioCapture"}}, nil); err != nil {
		return err
	}
	for _, step := range []struct {
		method string
		params any
	}{
		{"Inspector.enable", object{}}, {"Page.enable", object{}}, {"Runtime.enable", object{}},
		{"Runtime.addBinding", object{"name": "handrailSay"}}, {"Fetch.enable", object{"patterns": []object{{"urlPattern": "*"}}}},
		{"Page.navigate", object{"url": origin + "/"}},
	} {
		if step.method == "Page.navigate" { // its answer comes with the document
			p.browser.Send(ctx, step.method, step.params)
			continue
		}
		if err := p.browser.Call(ctx, step.method, step.params, nil); err != nil {
			return err
		}
	}
	select {
	case <-loaded:
		return nil
	case <-p.browser.Gone():
		return process.ErrPrivateGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve answers the page's requests: its own document, and nothing else.
func (p *page) serve(params []byte) {
	var e struct {
		RequestID string `json:"requestId"`
		Request   struct {
			URL string `json:"url"`
		} `json:"request"`
	}
	if json.Unmarshal(params, &e) != nil {
		return
	}
	if e.Request.URL != origin+"/" {
		p.browser.Send(context.Background(), "Fetch.failRequest", object{"requestId": e.RequestID, "errorReason": "BlockedByClient"})
		return
	}
	body := "<!doctype html><meta charset=utf-8><title>Sensors</title><script>\n" + script + "</script>"
	p.browser.Send(context.Background(), "Fetch.fulfillRequest", object{
		"requestId": e.RequestID, "responseCode": 200, "body": base64.StdEncoding.EncodeToString([]byte(body)),
		"responseHeaders": []object{{"name": "Content-Type", "value": "text/html; charset=utf-8"}},
	})
}

// said hands what the page says to whom it is for, in order.
func (p *page) said(params []byte) {
	var e struct {
		Name    string `json:"name"`
		Payload string `json:"payload"`
	}
	if json.Unmarshal(params, &e) != nil || e.Name != "handrailSay" {
		return
	}
	m, ok := readMessage(e.Payload)
	if !ok {
		return
	}
	p.mu.Lock()
	t := p.takers[m.Number]
	p.mu.Unlock()
	if t != nil {
		t.take(m)
	}
}

// ask has the page do something quick.
func (p *page) ask(ctx context.Context, name string, args, into any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	var got struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	err = p.browser.Call(ctx, "Runtime.evaluate", object{
		"expression": fmt.Sprintf("handrailDo(%q, %s)", name, body), "awaitPromise": true, "returnByValue": true,
	}, &got)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, process.ErrPrivateGone):
		return fmt.Errorf("%w: %w", platform.ErrSensorLost, err)
	case err != nil:
		return fmt.Errorf("%w: %w", platform.ErrSensorLost, err)
	case len(got.Exception) > 0:
		return fmt.Errorf("%w: %.300s", platform.ErrSensorLost, got.Exception)
	}
	var answer struct {
		Value json.RawMessage `json:"value"`
		Error *struct{ Name, Message string }
	}
	if err := json.Unmarshal(got.Result.Value, &answer); err != nil {
		return fmt.Errorf("%w: %w", platform.ErrSensorLost, err)
	}
	if answer.Error != nil {
		return condition(answer.Error.Name, answer.Error.Message)
	}
	if into == nil || len(answer.Value) == 0 {
		return nil
	}
	return json.Unmarshal(answer.Value, into)
}

// capture is ask for what opens a device: when ctx ends, the device is freed before it
// returns, by the page or by the end of its browser.
func (p *page) capture(ctx context.Context, name string, args map[string]any, w *writing, into any) error {
	return p.captureAs(ctx, p.number(), name, args, w, into)
}

// live is a capture that lasts until ctx ends, and heeds what o tells meanwhile.
func (p *page) live(ctx context.Context, args map[string]any, o platform.LiveOrder) error {
	number := p.number()
	ctx, stop := context.WithCancel(ctx)
	var tuning sync.WaitGroup
	defer tuning.Wait()
	defer stop()
	tuning.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case t := <-o.Tune:
				p.browser.Send(ctx, "Runtime.evaluate", object{"expression": fmt.Sprintf("tune(%d, %d, %t)", number, t.Bits, t.Key)})
			}
		}
	})
	return p.captureAs(ctx, number, "live", args, &writing{frame: o.Frame}, nil)
}

// number is what the page knows the next capture by.
func (p *page) number() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	return p.next
}

func (p *page) captureAs(ctx context.Context, number int, name string, args map[string]any, w *writing, into any) error {
	inner, stop := context.WithCancel(ctx)
	defer stop()
	p.mu.Lock()
	t := &taker{w: w, stop: stop}
	p.takers[number] = t
	p.mu.Unlock()
	defer func() {
		t.end()
		p.mu.Lock()
		delete(p.takers, number)
		p.mu.Unlock()
	}()
	args["number"] = number
	// The wait is not ctx's: a capture that is given up has to be seen to end.
	whole, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	ended := make(chan error, 1)
	go func() { ended <- p.ask(whole, name, args, into) }()
	select {
	case err := <-ended:
		return err
	case <-inner.Done():
	}
	p.browser.Send(whole, "Runtime.evaluate", object{"expression": fmt.Sprintf("release(%d)", number)})
	timer := time.NewTimer(releaseTime)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		p.browser.Close()
		<-ended
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if w != nil && w.err != nil {
		return w.err
	}
	return platform.ErrSensorLost
}
