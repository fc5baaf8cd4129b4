package skill

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/canonical/yaml"
)

// Bounds of a skill.
const (
	Main           = "SKILL.md"
	MaxMain        = 64 << 10 // bytes of SKILL.md
	MaxFile        = 256 << 10
	maxFiles       = 100
	maxDepth       = 4
	maxSkill       = 2 << 20 // bytes of all its files
	maxDescription = 1024
)

// Skill is one skill. It never changes.
type Skill struct {
	Name        string
	Description string
	Front       json.RawMessage // the head of SKILL.md, as canonical JSON
	Body        string          // of SKILL.md, behind the head
	Files       []File          // SKILL.md first, then by path
	BuiltIn     bool
}

// File is a text of a skill.
type File struct {
	Path string // below the skill's folder, with slashes
	Text string // as it is given out
}

// Digest is "sha256:" and the hex digest of the text.
func (f *File) Digest() string {
	sum := sha256.Sum256([]byte(f.Text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// File finds a file by its path, exactly: nothing is resolved.
func (s *Skill) File(name string) (*File, bool) {
	for i := range s.Files {
		if s.Files[i].Path == name {
			return &s.Files[i], true
		}
	}
	return nil, false
}

var nameFormat = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// readSkill reads the skill in a folder of its name. left are files that are no text, which it
// does without.
func readSkill(fsys fs.FS, name string) (s *Skill, left []string, err error) {
	if len(name) > 64 || !nameFormat.MatchString(name) {
		return nil, nil, errors.New("a skill's name has at most 64 of a-z, 0-9 and single dashes")
	}
	s = &Skill{Name: name}
	total := 0
	var files []File
	err = fs.WalkDir(fsys, name, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return errors.New("it cannot be read")
		}
		below := strings.TrimPrefix(strings.TrimPrefix(at, name), "/")
		switch {
		case at != name && strings.HasPrefix(path.Base(at), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir() && strings.Count(below, "/") >= maxDepth:
			return fmt.Errorf("its folders are nested deeper than %d", maxDepth)
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is a link or no file", capabilities.Escape(below))
		case len(files) >= maxFiles:
			return fmt.Errorf("it has more than %d files", maxFiles)
		case capabilities.Printable(below) != below || len(below) > 256:
			return errors.New("a file's name has characters that nobody sees, or is too long")
		}
		most := MaxFile
		if below == Main {
			most = MaxMain
		}
		text, err := readText(fsys, at, most)
		if errors.Is(err, errNoText) && below != Main {
			left = append(left, below)
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", below, err)
		}
		if total += len(text); total > maxSkill {
			return fmt.Errorf("it has more than %d bytes", maxSkill)
		}
		files = append(files, File{below, text})
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		if f.Path == Main {
			s.Files = append([]File{f}, s.Files...)
		} else {
			s.Files = append(s.Files, f)
		}
	}
	if len(s.Files) == 0 || s.Files[0].Path != Main {
		return nil, nil, errors.New("it has no " + Main)
	}
	return s, left, s.readMain()
}

var errNoText = errors.New("it is no text in UTF-8")

// readText reads a file of at most most bytes, and returns what is given out of it: every line
// ends with a line feed alone, and a character that nobody sees is written out.
func readText(fsys fs.FS, at string, most int) (string, error) {
	f, err := fsys.Open(at)
	if err != nil {
		return "", errors.New("it cannot be opened")
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.New("it is no file")
	} else if info.Size() > int64(most) {
		return "", fmt.Errorf("it has more than %d bytes", most)
	}
	data := make([]byte, most+1)
	n := 0
	for n < len(data) {
		m, err := f.Read(data[n:])
		if n += m; err != nil || m == 0 {
			break
		}
	}
	if n > most {
		return "", fmt.Errorf("it has more than %d bytes", most)
	}
	data = data[:n]
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return "", errNoText
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	return capabilities.EscapeBut(text, map[rune]string{'\n': "\n", '\t': "\t"}), nil
}

// readMain reads the head of SKILL.md: a name that is the folder's, and a description.
func (s *Skill) readMain() error {
	rest, ok := strings.CutPrefix(s.Files[0].Text, "---\n")
	head, body, found := strings.Cut(rest, "\n---\n")
	if !found {
		head, found = strings.CutSuffix(rest, "\n---")
	}
	if !ok || !found {
		return errors.New(Main + " begins with a head between two lines of three dashes")
	}
	front, err := yaml.JSON([]byte(head + "\n"))
	if err != nil {
		return errors.New(capabilities.AsError(err).PublicMessage())
	}
	v, err := canonical.Decode(front, canonical.Limits{})
	if err != nil {
		return errors.New(capabilities.AsError(err).PublicMessage())
	}
	name, _ := v.Get("name")
	description, _ := v.Get("description")
	about := strings.Join(strings.Fields(capabilities.Printable(description.Str)), " ")
	switch {
	case name.Str != s.Name:
		return fmt.Errorf("its name in %s is not that of its folder", Main)
	case about == "" || len(about) > maxDescription:
		return fmt.Errorf("its description has 1 to %d characters", maxDescription)
	}
	s.Description, s.Front, s.Body = about, front, strings.TrimLeft(body, "\n")
	return nil
}
