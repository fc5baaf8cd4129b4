package desktop

import (
	"embed"
	"io/fs"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/suite"
)

// behaviour is one thing a desktop must do.
type behaviour struct {
	suite.Behaviour
	page  string // HTML of the window that talks back; "" for none
	needs []need
	steps []step
}

// need is what a behaviour needs beyond a desktop with a Chrome. Without it, it is
// not run, and the report says so.
type need string

const (
	needsPerson   need = "a person who moves the mouse when asked (--person)"
	needsLayout   need = "displays that the suite may rearrange"
	needsDisplays need = "two displays"
	needsFreeze   need = "a system on which a program can be frozen"
	needsGTK      need = "an editor written in GTK (mousepad, xed, pluma, gedit)"
	needsQt       need = "an editor written in Qt (featherpad, kwrite, kate)"
	needsTerminal need = "xterm (under Wayland: foot)"
	needsOCR      need = "tesseract on the node"
)

// all returns every behaviour, sorted by ID.
func all() []*behaviour {
	list := slices.Concat(screenshots(), frames(), snapshots(), queries(), acts(), mice(), keyboards(), clipboards(), waiting(), windows(),
		people(), hung(), displays(), refusals())
	slices.SortFunc(list, func(a, b *behaviour) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// All describes every behaviour, sorted by ID.
func All() []*suite.Behaviour {
	var list []*suite.Behaviour
	for _, b := range all() {
		list = append(list, &b.Behaviour)
	}
	return list
}

// html is the page of a behaviour, shown when the steps begin.
type html string

// Pages too long to be read between the steps have files of their own; head.html is
// what every page begins with.
//
//go:embed pages/*.html
var pages embed.FS

// file is the page of that name below pages.
func file(name string) html {
	text, err := fs.ReadFile(pages, "pages/"+name)
	if err != nil {
		panic(err) // a name that is written here and not there
	}
	return html(strings.TrimSuffix(string(text), "\n"))
}

// b writes one behaviour down. Its parts are a page, needs and steps.
func b(id, title, proves string, parts ...any) *behaviour {
	b := &behaviour{Behaviour: suite.Behaviour{ID: id, Title: title, Proves: proves}}
	for _, p := range parts {
		switch p := p.(type) {
		case html:
			b.page = string(p)
		case need:
			b.needs = append(b.needs, p)
		case step:
			b.steps = append(b.steps, p)
		case func(*run):
			b.steps = append(b.steps, p)
		}
	}
	return b
}
