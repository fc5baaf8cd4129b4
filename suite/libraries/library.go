package libraries

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
)

// library is one npm package and what an agent does with it.
type library struct {
	name, pkg  string // name begins the IDs; pkg is the package's
	page       string // the document, of the name below pages
	behaviours []*browser.Behaviour
}

type step = browser.Step

// Each library has a page, which is open when a behaviour begins.
//
//go:embed pages/*.html
var pages embed.FS

// lib writes a library down. Its page has its name.
func lib(name, pkg string, behaviours ...func(l *library)) *library {
	text, err := fs.ReadFile(pages, "pages/"+name+".html")
	if err != nil {
		panic(err) // a name that is written here and not there
	}
	l := &library{name: name, pkg: pkg, page: string(text)}
	for _, b := range behaviours {
		b(l)
	}
	return l
}

// does writes one behaviour of a library down: what the agent does, what comes of it, its steps.
func does(id, title, proves string, parts ...any) func(l *library) {
	return func(l *library) {
		parts := append([]any{browser.HTML(l.page), ready}, parts...)
		l.behaviours = append(l.behaviours, browser.B(l.name+"."+id, title, proves, parts...))
	}
}

// ready waits until the page says that its library is up.
var ready = browser.Becomes(`!!window.ready`, true)

// all are the libraries, by name.
func all() []*library {
	list := slices.Concat(choices(), dates(), masks(), editors(), components(), data(), lists(), overlays(), pictures(), routes(),
		react(), uploads(), products())
	slices.SortFunc(list, func(a, b *library) int { return strings.Compare(a.name, b.name) })
	return list
}

// Behaviours returns those of every library, sorted by ID.
func Behaviours() []*browser.Behaviour {
	var list []*browser.Behaviour
	for _, l := range all() {
		list = append(list, l.behaviours...)
	}
	slices.SortFunc(list, func(a, b *browser.Behaviour) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// AllTried returns what the table is about: each library's package and its behaviours.
func AllTried() []Tried {
	var list []Tried
	for _, l := range all() {
		list = append(list, Tried{l.pkg, l.behaviours})
	}
	return list
}

// All describes every behaviour, sorted by ID.
func All() []*suite.Behaviour {
	var list []*suite.Behaviour
	for _, b := range Behaviours() {
		list = append(list, &b.Behaviour)
	}
	return list
}

// version reads which version of a package lies in a folder.
func version(folder, pkg string) (string, error) {
	data, err := os.ReadFile(filepath.Join(folder, "node_modules", filepath.FromSlash(pkg), "package.json"))
	if err != nil {
		return "", err
	}
	var about struct{ Version string }
	if err := json.Unmarshal(data, &about); err != nil || about.Version == "" {
		return "", fmt.Errorf("%s says no version: %w", pkg, err)
	}
	return about.Version, nil
}

// The words in short.

func click(words ...string) step { return browser.Do("click", suite.With("ref", browser.At(words))) }

func clickOn(selector string) step { return browser.Do("click", suite.With("selector", selector)) }

func typed(text string, words ...string) step {
	return browser.Do("type", suite.With("ref", browser.At(words), "text", text))
}

func typedOn(text, selector string) step {
	return browser.Do("type", suite.With("selector", selector, "text", text))
}

func filled(value string, words ...string) step {
	return browser.Do("fill-form", suite.With("ref", browser.At(words), "value", value))
}

func filledOn(value, selector string) step {
	return browser.Do("fill-form", suite.With("selector", selector, "value", value))
}

// chosen chooses options of a list by its line in the outline.
func chosen(words []string, values ...any) step {
	return browser.Do("select-option", suite.With("ref", browser.At(words), "values", values))
}

func chosenOn(selector string, values ...any) step {
	return browser.Do("select-option", suite.With("selector", selector, "values", values))
}

func key(k string) step { return browser.Do("press-key", suite.With("key", k)) }

func hover(words ...string) step { return browser.Do("hover", suite.With("ref", browser.At(words))) }

func draggedOn(source, target string) step {
	return browser.Do("drag", suite.With("source_selector", source, "target_selector", target))
}

// is wants a value of the page, soon: most libraries put their effects off.
func is(expression string, want any) step { return browser.Within(8*time.Second, expression, want) }

// shows wants a line in the outline once the page has settled.
func shows(words ...string) step { return browser.Line(words...) }

// typedHere types where the focus is.
func typedHere(text string) step { return browser.Do("type", suite.With("text", text)) }
