package skill

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

//go:embed pack
var pack embed.FS

const (
	maxSkills = 100
	maxShelf  = 16 << 20 // bytes of all skills
	maxBroken = 100      // that are told of
	maxLooked = 12000    // entries of the folder that Look looks at
	// settles is how old the last change of the folder has to be for its time to tell it from the
	// next one: clocks of file systems go in steps.
	settles = 100 * time.Millisecond
)

// Shelf is the skills that there are. It is safe for concurrent use.
type Shelf struct {
	dir string // absolute; empty: only what is compiled in
	own []*Skill
	log *slog.Logger
	now atomic.Pointer[state]

	mu   sync.Mutex // for a look at the folder
	seen string     // what the folder looked like when it was read; empty: read it again
}

// state is what was read at one time. It never changes.
type state struct {
	version uint64
	all     []*Skill // by name
	broken  []api.BrokenSkill
	over    chan struct{} // closed when another state is there
}

// Open reads the skills that are compiled in, and those of the folder dir; "": none. A folder in
// it that is no skill is refused by name, and the rest is taken. No skill takes the name of
// another.
func Open(dir string, log *slog.Logger) (*Shelf, error) {
	own, err := fs.Sub(pack, "pack")
	if err != nil {
		return nil, err
	}
	first := &state{over: make(chan struct{})}
	if err := first.take(own, true); err != nil {
		return nil, err
	}
	s := &Shelf{own: first.all, log: log}
	s.now.Store(first)
	if dir == "" {
		return s, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the folder of skills cannot be opened: %v", err).
			WithHint("Make it, or name another one.")
	}
	_ = root.Close()
	if s.dir, err = filepath.Abs(dir); err != nil {
		return nil, capabilities.AsError(err)
	}
	s.Look()
	return s, nil
}

// Look reads the folder again if it does not look as it did, by names, sizes and times; it returns
// the version of what is there then, which grows with every change. A folder that cannot be read
// any more has no skills.
func (s *Shelf) Look() (version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.now.Load()
	if s.dir == "" {
		return was.version
	}
	next := &state{version: was.version + 1, all: slices.Clone(s.own), over: make(chan struct{})}
	looks, keep := "unreadable", true
	root, err := os.OpenRoot(s.dir)
	if err == nil {
		defer root.Close()
		if looks, keep = looksLike(root.FS()); looks == s.seen {
			return was.version
		}
		err = next.take(root.FS(), false)
	}
	if err != nil {
		if looks = "unreadable"; looks == s.seen {
			return was.version
		}
		next.all = slices.Clone(s.own)
		next.broken = []api.BrokenSkill{{Name: ".", Why: "the folder of skills cannot be read any more"}}
	}
	if s.seen = looks; !keep {
		s.seen = ""
	}
	for i, one := range next.all { // what stayed is the same value
		if old, ok := was.get(one.Name); ok && old.BuiltIn == one.BuiltIn && slices.Equal(old.Files, one.Files) {
			next.all[i] = old
		}
	}
	if slices.Equal(next.all, was.all) && slices.Equal(next.broken, was.broken) {
		return was.version
	}
	s.now.Store(next)
	close(was.over)
	for _, b := range next.broken {
		if !slices.Contains(was.broken, b) {
			s.log.Warn("skill.refused", "skill", b.Name, "why", b.Why)
		}
	}
	s.log.Info("skills.read", "skills", len(next.all), "broken", len(next.broken))
	return next.version
}

// looksLike tells a folder from how it looked before, without reading its files. keep is false
// while a change may still come that looks like the last one.
func looksLike(fsys fs.FS) (looks string, keep bool) {
	sum, n := sha256.New(), 0
	var newest time.Time
	_ = fs.WalkDir(fsys, ".", func(at string, d fs.DirEntry, err error) error {
		if n++; n > maxLooked {
			return fs.SkipAll
		}
		if err != nil || d == nil {
			fmt.Fprintf(sum, "%q unreadable\n", at)
			return nil
		}
		if strings.HasPrefix(path.Base(at), ".") && at != "." {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			fmt.Fprintf(sum, "%q gone\n", at)
			return nil
		}
		fmt.Fprintf(sum, "%q %v %d %d\n", at, info.Mode(), info.Size(), info.ModTime().UnixNano())
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
		return nil
	})
	age := time.Since(newest)
	return string(sum.Sum(nil)), age < 0 || age > settles
}

func (s *state) take(fsys fs.FS, builtIn bool) error {
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
		switch _, taken := s.get(e.Name()); {
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
			s.refuse(e.Name(), err.Error())
			continue
		}
		for _, name := range left {
			s.refuse(one.Name+"/"+name, "it is no text and is left out")
		}
		one.BuiltIn = builtIn
		s.all = append(s.all, one)
	}
	slices.SortFunc(s.all, func(a, b *Skill) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

func (s *state) refuse(name, why string) {
	if len(s.broken) < maxBroken {
		s.broken = append(s.broken, api.BrokenSkill{
			Name: capabilities.Clip(capabilities.Escape(name), 128), Why: capabilities.Clip(capabilities.Escape(why), 300),
		})
	}
}

// get finds a skill by its name.
func (s *state) get(name string) (*Skill, bool) {
	for _, one := range s.all {
		if one.Name == name {
			return one, true
		}
	}
	return nil, false
}

// List returns the skills by name as they were read last, with the version of that. The slice is
// the caller's.
func (s *Shelf) List() ([]*Skill, uint64) {
	now := s.now.Load()
	return slices.Clone(now.all), now.version
}

// Broken returns what was not taken, and why. The slice is the caller's.
func (s *Shelf) Broken() []api.BrokenSkill { return slices.Clone(s.now.Load().broken) }

// Get finds a skill by its name, as it was read last.
func (s *Shelf) Get(name string) (*Skill, bool) { return s.now.Load().get(name) }

// Follows reports whether there is a folder that may change.
func (s *Shelf) Follows() bool { return s.dir != "" }

// Changed is closed when Look finds a change.
func (s *Shelf) Changed() <-chan struct{} { return s.now.Load().over }
