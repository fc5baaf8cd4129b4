package skill

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
)

//go:embed pack
var pack embed.FS

const (
	maxSkills = 100
	maxShelf  = 16 << 20 // bytes of all skills
)

// Shelf is the skills that there are. It never changes and is safe for concurrent use.
type Shelf struct {
	all []*Skill // by name
	// Refused says which folders are no skill, and why; which files were left out.
	Refused []string
}

// Open reads the skills that are compiled in, and those of the folder dir; "": none. A folder in
// it that is no skill is refused by name, and the rest is taken. No skill takes the name of
// another.
func Open(dir string) (*Shelf, error) {
	own, err := fs.Sub(pack, "pack")
	if err != nil {
		return nil, err
	}
	s := &Shelf{}
	if err := s.take(own, true); err != nil {
		return nil, err
	}
	if dir == "" {
		return s, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the folder of skills cannot be opened: %v", err)
	}
	defer root.Close()
	return s, s.take(root.FS(), false)
}

func (s *Shelf) take(fsys fs.FS, builtIn bool) error {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "the folder of skills cannot be read")
	}
	total := 0
	for _, e := range entries {
		if e.Name()[0] == '.' || e.Type().IsRegular() { // a README beside them, say
			continue
		}
		one, left, err := (*Skill)(nil), []string(nil), error(nil)
		switch _, taken := s.Get(e.Name()); {
		case !e.IsDir():
			err = errors.New("it is a link")
		case taken:
			err = errors.New("there is a skill of that name already")
		case len(s.all) >= maxSkills:
			err = fmt.Errorf("there are %d skills already", maxSkills)
		default:
			one, left, err = readSkill(fsys, e.Name())
		}
		if err == nil {
			for _, f := range one.Files {
				total += len(f.Text)
			}
			if total > maxShelf {
				err = fmt.Errorf("all skills together have more than %d bytes", maxShelf)
			}
		}
		if err != nil {
			s.Refused = append(s.Refused, capabilities.Escape(capabilities.Clip(e.Name(), 64))+": "+capabilities.Escape(err.Error()))
			continue
		}
		for _, name := range left {
			s.Refused = append(s.Refused, one.Name+"/"+name+": it is no text and is left out")
		}
		one.BuiltIn = builtIn
		s.all = append(s.all, one)
	}
	slices.SortFunc(s.all, func(a, b *Skill) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// List returns the skills by name. The slice is the caller's.
func (s *Shelf) List() []*Skill { return slices.Clone(s.all) }

// Get finds a skill by its name.
func (s *Shelf) Get(name string) (*Skill, bool) {
	for _, one := range s.all {
		if one.Name == name {
			return one, true
		}
	}
	return nil, false
}
