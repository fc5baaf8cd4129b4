package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// A storage state is the cookies of a lane and the localStorage of the origins
// its pages were of: what most sites know a visitor by. It is a file below
// Options.StateDir that only this account can read, and it goes nowhere else: not
// into results, evidence or logs. It is not sealed: the key would lie beside it.
// IndexedDB, caches and service workers are left out, and sessionStorage, which
// belongs to a tab. A profile keeps all of them.

// Bounds of a state.
const (
	maxState   = 8 << 20
	maxOrigins = 64
	maxCookies = 5000
)

type storageState struct {
	Version int             `json:"version"`
	Saved   time.Time       `json:"saved"`
	Cookies []cookie        `json:"cookies"`
	Origins []originStorage `json:"origins"`
}

type originStorage struct {
	Origin string      `json:"origin"`
	Local  [][2]string `json:"local_storage"`
}

// cookie is the part of the protocol's cookie that can be set again.
type cookie struct {
	Name         string          `json:"name"`
	Value        string          `json:"value"`
	Domain       string          `json:"domain"`
	Path         string          `json:"path"`
	Secure       bool            `json:"secure"`
	HTTPOnly     bool            `json:"httpOnly"`
	SameSite     string          `json:"sameSite,omitzero"`
	Expires      float64         `json:"expires,omitzero"` // seconds; 0: with the session
	Priority     string          `json:"priority,omitzero"`
	SourceScheme string          `json:"sourceScheme,omitzero"`
	SourcePort   int64           `json:"sourcePort,omitzero"`
	PartitionKey json.RawMessage `json:"partitionKey,omitzero"`
}

// visited notes an origin that the lane had a document of.
func (l *lane) visited(origin string) {
	if len(origin) > 300 || !isWebOrigin(origin) || strings.HasSuffix(origin, "."+egress.FilesDomain) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, known := range l.origins {
		if known == origin {
			l.origins = append(append(l.origins[:i:i], l.origins[i+1:]...), origin)
			return
		}
	}
	if len(l.origins) == maxOrigins { // the one not seen for longest
		l.origins = l.origins[1:]
	}
	l.origins = append(l.origins, origin)
}

func isWebOrigin(origin string) bool {
	return len(origin) > 8 && (origin[:7] == "http://" || origin[:8] == "https://")
}

// saveState keeps the lane's state under the name.
func (c *call) saveState(name string) error {
	switch {
	case c.h.o.StateDir == "":
		return capabilities.Errorf(capabilities.CodeNotSupported, "This node keeps no storage states.").
			WithHint("Close without save_storage_state.")
	case !stateName.MatchString(name):
		return errStateName
	}
	path, err := c.h.kept(states, c.inv.Principal, name)
	if err != nil {
		return err
	}
	l := c.lane
	l.mu.Lock()
	chrome, id, origins := l.chrome, l.context, append([]string(nil), l.origins...)
	l.mu.Unlock()
	switch {
	case chrome == nil || !chrome.Alive():
		return capabilities.Errorf(capabilities.CodeConflict, "No browser is open in this conversation, so there is no state to save.").
			WithHint("Close without save_storage_state.")
	case chrome.Attached:
		return capabilities.Errorf(capabilities.CodeDeniedByNode, "The state of a person's own browser is not copied.").
			WithHint("Close without save_storage_state.")
	}
	state := storageState{Version: 1, Saved: time.Now().UTC()}
	if err := c.atOrigins(chrome, origins, func(ctx context.Context, s *devtools.Session, origin string) error {
		var items [][2]string
		text, err := evalText(ctx, s, "JSON.stringify(Object.entries(localStorage))")
		if err == nil {
			err = json.Unmarshal([]byte(text), &items)
		}
		if err != nil || len(items) == 0 {
			return err
		}
		state.Origins = append(state.Origins, originStorage{origin, items})
		return nil
	}); err != nil {
		return err
	}
	// Last, because what a page has just set is on its way to Chrome's store still.
	if state.Cookies, err = readCookies(c.ctx, chrome, id); err != nil {
		return err
	}
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if len(data) > maxState {
		return capabilities.Errorf(capabilities.CodeResultTooLarge, "The pages store more than the %d MiB that a state may have.", maxState>>20).
			WithHint("Launch with a profile, which keeps everything.")
	}
	if err := writePrivate(path, data); err != nil {
		return capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The storage state could not be written.").
			WithHint("The owner should look at the node's data directory.")
	}
	return nil
}

// writePrivate writes a file that only this account can read, whole or not at all.
func writePrivate(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// loadState reads a kept state.
func loadState(path, name string) (*storageState, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, capabilities.Errorf(capabilities.CodeNotFound, "There is no storage state %q on this node.", name).
			WithHint("Save one first: tool.browser.close with save_storage_state.")
	}
	damaged := func(err error) (*storageState, error) {
		return nil, capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The storage state cannot be read.").WithHint("Save it anew.")
	}
	if err != nil {
		return damaged(err)
	}
	defer f.Close()
	data := make([]byte, maxState+1)
	n := 0
	for n < len(data) {
		k, err := f.Read(data[n:])
		n += k
		if err != nil {
			break
		}
	}
	return decodeState(data[:n], damaged)
}

// decodeState reads a state strictly: nothing of a bad one is used.
func decodeState(data []byte, damaged func(error) (*storageState, error)) (*storageState, error) {
	if len(data) > maxState {
		return damaged(errors.New("too large"))
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var s storageState
	if err := d.Decode(&s); err != nil {
		return damaged(errors.New("no state")) // the error could quote it
	}
	if s.Version != 1 || len(s.Cookies) > maxCookies || len(s.Origins) > maxOrigins {
		return damaged(fmt.Errorf("version %d, %d cookies, %d origins", s.Version, len(s.Cookies), len(s.Origins)))
	}
	for _, o := range s.Origins {
		if !isWebOrigin(o.Origin) {
			return damaged(errors.New("an origin that is none of the web"))
		}
	}
	return &s, nil
}

// restore puts a state into the lane's context, over what is there.
func (c *call) restore(chrome *chrome, s *storageState) error {
	l := c.lane
	l.mu.Lock()
	id := l.context
	l.mu.Unlock()
	var cookies []cookie
	for _, one := range s.Cookies {
		if one.Expires == 0 || one.Expires > float64(time.Now().Unix()) {
			cookies = append(cookies, one)
		}
	}
	if len(cookies) > 0 {
		sent := chrome.Root.Send(c.ctx, "Storage.setCookies", struct {
			Cookies []cookie             `json:"cookies"`
			Context cdp.BrowserContextID `json:"browserContextId,omitzero"`
		}{cookies, id})
		if _, err := sent.Wait(c.ctx); err != nil {
			return err
		}
	}
	origins, items := make([]string, len(s.Origins)), map[string][][2]string{}
	for i, o := range s.Origins {
		origins[i], items[o.Origin] = o.Origin, o.Local
	}
	return c.atOrigins(chrome, origins, func(ctx context.Context, s *devtools.Session, origin string) error {
		data, err := json.Marshal(items[origin])
		if err != nil {
			return err
		}
		l.visited(origin)
		_, err = evalText(ctx, s, "for (const [k, v] of "+string(data)+") localStorage.setItem(k, v); ''")
		return err
	})
}

// readCookies returns the context's cookies.
func readCookies(ctx context.Context, chrome *chrome, id cdp.BrowserContextID) ([]cookie, error) {
	raw, err := chrome.Root.Send(ctx, "Storage.getCookies", struct {
		Context cdp.BrowserContextID `json:"browserContextId,omitzero"`
	}{id}).Wait(ctx)
	if err != nil {
		return nil, err
	}
	var all struct {
		Cookies []cookie `json:"cookies"` // members that are no field are left out
	}
	if err := jsonv2.Unmarshal(raw, &all, jsonv2.AllowInvalidUTF8(true)); err != nil {
		return nil, err
	}
	for i := range all.Cookies {
		if e := all.Cookies[i].Expires; e < 0 || math.IsInf(e, 0) {
			all.Cookies[i].Expires = 0
		}
	}
	return all.Cookies[:min(len(all.Cookies), maxCookies)], nil
}

// atOrigins runs do in an empty document of each origin, in a tab made for it. No
// request leaves: every one is answered here.
func (c *call) atOrigins(chrome *chrome, origins []string, with func(ctx context.Context, s *devtools.Session, origin string) error) error {
	if len(origins) == 0 {
		return nil
	}
	l := c.lane
	before, _ := l.list()
	l.mu.Lock()
	active := l.active
	l.mu.Unlock()
	if len(before) >= c.h.o.MaxTabs {
		return capabilities.Errorf(capabilities.CodeOverloaded, "This conversation has %d tabs open, and one more is needed.", len(before)).
			WithHint("Close one with tool.browser.tabs first.")
	}
	t, err := l.open(c.ctx, chrome)
	if err != nil {
		return err
	}
	defer func() {
		devtools.Do(c.ctx, chrome.Root, target.CloseTarget, target.CloseTargetParams{TargetID: t.id})
		l.remove(t)
		if active != nil {
			l.activate(active)
		}
	}()
	ctx, unbind := bind(c.ctx, t.life)
	defer unbind()
	// A session of our own beside the tab's, so that its requests come to us.
	attached, err := devtools.Do(ctx, chrome.Root, target.AttachToTarget, target.AttachToTargetParams{TargetID: t.id, Flatten: ptr(true)})
	if err != nil {
		return err
	}
	paused := make(chan fetch.RequestID, 16)
	s := chrome.Conn.Open(string(attached.SessionID), func(method string, params []byte) {
		var e struct {
			RequestID fetch.RequestID `json:"requestId"`
		}
		if method == "Fetch.requestPaused" && decodeEvent(params, &e) {
			select {
			case paused <- e.RequestID:
			default: // a page without anything asks for nothing more
			}
		}
	})
	defer chrome.Conn.Forget(string(attached.SessionID))
	devtools.Start(ctx, s, network.SetBypassServiceWorker, network.SetBypassServiceWorkerParams{Bypass: true})
	if _, err := devtools.Do(ctx, s, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: "*"}}}); err != nil {
		return err
	}
	for _, origin := range origins {
		opened := devtools.Start(ctx, s, page.Navigate, page.NavigateParams{URL: origin + "/"})
		for !opened.Answered() {
			select {
			case id := <-paused:
				devtools.Start(ctx, s, fetch.FulfillRequest, fetch.FulfillRequestParams{
					RequestID: id, ResponseCode: 200, Body: []byte("<!doctype html><link rel=icon href=data:,>"),
					ResponseHeaders: []*fetch.HeaderEntry{{Name: "Content-Type", Value: "text/html"}},
				})
			case <-opened.Done():
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		res, err := opened.Get(ctx)
		if err != nil {
			return err
		}
		if res.ErrorText != "" {
			return fmt.Errorf("an empty document of the origin: %s", res.ErrorText)
		}
		if err := with(ctx, s, origin); err != nil {
			return err
		}
	}
	return nil
}

// evalText returns the text that an expression of our own comes to.
func evalText(ctx context.Context, s *devtools.Session, expression string) (string, error) {
	res, err := devtools.Do(ctx, s, runtime.Evaluate,
		runtime.EvaluateParams{Expression: expression, ReturnByValue: ptr(true), Silent: ptr(true)})
	if err != nil {
		return "", err
	}
	var text string
	if res.ExceptionDetails != nil || res.Result == nil || json.Unmarshal(res.Result.Value, &text) != nil {
		return "", errors.New("the origin's storage cannot be used") // the details could quote it
	}
	return text, nil
}
