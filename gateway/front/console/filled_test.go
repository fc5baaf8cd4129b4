package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/net/html"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/passkey"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// hostile is what every string of every page is filled with: markup, what turns the
// characters behind it, and one that nobody sees.
const hostile = "x\u202e</p><script>pwned()</script>\" onload='y\u200b"

// specimens are all pages with what each shows, to be filled.
var specimens = map[string]any{
	"account": &accountPage{}, "approval": &approvalPage{}, "approvals": &approvalsPage{}, "home": &homePage{}, "call": &callPage{}, "calls": &callsPage{}, "drift": &driftShown{}, "edit": &editPage{}, "tools": &toolsPage{}, "tool": &toolShown{}, "governance": &governed{}, "report": &governed{}, "view": &governed{}, "grants": &grantsPage{},
	"back": nil, "leaving": &leaving{}, "ledger": &ledgerPage{}, "live": &livePage{}, "login": &signIn{}, "nocall": nil, "nodes": &nodesPage{}, "nothing": nil, "people": &peoplePage{}, "jobs": &jobsPage{}, "job": &jobPage{}, "turns": &turnsPage{}, "turn": &turnPage{}, "memory": &memoryPage{}, "policies": &policiesPage{},
	"policy": &policyPage{}, "problem": nil, "providers": &providersPage{}, "secrets": &secretsPage{}, "stop": &stopPage{}, "tokens": &tokensPage{},
	"authorize": &consentPage{}, "clientback": &leavingClient{}, "clients": &clientsPage{},
}

// Each page, from all that it can show to as little as it can, is made without an
// error; nothing in it breaks out of its place, and nothing that people read is hidden.
func TestFilledPagesAreText(t *testing.T) {
	for name, specimen := range specimens {
		for bits := range 8 {
			m := mode{values: bits&1 != 0, lists: bits&2 != 0, holds: bits&4 != 0}
			c, err := New(Options{API: offering(m.holds), Sessions: noSessions{}, Passkeys: noPasskeysKept{}, Version: "1.0"})
			if err != nil {
				t.Fatal(err)
			}
			role := principal.RoleViewer
			if m.holds {
				role = principal.RoleAdmin
			}
			v := &visit{r: httptest.NewRequest(http.MethodGet, "/console/x", nil), who: principal.Identity{Principal: hostile, Role: role}, csrf: "value", con: c, watched: "n1"}
			var data any
			if specimen != nil {
				fresh := reflect.New(reflect.TypeOf(specimen).Elem())
				fill(fresh.Elem(), v, m, 0)
				data = fresh.Interface()
			}
			pg := page{name: name, title: hostile, here: "/console/calls", live: "call", data: data}
			if m.values {
				pg.fault = &capabilities.Error{Code: capabilities.CodeConflict, Message: hostile, Hint: hostile}
				r := &remedy{}
				fill(reflect.ValueOf(r).Elem(), v, m, 0)
				pg.remedy = r
			}
			root := any(v.screen(pg))
			if name == "login" {
				root = data
			}
			made, err := c.render(name, root)
			if err != nil {
				t.Errorf("%s, %+v: %v", name, m, err)
				continue
			}
			doc, err := html.Parse(strings.NewReader(string(made)))
			if err != nil {
				t.Fatal(err)
			}
			inspect(t, name, doc)
		}
	}
}

// inspect looks at every element of a page.
func inspect(t *testing.T, page string, n *html.Node) {
	t.Helper()
	switch n.Type {
	case html.TextNode:
		lines := n.Parent != nil && slices.Contains([]string{"code", "textarea", "span", "ins", "del"}, n.Parent.Data)
		if strings.ContainsFunc(n.Data, func(r rune) bool { return !(lines && (r == '\n' || r == '\t')) && capabilities.Hidden(r) }) && n.Parent.Data != "textarea" && strings.TrimSpace(n.Data) != "" {
			t.Errorf("%s: <%s> hides something: %q", page, n.Parent.Data, n.Data)
		}
	case html.ElementNode:
		src := false
		for _, a := range n.Attr {
			src = src || a.Key == "src"
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || strings.ContainsAny(a.Key, "<>'\"") {
				t.Errorf("%s: <%s> has %s", page, n.Data, a.Key)
			}
			if slices.Contains(spoken, a.Key) && strings.ContainsFunc(a.Val, capabilities.Hidden) {
				t.Errorf("%s: %s of <%s> hides something: %q", page, a.Key, n.Data, a.Val)
			}
			if slices.Contains([]string{"href", "src", "action", "formaction"}, a.Key) && !ownAddress(a.Val) {
				t.Errorf("%s: <%s> leads to %q", page, n.Data, a.Val)
			}
		}
		if n.Data == "script" && (!src || n.FirstChild != nil) {
			t.Errorf("%s: there is a script in it", page)
		}
	}
	for c := range n.ChildNodes() {
		inspect(t, page, c)
	}
}

// mode says what a page has: values, items of lists, and whether what can hold does, with all
// that the visitor may do.
type mode struct{ values, lists, holds bool }

// fill fills a value: strings are hostile, lists have two items, and there is a visit behind
// everything.
func fill(x reflect.Value, v *visit, m mode, depth int) {
	switch x.Type() {
	case reflect.TypeFor[*visit]():
		reflect.NewAt(x.Type(), unsafe.Pointer(x.UnsafeAddr())).Elem().Set(reflect.ValueOf(v))
		return
	case reflect.TypeFor[*Console]():
		reflect.NewAt(x.Type(), unsafe.Pointer(x.UnsafeAddr())).Elem().Set(reflect.ValueOf(v.con))
		return
	}
	if !x.CanSet() && x.Kind() != reflect.Struct || depth > 8 {
		return
	}
	switch x.Kind() {
	case reflect.String:
		if m.values {
			x.SetString(hostile)
		}
	case reflect.Bool:
		x.SetBool(m.holds)
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Int8:
		if m.values {
			x.SetInt(2)
		}
	case reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint8:
		if m.values {
			x.SetUint(2)
		}
	case reflect.Float64:
		if m.values {
			x.SetFloat(2.5)
		}
	case reflect.Pointer:
		if m.values || x.Type() == reflect.TypeFor[*api.Packet]() { // there is always one
			x.Set(reflect.New(x.Type().Elem()))
			fill(x.Elem(), v, m, depth+1)
		}
	case reflect.Interface:
		if m.values && x.NumMethod() == 0 {
			x.Set(reflect.ValueOf(hostile))
		}
	case reflect.Slice:
		switch {
		case x.Type() == reflect.TypeFor[json.RawMessage]():
			x.SetBytes([]byte(`{"a":"b"}`))
		case m.lists || x.Type() == reflect.TypeFor[[]question](): // a task has one at least
			x.Set(reflect.MakeSlice(x.Type(), 2, 2))
			for i := range x.Len() {
				fill(x.Index(i), v, m, depth+1)
			}
		}
	case reflect.Map:
		if m.values {
			x.Set(reflect.MakeMap(x.Type()))
			key, value := reflect.New(x.Type().Key()).Elem(), reflect.New(x.Type().Elem()).Elem()
			fill(key, v, m, depth+1)
			fill(value, v, m, depth+1)
			x.SetMapIndex(key, value)
		}
	case reflect.Struct:
		if x.Type() == reflect.TypeFor[time.Time]() {
			if m.values && x.CanSet() {
				x.Set(reflect.ValueOf(time.Unix(1_700_000_000, 0)))
			}
			return
		}
		for i := range x.NumField() {
			fill(x.Field(i), v, m, depth+1)
		}
	}
}

// offering is a REST surface that has nothing and takes everything from the visitor, or
// nothing.
type offering bool

func (offering) Ask(*http.Request, string, string, any, any) error        { return errors.New("nothing here") }
func (offering) Pass(http.ResponseWriter, *http.Request, string)          {}
func (offering) Relay(http.ResponseWriter, *http.Request, string, string) {}
func (o offering) Offers(principal.Identity, string) bool                 { return bool(o) }

type noSessions struct{ Sessions }

func (noSessions) Get(string) (principal.Token, error) { return principal.Token{}, errors.New("none") }

type noPasskeysKept struct{}

func (noPasskeysKept) Some(passkey.Place) bool                      { return false }
func (noPasskeysKept) BeginSignIn(passkey.Place) passkey.GetOptions { return passkey.GetOptions{} }
func (noPasskeysKept) SignIn(context.Context, passkey.Place, []byte) (principal.Token, principal.Secret, error) {
	return principal.Token{}, principal.Secret{}, errors.New("none")
}
