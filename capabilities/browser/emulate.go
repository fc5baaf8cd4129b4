package browser

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// emulated is what device, place and network the pages of a lane see. It holds for
// every tab and frame, also those that come later and those of a Chrome that
// replaces a crashed one. A setting that is not given stays as it was.
type emulated struct {
	Width         int64     `json:"width"`
	Height        int64     `json:"height"`
	Scale         *float64  `json:"device_scale_factor"`
	Mobile        *bool     `json:"mobile"`
	ColorScheme   string    `json:"color_scheme"`
	ReducedMotion *bool     `json:"reduced_motion"`
	Locale        string    `json:"locale"`
	Timezone      string    `json:"timezone"`
	Geolocation   *geoPoint `json:"geolocation"`
	Offline       *bool     `json:"offline"`
	UserAgent     string    `json:"user_agent"`
	Slowdown      float64   `json:"cpu_slowdown"`
	Speed         string    `json:"network_speed"`

	ownAgent string // Chrome's own user agent, which a locale goes with
}

type geoPoint struct {
	Latitude  float64  `json:"latitude"`
	Longitude float64  `json:"longitude"`
	Accuracy  *float64 `json:"accuracy"`
}

// maxViewport bounds a viewport's side.
const maxViewport = 10000

// resize carries out tyrum.browser.resize.
func resize(c *call) (capabilities.Output, error) {
	l := c.lane
	l.mu.Lock()
	now := l.emulated
	l.mu.Unlock()
	before := now
	var given map[string]json.RawMessage
	if err := errors.Join(c.args(&now), c.args(&given)); err != nil {
		return capabilities.Output{}, err
	}
	switch _, sized := given["width"]; {
	case len(given) == 0:
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "Nothing is to be set.").
			WithHint("Give width and height, or what else the page is to see.")
	case sized != (given["height"] != nil):
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "width and height go together.")
	case sized && (now.Width < 1 || now.Height < 1 || now.Width > maxViewport || now.Height > maxViewport):
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "A viewport has 1 to %d pixels on each side.",
			maxViewport)
	}
	if strings.ContainsAny(now.Locale, ",; \r\n") {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "locale: want one, such as de-CH.")
	}
	if err := c.mayThrottle(given["cpu_slowdown"] != nil || given["network_speed"] != nil); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	if now.Locale != "" && now.Locale != before.Locale && c.unknownLocale(now.Locale) {
		return capabilities.Output{}, errUnknownLocale
	}
	if now.ownAgent == "" && now.Locale != "" {
		v, err := devtools.Do(c.ctx, c.tab.chrome.Root, cdpbrowser.GetVersion, cdp.Empty{})
		if err != nil {
			return capabilities.Output{}, err
		}
		now.ownAgent = v.UserAgent
	}
	l.mu.Lock()
	id := l.context
	l.mu.Unlock()
	if now.Geolocation != nil && c.tab.chrome.Attached {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNotSupported,
			"A place cannot be set in the person's own browser: it would hold for all of its pages.").
			WithHint("Launch without attach.")
	}
	if err := now.grantGeolocation(c.ctx, c.tab.chrome, id); err != nil {
		return capabilities.Output{}, err
	}
	if err := now.apply(c.ctx, c.tab); err != nil {
		before.apply(c.ctx, c.tab)
		return capabilities.Output{}, err
	}
	l.mu.Lock()
	l.emulated = now
	l.egress.SetOffline(now.isOffline())
	l.mu.Unlock()
	others, _ := l.list()
	for _, t := range others {
		if t != c.tab && !t.isCrashed() {
			now.send(c.ctx, t)
		}
	}
	seen, wrong, err := c.compare(now)
	if err != nil {
		return capabilities.Output{}, err
	}
	out := capabilities.Output{Effect: capabilities.EffectConfirmed, Evidence: "the page sees it so", Result: struct {
		Width  int64 `json:"width,omitempty"` // absent if none was given and the page does not answer
		Height int64 `json:"height,omitempty"`
	}{cmp.Or(now.Width, seen.Width), cmp.Or(now.Height, seen.Height)}}
	if now.slowed() {
		out.Evidence += "; Chrome slows it down as set"
	}
	if len(wrong) > 0 {
		out.Effect, out.Evidence = capabilities.EffectPartial, "the page shown does not see yet: "+strings.Join(wrong, ", ")
	}
	return out, nil
}

var errUnknownLocale = (&capabilities.Error{
	Code: capabilities.CodeInvalidArguments, Message: "locale: Chrome does not know it.",
}).WithHint("Give a tag such as de-CH.")

// unknownLocale reports a locale whose language has no name. Builds of Chrome differ in
// what they refuse themselves: some take every tag that is well formed, and then go on
// in their own language.
func (c *call) unknownLocale(locale string) bool {
	w, err := c.tab.inWorld(c.ctx)
	if err != nil {
		return false // apply tells more
	}
	ctx, cancel := context.WithTimeout(c.ctx, 3*time.Second)
	defer cancel()
	tag, _ := json.Marshal(strings.ReplaceAll(locale, "_", "-"))
	res, err := devtools.Do(ctx, c.tab.s, runtime.Evaluate, runtime.EvaluateParams{
		Expression: `((tag) => { try { const language = new Intl.Locale(tag).language; return new Intl.DisplayNames(['en'], {type: 'language'}).of(language) === language } catch { return true } })(` +
			string(tag) + `)`,
		ContextID: w.id, ReturnByValue: ptr(true), Silent: ptr(true),
	})
	return err == nil && res.ExceptionDetails == nil && res.Result != nil && string(res.Result.Value) == "true"
}

// apply sets all of it for a tab and says what of it is not possible.
func (e emulated) apply(ctx context.Context, t *laneTab) error {
	for _, p := range e.send(ctx, t) {
		_, err := p.Wait(ctx)
		var refused *devtools.ProtocolError
		switch {
		case err == nil:
		case !errors.As(err, &refused):
			return err
		case strings.Contains(refused.Message, "already in effect"):
			// One process serves two tabs; the other one set it for both.
		case strings.Contains(refused.Message, "imezone"):
			return capabilities.Errorf(capabilities.CodeInvalidArguments, "timezone: Chrome does not know it.").
				WithHint("Give a name such as Europe/Zurich.")
		case strings.Contains(refused.Message, "ocale"):
			return errUnknownLocale
		default:
			return err
		}
	}
	return nil
}

// send queues all of it for a tab and its frames in other processes.
func (e emulated) send(ctx context.Context, t *laneTab) (sent []*devtools.Pending) {
	for _, s := range t.sessions() {
		sent = append(sent, e.steps(ctx, s, s == t.s)...)
	}
	return sent
}

// steps queues what one session needs; top is the one of the tab itself.
func (e emulated) steps(ctx context.Context, s *devtools.Session, top bool) (sent []*devtools.Pending) {
	add := func(p *devtools.Pending) { sent = append(sent, p) }
	// Without a size, Chrome keeps the window's: 0 by 0 says so.
	if top && (e.Width > 0 || e.Scale != nil || e.Mobile != nil) {
		mobile := e.Mobile != nil && *e.Mobile
		size := emulation.SetDeviceMetricsOverrideParams{
			Width: e.Width, Height: e.Height, ScreenWidth: e.Width, ScreenHeight: e.Height, Mobile: mobile,
		}
		if e.Scale != nil {
			size.DeviceScaleFactor = *e.Scale
		}
		add(devtools.Start(ctx, s, emulation.SetDeviceMetricsOverride, size).Pending)
		if e.Mobile != nil {
			add(devtools.Start(ctx, s, emulation.SetTouchEmulationEnabled,
				emulation.SetTouchEmulationEnabledParams{Enabled: mobile, MaxTouchPoints: 5}).
				Pending)
		}
	}
	if e.ColorScheme != "" || e.ReducedMotion != nil {
		var media emulation.SetEmulatedMediaParams
		if e.ColorScheme != "" {
			media.Features = append(media.Features, &emulation.MediaFeature{Name: "prefers-color-scheme", Value: e.ColorScheme})
		}
		if e.ReducedMotion != nil {
			value := "no-preference"
			if *e.ReducedMotion {
				value = "reduce"
			}
			media.Features = append(media.Features, &emulation.MediaFeature{Name: "prefers-reduced-motion", Value: value})
		}
		add(devtools.Start(ctx, s, emulation.SetEmulatedMedia, media).Pending)
	}
	for _, p := range e.processWide(ctx, s) {
		add(p)
	}
	if e.UserAgent != "" || e.Locale != "" {
		agent := emulation.SetUserAgentOverrideParams{UserAgent: orDefault(e.UserAgent, e.ownAgent), AcceptLanguage: e.Locale}
		add(devtools.Start(ctx, s, emulation.SetUserAgentOverride, agent).Pending)
	}
	if g := e.Geolocation; g != nil && top {
		accuracy := g.Accuracy
		if accuracy == nil {
			accuracy = ptr(10.0)
		}
		add(devtools.Start(ctx, s, emulation.SetGeolocationOverride,
			emulation.SetGeolocationOverrideParams{Latitude: &g.Latitude, Longitude: &g.Longitude, Accuracy: accuracy}).Pending)
	}
	sent = append(sent, e.slowNetwork(ctx, s)...)
	return sent
}

func (e emulated) isOffline() bool { return e.Offline != nil && *e.Offline }

// processWide queues what Chrome keeps for a whole process, and drops when the
// session that set it ends.
func (e emulated) processWide(ctx context.Context, s *devtools.Session) (sent []*devtools.Pending) {
	if e.Timezone != "" {
		sent = append(sent, devtools.Start(ctx, s, emulation.SetTimezoneOverride,
			emulation.SetTimezoneOverrideParams{TimezoneID: e.Timezone}).Pending)
	}
	if e.Locale != "" {
		sent = append(sent,
			devtools.Start(ctx, s, emulation.SetLocaleOverride,
				emulation.SetLocaleOverrideParams{Locale: strings.ReplaceAll(e.Locale, "-", "_")}).Pending)
	}
	sent = append(sent, e.slowProcessor(ctx, s)...)
	return sent
}

// emulate queues what the lane's pages are to see, for a session of a new tab or
// frame.
func (l *lane) emulate(ctx context.Context, s *devtools.Session, top bool) []*devtools.Pending {
	l.mu.Lock()
	e := l.emulated
	l.mu.Unlock()
	return e.steps(ctx, s, top)
}

// emulateAgain sets anew, for the tabs that stay, what went with one that closed.
func (l *lane) emulateAgain() {
	l.mu.Lock()
	e, tabs := l.emulated, append([]*laneTab(nil), l.tabs...)
	l.mu.Unlock()
	if e.Timezone == "" && e.Locale == "" && e.Slowdown == 0 {
		return
	}
	for _, t := range tabs {
		t.chrome.h.wg.Go(func() {
			for _, s := range t.sessions() {
				e.processWide(t.life, s)
			}
		})
	}
}

// grantGeolocation lets a context's pages ask where they are, if a place is set.
func (e emulated) grantGeolocation(ctx context.Context, c *chrome, id cdp.BrowserContextID) error {
	if e.Geolocation == nil {
		return nil
	}
	if c.Attached {
		return capabilities.Errorf(capabilities.CodeNotSupported,
			"A place cannot be set in a person's own browser: every page there could ask for it.").
			WithHint("Leave geolocation out, or use a browser that is not attached.")
	}
	_, err := devtools.Do(ctx, c.Root, cdpbrowser.SetPermission, cdpbrowser.SetPermissionParams{
		Permission: &cdpbrowser.PermissionDescriptor{Name: "geolocation"}, Setting: cdpbrowser.PermissionSettingGranted, BrowserContextID: id,
	})
	return err
}

// lookAround returns what the page sees, once its viewport has the asked width or
// some frames have passed.
const lookAround = `(async (width) => {
	for (let i = 0; i < 30 && innerWidth !== width && screen.width !== width; i++) await new Promise(r => { setTimeout(r, 50); requestAnimationFrame(r); });
	const media = q => matchMedia(q).matches;
	const zone = Intl.DateTimeFormat().resolvedOptions();
	return {width: innerWidth, height: innerHeight, screen: screen.width, ratio: devicePixelRatio,
		scheme: media('(prefers-color-scheme: dark)') ? 'dark' : 'light', reduced: media('(prefers-reduced-motion: reduce)'),
		zone: zone.timeZone, locale: zone.locale, online: navigator.onLine, agent: navigator.userAgent, touch: navigator.maxTouchPoints > 0};
})(%d)`

// pageSees is what a page sees.
type pageSees struct {
	Width, Height, Screen       int64
	Ratio                       float64
	Scheme, Zone, Locale, Agent string
	Reduced, Online, Touch      bool
}

// compare asks the page what it sees, and names what differs.
func (c *call) compare(e emulated) (sees pageSees, wrong []string, err error) {
	w, err := c.tab.inWorld(c.ctx)
	if err != nil {
		return sees, nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, 3*time.Second)
	defer cancel()
	res, err := devtools.Do(ctx, c.tab.s, runtime.Evaluate, runtime.EvaluateParams{
		Expression: fmt.Sprintf(lookAround, e.Width), ContextID: w.id, ReturnByValue: ptr(true), AwaitPromise: ptr(true), Silent: ptr(true),
	})
	if err != nil && c.ctx.Err() == nil {
		return sees, []string{"its page does not answer"}, nil
	}
	if err != nil {
		return sees, nil, err
	}
	if err := pageFault(res); err != nil {
		return sees, nil, err
	}
	if err := json.Unmarshal(res.Result.Value, &sees); err != nil {
		return sees, nil, err
	}
	check := func(ok bool, what string) {
		if !ok {
			wrong = append(wrong, what)
		}
	}
	mobile := e.Mobile != nil && *e.Mobile
	check(e.Width == 0 || sees.Width == e.Width && sees.Height == e.Height || mobile && sees.Screen == e.Width, "the viewport")
	check(e.Scale == nil || *e.Scale == sees.Ratio, "the device scale factor")
	check(e.Mobile == nil || mobile == sees.Touch, "mobile")
	check(e.ColorScheme == "" || e.ColorScheme == "no-preference" || e.ColorScheme == sees.Scheme, "the color scheme")
	check(e.ReducedMotion == nil || *e.ReducedMotion == sees.Reduced, "reduced motion")
	check(e.Timezone == "" || strings.EqualFold(e.Timezone, sees.Zone) || !strings.Contains(e.Timezone, "/"), "the time zone")
	check(e.Locale == "" || strings.EqualFold(e.Locale, sees.Locale) ||
		strings.HasPrefix(strings.ToLower(sees.Locale), strings.ToLower(e.Locale[:min(2, len(e.Locale))])), "the locale")
	check(e.Offline == nil || *e.Offline != sees.Online, "offline")
	check(e.UserAgent == "" || e.UserAgent == sees.Agent, "the user agent")
	return sees, wrong, nil
}
