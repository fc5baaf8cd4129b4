package products

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
	"github.com/handrail-dev/handrail/suite/libraries"
)

// product is one program and what an agent does with it. In arguments, {name} is its address.
type product struct {
	name, pkg  string // name begins the IDs; pkg is the package's
	server     server
	behaviours []*browser.Behaviour
}

type step = browser.Step

//go:embed pages/*.html
var pages embed.FS

// all are the products, by name.
func all() []*product { return []*product{decap(), nodeRED(), tiddlyWiki(), verdaccio()} }

// does writes one task down: what the agent does, what comes of it, its steps. The product's
// page is open when they begin.
func (p *product) does(id, title, proves string, steps ...any) {
	p.behaviours = append(p.behaviours, browser.B(p.name+"."+id, title, proves, steps...))
}

// Behaviours returns the tasks of every product, sorted by ID.
func Behaviours() []*browser.Behaviour {
	var list []*browser.Behaviour
	for _, p := range all() {
		list = append(list, p.behaviours...)
	}
	slices.SortFunc(list, func(a, b *browser.Behaviour) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// All describes every task, sorted by ID.
func All() []*suite.Behaviour {
	var list []*suite.Behaviour
	for _, b := range Behaviours() {
		list = append(list, &b.Behaviour)
	}
	return list
}

// Tried returns what the table is about: each product's package and its tasks.
func Tried() []libraries.Tried {
	var list []libraries.Tried
	for _, p := range all() {
		list = append(list, libraries.Tried{Package: p.pkg, Behaviours: p.behaviours})
	}
	return list
}

// page is a document that is served beside a product.
func page(name string) string {
	text, err := fs.ReadFile(pages, "pages/"+name)
	if err != nil {
		panic(err) // a name that is written here and not there
	}
	return string(text)
}

// patience bounds how long a product may take to keep what it was given.
const patience = 30 * time.Second

// answers asks a product's server, beside the browser, until its answer is as it should be:
// look says what is wrong with it. body is sent as JSON; without one, it is a GET.
func answers(url string, body any, look func(status int, text string) string) step {
	return browser.By(func(c browser.Case) {
		url, _ := c.Fill(url).(string)
		wrong := ""
		for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			status, text, err := ask(context.Background(), http.MethodGet, url, body)
			if err != nil {
				wrong = err.Error()
			} else if wrong = look(status, text); wrong == "" {
				return
			}
			if time.Now().After(deadline) {
				c.Fail("%s: %s", url, wrong)
			}
		}
	})
}

// holds wants an answer with the status 200 and all the words.
func holds(words ...string) func(int, string) string {
	return func(status int, text string) string {
		if status != http.StatusOK || !suite.HoldsAll(text, words) {
			return fmt.Sprintf("answered %d %.600s, want %q", status, text, words)
		}
		return ""
	}
}

// lacks wants an answer with the status 200 and without a text.
func lacks(text string) func(int, string) string {
	return func(status int, got string) string {
		if status != http.StatusOK || strings.Contains(got, text) {
			return fmt.Sprintf("answered %d %.600s, want it without %q", status, got, text)
		}
		return ""
	}
}

// gone wants an answer that there is none.
func gone(status int, text string) string {
	if status != http.StatusNotFound {
		return fmt.Sprintf("answered %d %.300s, want 404", status, text)
	}
	return ""
}

// ask sends one request. A body makes a GET a POST.
func ask(ctx context.Context, method, url string, body any) (status int, text string, err error) {
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return 0, "", err
		}
		sent = strings.NewReader(string(data))
		if method == http.MethodGet {
			method = http.MethodPost
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, sent)
	if err != nil {
		return 0, "", err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	// TiddlyWiki takes nothing without it, so that no form of another site can write.
	r.Header.Set("X-Requested-With", "TiddlyWiki")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	data, err := io.ReadAll(io.LimitReader(a.Body, 8<<20))
	return a.StatusCode, string(data), err
}

// The words in short.

func open(url string) step { return browser.Do("navigate", suite.With("url", url)) }

func click(words ...string) step { return browser.Do("click", suite.With("ref", browser.At(words))) }

func filled(value string, words ...string) step {
	return browser.Do("fill-form", suite.With("ref", browser.At(words), "value", value))
}

func filledOn(value, selector string) step {
	return browser.Do("fill-form", suite.With("selector", selector, "value", value))
}

func typed(text string, words ...string) step {
	return browser.Do("type", suite.With("ref", browser.At(words), "text", text))
}

// typedHere types where the focus is.
func typedHere(text string) step { return browser.Do("type", suite.With("text", text)) }

func chosen(value string, words ...string) step {
	return browser.Do("select-option", suite.With("ref", browser.At(words), "values", []any{value}))
}

func key(k string) step { return browser.Do("press-key", suite.With("key", k)) }

// comes waits, as an agent would, until a text is shown.
func comes(text string) step {
	return browser.By(func(c browser.Case) { awaited(c, suite.With("text", text)) })
}

// awaited waits until all that is given holds.
func awaited(c browser.Case, args suite.Args) {
	args["timeout_ms"] = patience.Milliseconds()
	if made := must(c, "wait-for", args); made.Result["matched"] != true {
		c.Fail("never came about: %s", suite.Brief(args))
	}
}

// must makes a call that has to succeed.
func must(c browser.Case, tool string, args suite.Args) *suite.Call {
	made := c.Call(tool, args)
	if made.Code != "" {
		c.Fail("%s %s: %s", tool, suite.Brief(made.Args), made.End())
	}
	return made
}

// shows wants a line in the outline.
func shows(words ...string) step { return browser.Line(words...) }
