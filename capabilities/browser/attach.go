package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp/remote"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// Attached, a lane works in a Chrome that the person runs, in the person's own
// context: their logins, and their way to the network, which no proxy of ours
// checks. So the owner has to allow it (Options.Attach), readiness then calls the
// whole family one of the person's session, and what needs the proxy (lists of
// domains) refuses. Of the tabs only those are ours that we opened, or that those
// opened; no other is read, changed or closed.

// readAttach reads the owner's setting; nil for none. Only this machine: the
// protocol knows no password.
func readAttach(raw string) (*url.URL, error) {
	if raw == "" {
		return nil, nil
	}
	u, err := url.Parse(raw)
	if err == nil {
		ip, ipErr := netip.ParseAddr(u.Hostname())
		if u.Scheme == "http" && u.Port() != "" && u.User == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" &&
			(egress.IsLocalhost(u.Hostname()) || ipErr == nil && ip.IsLoopback()) {
			return u, nil
		}
	}
	return nil, fmt.Errorf("browser: attach %q: want the debugging address of a Chrome on this machine, such as http://127.0.0.1:9222", raw)
}

// attached returns the lane's connection to the person's Chrome.
func (l *lane) attached(ctx context.Context) (*chrome, error) {
	c, err := l.h.attachTo(ctx, l)
	if err != nil {
		return nil, err
	}
	if !c.headless {
		l.h.windows(l)
	}
	l.mu.Lock()
	ended := l.ended
	if !ended {
		l.chrome, l.context, l.egress, l.files = c, "", nil, nil
	}
	l.mu.Unlock()
	if ended {
		l.dispose(c, "", nil)
		return nil, errLaneClosed
	}
	return c, l.h.keptBack(ctx, c, "")
}

func (h *Handler) attachTo(ctx context.Context, l *lane) (*chrome, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	refuse := func(err error) (*chrome, error) {
		return nil, capabilities.Wrap(capabilities.CodeBrowserUnavailable, err, "No Chrome answers at "+h.attach.Host+".").
			WithHint("Start Chrome with --remote-debugging-port and a --user-data-dir of its own, or launch without attach.")
	}
	path, err := debuggerPath(ctx, h.attach)
	if err != nil {
		return refuse(err)
	}
	ws, err := remote.DialContext(ctx, (&url.URL{Scheme: "ws", Host: h.attach.Host, Path: path}).String())
	if err != nil {
		return refuse(err)
	}
	c, err := h.speakTo(&theirs{ws: ws, done: make(chan struct{})}, ws, chromeStart{own: l, attached: true})
	if err != nil {
		return nil, err
	}
	version := devtools.Start(ctx, c.root, cdpbrowser.GetVersion, cdp.Empty{})
	// Tabs that ours open are told of; nothing is attached to by itself, and nothing
	// of the person's is held up.
	discover := devtools.Start(ctx, c.root, target.SetDiscoverTargets,
		target.SetDiscoverTargetsParams{Discover: true, Filter: target.Filter{{Type: "page"}, {Exclude: true}}})
	v, err := version.Get(ctx)
	if err == nil {
		_, err = discover.Get(ctx)
	}
	if err == nil {
		err = c.guardShared(ctx)
	}
	if err != nil {
		c.close()
		return refuse(err)
	}
	product, number, _ := strings.Cut(v.Product, "/")
	c.version, c.headless = number, strings.HasPrefix(product, "Headless")
	h.log.Info("browser.attached", "version", c.version)
	return c, nil
}

// debuggerPath asks Chrome for the path of its debugging socket.
func debuggerPath(ctx context.Context, at *url.URL) (string, error) {
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.Scheme+"://"+at.Host+"/json/version", nil)
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var answer struct {
		Socket string `json:"webSocketDebuggerUrl"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&answer); err != nil {
		return "", err
	}
	u, err := url.Parse(answer.Socket)
	if err != nil || u.Path == "" {
		return "", errors.New("it names no debugging socket")
	}
	return u.Path, nil
}

// attach has the connection speak with a tab, which then arrives as any other.
func (c *chrome) attach(ctx context.Context, id target.ID) error {
	_, err := devtools.Do(ctx, c.root, target.AttachToTarget, target.AttachToTargetParams{TargetID: id, Flatten: ptr(true)})
	return err
}

// meet takes in what Chrome was asked to tell of: a tab that one of ours opened, or
// during a stop a worker that is no page's.
func (c *chrome) meet(params []byte) {
	var e struct {
		TargetInfo struct {
			TargetID target.ID `json:"targetId"`
			OpenerID target.ID `json:"openerId"`
		} `json:"targetInfo"`
	}
	switch {
	case !decodeEvent(params, &e):
		return
	case !c.attached:
		c.h.wg.Go(func() { c.attach(c.h.life, e.TargetInfo.TargetID) })
		return
	case e.TargetInfo.OpenerID == "":
		return
	}
	c.mu.Lock()
	opener := c.tabs[e.TargetInfo.OpenerID]
	c.mu.Unlock()
	if opener != nil {
		c.h.wg.Go(func() { c.attach(opener.life, e.TargetInfo.TargetID) })
	}
}

// leave closes our tabs and lets go of the person's Chrome.
func (c *chrome) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c.mu.Lock()
	var closing []*devtools.Pending
	ids := make([]target.ID, 0, len(c.tabs))
	for id := range c.tabs {
		ids = append(ids, id)
	}
	c.mu.Unlock()
	for _, id := range ids {
		closing = append(closing, devtools.Start(ctx, c.root, target.CloseTarget, target.CloseTargetParams{TargetID: id}).Pending)
	}
	for _, p := range closing {
		p.Wait(ctx)
	}
	for gone := false; !gone; {
		c.mu.Lock()
		left, changed := len(c.tabs), c.arrived
		c.mu.Unlock()
		if left == 0 {
			break
		}
		select {
		case <-changed:
		case <-c.conn.Done():
			gone = true
		case <-ctx.Done():
			gone = true
		}
	}
	c.close()
}

// theirs is the process of a Chrome that somebody else started: what there is of it here
// is the connection.
type theirs struct {
	ws   *remote.Conn
	once sync.Once
	done chan struct{}
}

func (t *theirs) PID() int              { return 0 }
func (t *theirs) Scratch() string       { return "" }
func (t *theirs) Done() <-chan struct{} { return t.done }
func (t *theirs) Output() string        { return "" }

func (t *theirs) Owns(netip.AddrPort, netip.AddrPort) (bool, error) {
	return false, errors.ErrUnsupported
}

func (t *theirs) Close() (err error) {
	t.once.Do(func() {
		err = t.ws.Close()
		close(t.done)
	})
	return err
}

// sawRequest reports the host of a request in a lane that has no proxy to tell.
func (t *tab) sawRequest(address string) {
	if !t.chrome.attached {
		return
	}
	if u, err := url.Parse(address); err == nil && u.Hostname() != "" {
		t.lane.sawHost(u.Hostname())
	}
}
