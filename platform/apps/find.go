package apps

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/platform"
)

// Find returns the command of an application, and the folder that it asks to be
// started in ("" for none). An error is a *platform.MissingError.
func Find(app string, args []string, getenv func(string) string) (argv []string, dir string, err error) {
	unknown := &platform.MissingError{What: fmt.Sprintf("No application here is called %q.", app),
		Fix: "Use its name in the menus, the name of its program, or the path of either's file."}
	if app == "" || strings.ContainsRune(app, 0) || slices.ContainsFunc(args, func(a string) bool { return strings.ContainsRune(a, 0) }) {
		return nil, "", unknown
	}
	if strings.ContainsRune(app, '/') {
		if strings.HasSuffix(app, ".desktop") {
			e, err := readEntry(app)
			if err != nil {
				return nil, "", unknown
			}
			return e.command(args, getenv)
		}
		if program, err := exec.LookPath(app); err == nil && filepath.IsAbs(program) {
			return append([]string{program}, args...), "", nil
		}
		return nil, "", unknown
	}
	entries := readEntries(getenv)
	for _, fits := range []func(*entry) bool{
		func(e *entry) bool { return e.id == app || e.id == app+".desktop" },
		func(e *entry) bool { return slices.Contains(e.names, app) },
		func(e *entry) bool {
			return slices.ContainsFunc(append(e.names, strings.TrimSuffix(e.id, ".desktop")),
				func(n string) bool { return strings.EqualFold(n, app) })
		},
	} {
		for _, e := range entries {
			if fits(e) && e.installed() {
				return e.command(args, getenv)
			}
		}
	}
	if program, err := exec.LookPath(app); err == nil {
		return append([]string{program}, args...), "", nil
	}
	if near := nearest(entries, app); len(near) > 0 {
		unknown.Fix = "There are " + strings.Join(near, ", ") + "."
	}
	return nil, "", unknown
}

// entry is a desktop file (Desktop Entry Specification 1.5).
type entry struct {
	id, file         string
	names            []string // in every language
	exec, try, dir   string
	icon             string
	terminal, hidden bool
	noDisplay, isApp bool
}

const maxEntry = 1 << 20

func readEntry(file string) (*entry, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxEntry {
		return nil, errors.New("x11: not a desktop file")
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	e := parseEntry(raw)
	e.file = file
	if !e.isApp || e.exec == "" {
		return nil, errors.New("x11: not an application")
	}
	return e, nil
}

func parseEntry(raw []byte) *entry {
	e := &entry{}
	inside := false
	for line := range bytes.Lines(raw) {
		line := strings.TrimSpace(string(line))
		if strings.HasPrefix(line, "[") {
			inside = line == "[Desktop Entry]"
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !inside || !ok || strings.HasPrefix(line, "#") {
			continue
		}
		key, value = strings.TrimSpace(key), unescape(strings.TrimSpace(value))
		switch name, _, _ := strings.Cut(key, "["); {
		case name == "Name" && value != "":
			e.names = append(e.names, value)
		case key == "Exec":
			e.exec = value
		case key == "TryExec":
			e.try = value
		case key == "Path":
			e.dir = value
		case key == "Icon":
			e.icon = value
		case key == "Type":
			e.isApp = value == "Application"
		case key == "Terminal":
			e.terminal = value == "true"
		case key == "Hidden":
			e.hidden = value == "true"
		case key == "NoDisplay":
			e.noDisplay = value == "true"
		}
	}
	return e
}

// unescape undoes what every value of type string has: \s \n \t \r \\.
func unescape(s string) string {
	if !strings.ContainsRune(s, '\\') {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 's':
			b.WriteByte(' ')
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case '\\':
			b.WriteByte('\\')
		default: // belongs to the quoting of Exec
			b.WriteByte('\\')
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// readEntries reads all of them: the user's hide the system's of the same ID, and
// those shown in menus come first.
func readEntries(getenv func(string) string) []*entry {
	home := getenv("XDG_DATA_HOME")
	if home == "" && getenv("HOME") != "" {
		home = filepath.Join(getenv("HOME"), ".local", "share")
	}
	dirs := getenv("XDG_DATA_DIRS")
	if dirs == "" {
		dirs = "/usr/local/share:/usr/share"
	}
	seen := map[string]bool{}
	var all []*entry
	for _, data := range append([]string{home}, filepath.SplitList(dirs)...) {
		if !filepath.IsAbs(data) {
			continue
		}
		root := filepath.Join(data, "applications")
		_ = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".desktop") || len(seen) > 10000 {
				return nil
			}
			rel, _ := filepath.Rel(root, file)
			id := strings.ReplaceAll(rel, string(filepath.Separator), "-")
			if seen[id] {
				return nil
			}
			seen[id] = true
			if e, err := readEntry(file); err == nil && !e.hidden {
				e.id = id
				all = append(all, e)
			}
			return nil
		})
	}
	slices.SortStableFunc(all, func(a, b *entry) int {
		switch {
		case a.noDisplay == b.noDisplay:
			return 0
		case b.noDisplay:
			return -1
		}
		return 1
	})
	return all
}

// installed reports whether the program is there.
func (e *entry) installed() bool {
	for _, program := range []string{e.try, first(splitExec(e.exec))} {
		if program == "" {
			continue
		}
		if _, err := exec.LookPath(program); err != nil {
			return false
		}
	}
	return true
}

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

// splitExec splits an Exec value into arguments: separated by spaces, quoted as a
// whole by ", within which \ stands before " ` $ \.
func splitExec(s string) []string {
	var args []string
	var b strings.Builder
	some, quoted := false, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\' && i+1 < len(s) && strings.IndexByte("\"`$\\", s[i+1]) >= 0:
			i++
			b.WriteByte(s[i])
		case c == '"':
			quoted, some = !quoted, true
		case (c == ' ' || c == '\t' || c == '\n') && !quoted:
			if some {
				args = append(args, b.String())
			}
			some = false
			b.Reset()
		default:
			some = true
			b.WriteByte(c)
		}
	}
	if some {
		args = append(args, b.String())
	}
	return args
}

// command fills in the field codes of Exec.
func (e *entry) command(args []string, getenv func(string) string) (argv []string, dir string, err error) {
	took := len(args) == 0
	for _, a := range splitExec(e.exec) {
		switch {
		case a == "%f", a == "%u", a == "%F", a == "%U": // one file or many: the caller knows
			argv, took = append(argv, args...), true
		case a == "%i":
			if e.icon != "" {
				argv = append(argv, "--icon", e.icon)
			}
		default:
			took = took || len(args) == 1 && (strings.Contains(a, "%f") || strings.Contains(a, "%u"))
			argv = append(argv, e.fill(a, first(args)))
		}
	}
	if !took {
		argv = append(argv, args...)
	}
	if len(argv) == 0 {
		return nil, "", &platform.MissingError{What: fmt.Sprintf("%s names no program.", e.file), Fix: "Repair its Exec line."}
	}
	program, lookErr := exec.LookPath(argv[0])
	if lookErr != nil {
		return nil, "", &platform.MissingError{What: fmt.Sprintf("%s starts %s, which is not installed.", e.file, argv[0]), Fix: "Install it."}
	}
	argv[0] = program
	if e.terminal {
		terminal, err := findTerminal(getenv)
		if err != nil {
			return nil, "", err
		}
		argv = append([]string{terminal, "-e"}, argv...)
	}
	if filepath.IsAbs(e.dir) {
		dir = e.dir
	}
	return argv, dir, nil
}

// fill replaces the codes inside an argument.
func (e *entry) fill(a, file string) string {
	var b strings.Builder
	for i := 0; i < len(a); i++ {
		if a[i] != '%' || i+1 == len(a) {
			b.WriteByte(a[i])
			continue
		}
		i++
		switch a[i] {
		case '%':
			b.WriteByte('%')
		case 'c':
			b.WriteString(first(e.names))
		case 'k':
			b.WriteString(e.file)
		case 'f', 'u':
			b.WriteString(file)
		}
	}
	return b.String()
}

func findTerminal(getenv func(string) string) (string, error) {
	for _, t := range []string{getenv("TERMINAL"), "x-terminal-emulator", "xterm"} {
		if t == "" {
			continue
		}
		if program, err := exec.LookPath(t); err == nil {
			return program, nil
		}
	}
	return "", &platform.MissingError{What: "The application runs in a terminal, and there is none.", Fix: "Install one, such as xterm."}
}

// nearest returns up to five names that hold what was asked for.
func nearest(entries []*entry, app string) []string {
	var near []string
	for _, e := range entries {
		name := first(e.names)
		if !e.noDisplay && len(near) < 5 && !slices.Contains(near, name) &&
			strings.Contains(strings.ToLower(name+" "+e.id), strings.ToLower(app)) {
			near = append(near, name)
		}
	}
	return near
}
