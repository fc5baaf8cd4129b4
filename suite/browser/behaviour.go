package browser

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/suite"
)

// behaviour is one thing a browser must do.
type behaviour struct {
	suite.Behaviour
	pages map[string]string
	steps []step
	needs need
}

// need is what a behaviour needs beyond a browser. Without it, it is not run and
// the report says so.
type need string

// needsUploads marks what needs a folder whose files the node may upload.
const needsUploads need = "a folder that the node's owner allows uploads from, named to the suite"

// all returns every behaviour, sorted by ID.
func all() []*behaviour {
	list := slices.Concat(navigation(), snapshots(), clicks(), typing(), forms(), keys(), pointer(), frames(), shadow(),
		dialogs(), downloads(), uploads(), console(), network(), waiting(), emulation(), tabs(), isolation(), egress(),
		evaluation(), code(), screenshots(), failures(), storage())
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

// page is a document of a behaviour, by its path below the behaviour's own
// address on both origins. The one without a path is open when the steps begin.
// In it, {A} and {B} are the behaviour's addresses on the two origins.
type page struct{ path, html string }

// html is the page that is open when the steps begin.
func html(body string) page { return page{"", body} }

// Pages too long to be read between the steps have files of their own.
//
//go:embed pages/*.html
var pages embed.FS

// file is the page of that name below pages, open when the steps begin.
func file(name string) page {
	text, err := fs.ReadFile(pages, "pages/"+name)
	if err != nil {
		panic(err) // a name that is written here and not there
	}
	return html(strings.TrimSuffix(string(text), "\n"))
}

// b writes one behaviour down. Its parts are pages and steps in any order; a
// step that is written out on the spot is a plain function.
func b(id, title, proves string, parts ...any) *behaviour {
	b := &behaviour{Behaviour: suite.Behaviour{ID: id, Title: title, Proves: proves}, pages: map[string]string{}}
	for _, p := range parts {
		switch p := p.(type) {
		case page:
			b.pages[p.path] = p.html
		case need:
			b.needs = p
		case step:
			b.steps = append(b.steps, p)
		case func(*run):
			b.steps = append(b.steps, p)
		default:
			panic(fmt.Sprintf("suite: %s has a part of type %T", id, p))
		}
	}
	return b
}
