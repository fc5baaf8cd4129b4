package process

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

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp/remote"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// ReadAddress reads the debugging address of a Chrome that a person runs; nil for none. Only
// this machine: the protocol knows no password.
func ReadAddress(raw string) (*url.URL, error) {
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

// Attach connects to the Chrome that a person runs at an address. It tells of tabs that ours
// open; nothing is attached to by itself, and nothing of the person's is held up.
func (s *Set) Attach(ctx context.Context, at *url.URL, tenant func(*Chrome) Tenant) (*Chrome, error) {
	path, err := debuggerPath(ctx, at)
	if err != nil {
		return nil, Unreached(at, err)
	}
	ws, err := remote.DialContext(ctx, (&url.URL{Scheme: "ws", Host: at.Host, Path: path}).String())
	if err != nil {
		return nil, Unreached(at, err)
	}
	c, err := s.speak(&theirs{ws: ws, done: make(chan struct{})}, ws, How{Tenant: tenant, attached: true})
	if err != nil {
		return nil, err
	}
	version := devtools.Start(ctx, c.Root, cdpbrowser.GetVersion, cdp.Empty{})
	discover := devtools.Start(ctx, c.Root, target.SetDiscoverTargets,
		target.SetDiscoverTargetsParams{Discover: true, Filter: target.Filter{{Type: "page"}, {Exclude: true}}})
	v, err := version.Get(ctx)
	if err == nil {
		_, err = discover.Get(ctx)
	}
	if err != nil {
		c.Close()
		return nil, Unreached(at, err)
	}
	product, number, _ := strings.Cut(v.Product, "/")
	c.Version, c.Headless = number, strings.HasPrefix(product, "Headless")
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

// theirs is the program of a Chrome that somebody else started: what there is of it here
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
