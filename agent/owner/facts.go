package owner

import (
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities/address"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/folder"
)

// factsOf finds out what Cedar cannot. roots are the folders that relative paths
// are taken below. Arguments that cannot be read are refused by the engine itself.
func (f *File) factsOf(d *catalog.Descriptor, args []byte, now time.Time, roots []string) facts {
	var x facts
	for i := range f.QuietHours {
		if f.QuietHours[i].active(now) {
			x.quiet |= 1 << i
		}
	}
	if f.Apps.empty() && f.Folders.empty() || len(args) == 0 || d == nil {
		return x
	}
	for _, r := range d.Reaches(args) {
		switch r.Kind {
		case catalog.ReachApp:
			if name, ok := cleanApp(r.Text); ok {
				x.app = stricter(x.app, f.Apps.mode(func(entry string) bool { return entry == name }))
			}
		case catalog.ReachPath:
			x.folder = stricter(x.folder, f.folder(r.Text, roots))
		case catalog.ReachAddress:
			if path, ok := address.File(r.Text, runtime.GOOS); ok {
				x.folder = stricter(x.folder, f.folder(filepath.FromSlash(path), roots))
			}
		}
	}
	// One key for what changes nothing.
	if x.app == ModeAllow {
		x.app = ""
	}
	if x.folder == ModeAllow {
		x.folder = ""
	}
	return x
}

func (l *Limits) empty() bool { return len(l.Only)+len(l.Ask)+len(l.Never) == 0 }

// mode is the strictest that the lists say of what is covers.
func (l *Limits) mode(is func(entry string) bool) Mode {
	switch {
	case slices.ContainsFunc(l.Never, is), len(l.Only) > 0 && !slices.ContainsFunc(l.Only, is):
		return ModeNever
	case slices.ContainsFunc(l.Ask, is):
		return ModeAsk
	}
	return ModeAllow
}

// folder is what the file says of one path, wherever it may lead: below each root
// if it is relative, and behind links as they are now, also where it is not there yet.
// Never is never as soon as one of these places is; so is "not in only".
func (f *File) folder(path string, roots []string) Mode {
	if f.Folders.empty() {
		return ModeAllow
	}
	var places []string
	switch {
	case path == "": // an address of a file that leads nowhere here
	case filepath.IsAbs(path):
		places = append(places, filepath.Clean(path))
	default:
		for _, root := range roots {
			places = append(places, filepath.Join(root, path))
		}
	}
	m := ModeAllow
	if len(places) == 0 { // nowhere that is known
		m = f.Folders.mode(func(string) bool { return false })
	}
	for _, place := range places {
		m = stricter(m, f.Folders.mode(func(entry string) bool { return within(entry, place) }))
		m = stricter(m, f.Folders.mode(func(entry string) bool { return folder.Holds(entry, place) }))
	}
	return m
}

// whole is the strictest that the file says of anything in a folder.
func (f *File) whole(dir string) Mode {
	meets := func(entry string) bool { return folder.Meet(entry, dir) }
	switch l := &f.Folders; {
	case slices.ContainsFunc(l.Never, meets),
		len(l.Only) > 0 && !slices.ContainsFunc(l.Only, func(entry string) bool { return folder.Holds(entry, dir) }):
		return ModeNever
	case slices.ContainsFunc(l.Ask, meets):
		return ModeAsk
	}
	return ModeAllow
}

func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

func stringArg(args []byte, name string) (string, bool) {
	root, err := canonical.Decode(args, canonical.Limits{})
	if err != nil {
		return "", false
	}
	v, ok := root.Get(name)
	return v.Str, ok && v.Kind == canonical.String
}
