//go:build unix

package console

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/gateway"
)

// place is where the gateways of tests listen, one after the other. A page of the console shares
// its renderer with pages of its own origin alone, port included (Cross-Origin-Opener-Policy), so
// that a tab which tests share needs one place for all of them.
var place struct {
	sync.Mutex
	addr  string // the first test chooses it
	taken bool
}

const anywhere = "127.0.0.1:0"

// atThePlace has the test's gateway listen there, unless that of another test or an earlier one of
// this test does.
func atThePlace(t testing.TB) func(*gateway.Options) {
	t.Helper()
	place.Lock()
	defer place.Unlock()
	if place.taken {
		return func(*gateway.Options) {}
	}
	l, err := net.Listen("tcp4", cmp.Or(place.addr, anywhere))
	if err != nil { // another program has it by now
		l, err = net.Listen("tcp4", anywhere)
	}
	must(t, err)
	must(t, l.Close())
	place.addr, place.taken = l.Addr().String(), true
	t.Cleanup(func() {
		place.Lock()
		defer place.Unlock()
		place.taken = false
	})
	addr := place.addr
	return func(o *gateway.Options) { o.HTTP = addr }
}

// tabs are those that tests left, each with a context that no other shares, by the host that they
// show. A renderer takes longer to start than many tests need; one serves one test after the other.
var tabs struct {
	sync.Mutex
	idle map[string][]tab
}

type tab struct{ target, context string }

// The hosts by which tests know a gateway: browsers keep passkeys for the second alone.
const (
	byNumber = "127.0.0.1"
	byName   = "localhost"
)

// openTab returns a tab that no other test has meanwhile: one that was left at that host, or a new
// one.
func (b *browser) openTab(host string) tab {
	b.t.Helper()
	tabs.Lock()
	if all := tabs.idle[host]; len(all) > 0 {
		last := len(all) - 1
		tabs.idle[host] = all[:last]
		tabs.Unlock()
		return all[last]
	}
	tabs.Unlock()
	var context struct {
		ID string `json:"browserContextId"`
	}
	b.ask("Target.createBrowserContext", object{"disposeOnDetach": true}, &context)
	var made struct {
		TargetID string `json:"targetId"`
	}
	b.ask("Target.createTarget", object{"url": "about:blank", "browserContextId": context.ID}, &made)
	return tab{made.TargetID, context.ID}
}

// closeTab leaves the tab to the next test, or ends it where the test failed or made more of it
// than a page's state.
func (b *browser) closeTab(of tab) {
	host := ""
	if !b.t.Failed() {
		host = b.clear(of)
	}
	session := b.session
	b.chrome.mu.Lock()
	delete(b.chrome.tabs, session)
	b.chrome.mu.Unlock()
	b.session = ""
	// The screen's size and colours, the security keys and the focus end with the session.
	if host == "" || b.try("Target.detachFromTarget", object{"sessionId": session}, nil) != nil {
		_ = b.try("Target.disposeBrowserContext", object{"browserContextId": of.context}, nil)
		return
	}
	tabs.Lock()
	defer tabs.Unlock()
	if tabs.idle == nil {
		tabs.idle = map[string][]tab{}
	}
	tabs.idle[host] = append(tabs.idle[host], of)
}

// clear has the tab show an empty page of the place, without what the test left in its context, and
// returns the page's host; "" where the tab is not to be used again.
func (b *browser) clear(of tab) string {
	place.Lock()
	addr := place.addr
	place.Unlock()
	var at, host string
	if b.run("location.host", &at) != nil {
		return ""
	}
	switch at {
	case addr:
		host = byNumber
	case strings.Replace(addr, byNumber, byName, 1):
		host = byName
	default:
		return ""
	}
	var all struct {
		TargetInfos []struct {
			Context string `json:"browserContextId"`
		} `json:"targetInfos"`
	}
	root := &browser{t: b.t, chrome: b.chrome}
	if root.try("Target.getTargets", object{"filter": []object{{"type": "tab", "exclude": true}, {}}}, &all) != nil {
		return ""
	}
	targets := 0
	for _, one := range all.TargetInfos {
		if one.Context == of.context {
			targets++
		}
	}
	b.mu.Lock()
	asked := strings.Contains(strings.Join(b.said, "\n"), "a dialog opened")
	b.mu.Unlock()
	if targets != 1 || asked { // its own page
		return ""
	}
	origin := "http://" + at
	for _, step := range []struct {
		method string
		params object
	}{
		{"Fetch.enable", object{"patterns": []object{{"urlPattern": "*", "resourceType": "Document"}}}},
		{"Page.navigate", object{"url": origin + afresh}},
		{"Runtime.evaluate", object{"expression": "sessionStorage.clear()"}},
		{"Storage.clearDataForOrigin", object{"origin": "http://" + addr, "storageTypes": "all"}},
		{"Storage.clearDataForOrigin", object{"origin": "http://" + strings.Replace(addr, byNumber, byName, 1), "storageTypes": "all"}},
		{"Network.clearBrowserCookies", object{}},
		{"Page.resetNavigationHistory", object{}},
		{"Input.dispatchMouseEvent", object{"type": "mouseMoved", "x": -1, "y": -1}},
	} {
		if b.try(step.method, step.params, nil) != nil {
			return ""
		}
	}
	if b.run("location.href", &at) != nil || at != origin+afresh || root.try("Browser.resetPermissions", object{"browserContextId": of.context}, nil) != nil {
		return ""
	}
	return host
}

// afresh is the path of the empty page, which no gateway serves: the gateway may have ended.
const afresh = "/afresh"

// answers the browser's request for the empty page in the gateway's place.
func (b *browser) answers(params json.RawMessage) {
	var e struct {
		ID string `json:"requestId"`
	}
	_ = json.Unmarshal(params, &e)
	_ = b.try("Fetch.fulfillRequest", object{
		"requestId": e.ID, "responseCode": 200, "body": base64.StdEncoding.EncodeToString([]byte("<!doctype html><title>-</title><link rel=icon href=data:,>")),
		"responseHeaders": []object{{"name": "Content-Type", "value": "text/html"}, {"name": "Cross-Origin-Opener-Policy", "value": "same-origin"}},
	}, nil)
}
