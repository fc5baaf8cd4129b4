package browser

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// Cookies and storage of one origin of the lane's own context. A person's own browser is left
// alone: what lies there is theirs.

// Bounds of one answer.
const (
	maxStored     = 200
	maxStoredText = 2000 // characters of one value
)

// markedName recognises names of what signs somebody in. Such a value is never told, nor is that
// of a cookie that its server keeps from the page's own scripts.
var markedName = regexp.MustCompile(`(?i)sess|token|auth|secret|csrf|xsrf|jwt|passw|credential|api.?key|(^|[._-])sid($|[._-])|^__(host|secure)-`)

// cookieEntry is one cookie as it is told.
type cookieEntry struct {
	Name     string `json:"name"`
	Value    string `json:"value,omitempty"`
	Withheld bool   `json:"withheld,omitempty"` // its value is not told
	Domain   string `json:"domain"`
	Path     string `json:"path"`
	Expires  string `json:"expires,omitempty"` // absent: it ends with the browser
	Secure   bool   `json:"secure,omitempty"`
	HTTPOnly bool   `json:"http_only,omitempty"`
	SameSite string `json:"same_site,omitempty"`
}

func (k cookie) entry() cookieEntry {
	e := cookieEntry{
		Name: clipText(k.Name, 256), Domain: clipText(k.Domain, 256), Path: clipText(k.Path, 1024), Secure: k.Secure, HTTPOnly: k.HTTPOnly,
		SameSite: k.SameSite,
	}
	if k.Expires > 0 {
		e.Expires = time.Unix(int64(min(k.Expires, 253402300799)), 0).UTC().Format(time.RFC3339)
	}
	if e.Withheld = k.HTTPOnly || markedName.MatchString(k.Name); !e.Withheld {
		e.Value = clipText(k.Value, maxStoredText)
	}
	return e
}

// of reports whether a cookie goes with requests to a host.
func (k cookie) of(host string) bool {
	domain, below := strings.CutPrefix(strings.ToLower(k.Domain), ".")
	return host == domain || below && strings.HasSuffix(host, "."+domain)
}

type cookieArgs struct {
	Action   string `json:"action"`
	Origin   string `json:"origin"`
	Name     string `json:"name"`
	Value    string `json:"value"`
	Path     string `json:"path"`
	Secure   bool   `json:"secure"`
	HTTPOnly bool   `json:"http_only"`
	SameSite string `json:"same_site"`
	Lasts    int64  `json:"lasts_s"`
}

// cookies carries out tyrum.browser.cookies: lists, sets or deletes the cookies of one origin.
// It reads back from Chrome's store what it did.
func cookies(c *call) (capabilities.Output, error) {
	var args cookieArgs
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if args.Action == "set" && args.Name == "" {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "name: a cookie that is set has one.")
	}
	at, err := c.ownOrigin(args.Origin)
	if err != nil {
		return capabilities.Output{}, err
	}
	before, err := c.cookiesOf(at)
	if err != nil {
		return capabilities.Output{}, err
	}
	out := capabilities.Output{Untrusted: true}
	switch args.Action {
	case "set":
		if err := c.setCookie(at, args); err != nil {
			return out, err
		}
	case "delete":
		for _, k := range before {
			if args.Name != "" && k.Name != args.Name {
				continue
			}
			if err := c.deleteCookie(k); err != nil {
				return out, err
			}
		}
	}
	now := before
	if args.Action != "list" {
		if now, err = c.cookiesOf(at); err != nil {
			return out, err
		}
	}
	named := slices.DeleteFunc(slices.Clone(now), func(k cookie) bool { return args.Name != "" && k.Name != args.Name })
	switch args.Action {
	case "set":
		out.Effect, out.Evidence = capabilities.EffectSuspectNoop, "Chrome did not keep the cookie: what it has of that name is another"
		if slices.ContainsFunc(named, func(k cookie) bool { return k.Value == args.Value }) {
			out.Effect, out.Evidence = capabilities.EffectConfirmed, "the cookie is in Chrome's store"
		}
	case "delete":
		gone := len(before) - len(now)
		out.Effect, out.Evidence = capabilities.EffectConfirmed, fmt.Sprintf("%d cookies are gone from Chrome's store", gone)
		switch {
		case len(named) > 0:
			out.Effect, out.Evidence = capabilities.EffectPartial, fmt.Sprintf("%d cookies are gone; %d are still there", gone, len(named))
		case gone == 0:
			out.Effect, out.Evidence = capabilities.EffectSuspectNoop, "there was no such cookie"
		}
	}
	r := struct {
		Origin  string        `json:"origin"`
		Cookies []cookieEntry `json:"cookies"`
		Omitted int           `json:"omitted,omitempty"`
	}{originOf(at), []cookieEntry{}, max(0, len(named)-maxStored)}
	for _, k := range named[:min(len(named), maxStored)] {
		r.Cookies = append(r.Cookies, k.entry())
	}
	out.Result = r
	return out, nil
}

func originOf(at *url.URL) string { return at.Scheme + "://" + at.Host }

// ownOrigin returns the origin that a call is about: the page's, unless it names one. It refuses a
// browser that is the person's.
func (c *call) ownOrigin(origin string) (*url.URL, error) {
	if err := c.page(); err != nil {
		return nil, err
	}
	if c.tab.chrome.Attached {
		return nil, capabilities.Errorf(capabilities.CodeDeniedByNode, "Cookies and storage of a person's own browser are not read or changed.").
			WithHint("Launch without attach, or have the person do it.")
	}
	if origin == "" {
		address, _, err := c.tab.locationOf(c.ctx, c.tab.askLocation(c.ctx))
		if err != nil {
			return nil, err
		}
		origin = address
	}
	at, err := url.Parse(origin)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || at.User != nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "There is no origin: want one such as https://example.com.").
			WithHint("Give origin, or open the page first.")
	}
	return &url.URL{Scheme: at.Scheme, Host: strings.ToLower(at.Host), Path: "/"}, nil
}

// cookiesOf returns the lane's cookies that go with requests to an origin.
func (c *call) cookiesOf(at *url.URL) ([]cookie, error) {
	c.lane.mu.Lock()
	chrome, id := c.lane.chrome, c.lane.context
	c.lane.mu.Unlock()
	if chrome == nil {
		return nil, errBrowserGone
	}
	all, err := readCookies(c.ctx, chrome, id)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(k cookie) bool {
		return !k.of(at.Hostname()) || k.Secure && at.Scheme != "https" && !isLoopback(at)
	}), nil
}

// isLoopback reports an origin that Chrome trusts as if it were https.
func isLoopback(at *url.URL) bool {
	host := at.Hostname()
	return host == "localhost" || host == "127.0.0.1" || host == "::1" || strings.HasSuffix(host, ".localhost")
}

func (c *call) setCookie(at *url.URL, args cookieArgs) error {
	expires := 0.0
	if args.Lasts > 0 {
		expires = float64(time.Now().Unix() + args.Lasts)
	}
	sent := c.tab.s.Send(c.ctx, "Network.setCookie", struct {
		Name     string  `json:"name"`
		Value    string  `json:"value"`
		URL      string  `json:"url"`
		Path     string  `json:"path"`
		Secure   bool    `json:"secure"`
		HTTPOnly bool    `json:"httpOnly"`
		SameSite string  `json:"sameSite,omitzero"`
		Expires  float64 `json:"expires,omitzero"`
	}{args.Name, args.Value, at.String(), orDefault(args.Path, "/"), args.Secure, args.HTTPOnly, args.SameSite, expires})
	_, err := sent.Wait(c.ctx)
	var refused *devtools.ProtocolError
	if errors.As(err, &refused) {
		return capabilities.Wrap(capabilities.CodeInvalidArguments, err, "Chrome takes no such cookie for that origin.").
			WithHint("SameSite None and names that begin with __Secure- or __Host- need secure, and https.")
	}
	return err
}

func (c *call) deleteCookie(k cookie) error {
	sent := c.tab.s.Send(c.ctx, "Network.deleteCookies", struct {
		Name         string `json:"name"`
		Domain       string `json:"domain"`
		Path         string `json:"path"`
		PartitionKey any    `json:"partitionKey,omitzero"`
	}{k.Name, k.Domain, k.Path, partition(k)})
	_, err := sent.Wait(c.ctx)
	return err
}

func partition(k cookie) any {
	if len(k.PartitionKey) == 0 {
		return nil
	}
	return k.PartitionKey
}
