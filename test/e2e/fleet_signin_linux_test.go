package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/test/desk"
)

// TestSignInsAtOnce: a person signs in to the console at one gateway, and is signed in at the next
// with the next request, as behind a balancer. Signing out at a third ends that everywhere.
func TestSignInsAtOnce(t *testing.T) {
	f := startsAtOnce(t, "one", "two", "three")
	var at []string
	for _, name := range f.names {
		var place struct {
			HTTP string `json:"http"`
		}
		text, err := os.ReadFile(filepath.Join(f.home, name, "gateway", "gateway.json"))
		must(t, err)
		must(t, json.Unmarshal(text, &place))
		if !strings.HasPrefix(place.HTTP, "http") {
			place.HTTP = "http://" + place.HTTP
		}
		at = append(at, place.HTTP)
	}
	token, err := os.ReadFile(filepath.Join(f.home, "one/gateway/admin.token"))
	must(t, err)
	inside := func(tabs *http.Client, i int) bool {
		t.Helper()
		resp, err := tabs.Get(at[i] + "/console/account")
		must(t, err)
		readAll(t, resp)
		return resp.StatusCode == http.StatusOK && resp.Request.URL.Path == "/console/account"
	}
	var tabs *http.Client
	s := &signer{person: f.all[0]}
	for round := range 6 {
		from := round % len(at)
		jar, err := cookiejar.New(nil)
		must(t, err)
		tabs = &http.Client{Jar: jar}
		var made struct {
			Code string `json:"code"`
		}
		newCaller(t, at[from], strings.TrimSpace(string(token))).ok(http.MethodPost, "/v1/logins", `{"role":"admin"}`, &made)
		if page, status := s.form(tabs, at[from]+"/console/login", url.Values{"code": {made.Code}}); status != http.StatusOK {
			t.Fatalf("signing in at %s: %d %s", f.names[from], status, page)
		}
		for i := range at {
			if next := (from + 1 + i) % len(at); !inside(tabs, next) {
				t.Errorf("who signed in at %s is not signed in at %s", f.names[from], f.names[next])
			}
		}
	}
	stranger, err := cookiejar.New(nil)
	must(t, err)
	if inside(&http.Client{Jar: stranger}, 1) {
		t.Error("a stranger is signed in")
	}
	keep, err := url.Parse(at[0] + "/console/")
	must(t, err)
	kept := tabs.Jar.Cookies(keep) // of a browser that does not forget them
	resp, err := tabs.Get(at[2] + "/console/account")
	must(t, err)
	given := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(string(readAll(t, resp)))
	if len(given) != 2 || len(kept) == 0 {
		t.Fatalf("a page without a form, or no cookie: %v %v", given, kept)
	}
	if page, status := s.form(tabs, at[2]+"/console/logout", url.Values{"csrf": {given[1]}}); status != http.StatusOK {
		t.Fatalf("signing out: %d %s", status, page)
	}
	tabs.Jar.SetCookies(keep, kept)
	for i := range at {
		desk.Await(t, "the session to be over at "+f.names[i], func() bool { return !inside(tabs, i) })
	}
}
