package fs

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// A patch is the form that coding agents write:
//
//	*** Begin Patch
//	*** Add File: a.txt
//	+a line
//	*** Update File: b.txt
//	*** Move to: c.txt
//	@@ a line of context, or nothing
//	 context
//	-old
//	+new
//	*** Delete File: d.txt
//	*** End Patch

// change is what a patch does to one file.
type change struct {
	what, path, to string // add, update or delete; to: where an updated file moves
	text           string // of a new file
	hunks          []hunk
}

type hunk struct {
	at       string // a line before it; "" for anywhere
	old, new []string
}

const maxChanges = 200

func parsePatch(text string) ([]change, error) {
	bad := func(n int, why string) error {
		return capabilities.Errorf(capabilities.CodeInvalidArguments, "patch, line %d: %s", n+1, why)
	}
	all := strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	if len(all) < 2 || all[0] != "*** Begin Patch" || all[len(all)-1] != "*** End Patch" {
		return nil, bad(0, `a patch begins with "*** Begin Patch" and ends with "*** End Patch"`)
	}
	var list []change
	for n := 1; n < len(all)-1; n++ {
		line := all[n]
		header := false
		for prefix, what := range map[string]string{"*** Add File: ": "add", "*** Update File: ": "update", "*** Delete File: ": "delete"} {
			if path, ok := strings.CutPrefix(line, prefix); ok {
				list = append(list, change{what: what, path: path})
				header = true
			}
		}
		if header {
			if len(list) > maxChanges {
				return nil, bad(n, fmt.Sprintf("a patch changes at most %d files", maxChanges))
			}
			continue
		}
		if len(list) == 0 {
			return nil, bad(n, `a file's header is missing, such as "*** Update File: a.txt"`)
		}
		c := &list[len(list)-1]
		if err := c.take(line); err != nil {
			return nil, bad(n, err.Error())
		}
	}
	for i := range list {
		if list[i].what == "update" && len(list[i].hunks) == 0 && list[i].to == "" {
			return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "patch: nothing is changed in %.200q", list[i].path)
		}
	}
	return list, nil
}

// take adds one line of a patch to the change that it belongs to.
func (c *change) take(line string) error {
	sign, rest := byte(0), ""
	if line != "" {
		sign, rest = line[0], line[1:]
	}
	switch {
	case c.what == "add" && sign == '+':
		c.text += rest + "\n"
		return nil
	case c.what != "update":
		return fmt.Errorf("a line that does not belong to the file %.200q", c.path)
	case strings.HasPrefix(line, "*** Move to: ") && c.to == "" && len(c.hunks) == 0:
		c.to = strings.TrimPrefix(line, "*** Move to: ")
		return nil
	case line == "*** End of File":
		return nil
	case strings.HasPrefix(line, "@@"):
		c.hunks = append(c.hunks, hunk{at: strings.TrimSpace(strings.TrimPrefix(line, "@@"))})
		return nil
	}
	if len(c.hunks) == 0 {
		c.hunks = append(c.hunks, hunk{})
	}
	h := &c.hunks[len(c.hunks)-1]
	switch {
	case line == "" || sign == ' ':
		h.old, h.new = append(h.old, rest), append(h.new, rest)
	case sign == '-':
		h.old = append(h.old, rest)
	case sign == '+':
		h.new = append(h.new, rest)
	default:
		return fmt.Errorf(`a line begins with " ", "+", "-" or "@@"`)
	}
	return nil
}

// apply returns the text after the hunks, each found after the one before.
func apply(path, text string, hunks []hunk) (string, error) {
	lines := strings.Split(text, "\n")
	from := 0
	for _, h := range hunks {
		if h.at != "" {
			i := slices.IndexFunc(lines[from:], func(l string) bool { return strings.TrimSpace(l) == h.at })
			if i < 0 {
				return "", capabilities.Errorf(capabilities.CodeInvalidArguments, "patch: %.200q has no line %.200q where it is looked for", path, h.at)
			}
			from += i + 1
		}
		at := find(lines, h.old, from)
		if at < 0 {
			return "", capabilities.Errorf(capabilities.CodeInvalidArguments, "patch: the lines of a hunk do not stand in %.200q", path).
				WithHint("Read the file again and give its lines as they are.").
				WithDetails(map[string]any{"path": path, "lines": h.old[:min(len(h.old), 5)]})
		}
		lines = slices.Concat(lines[:at], h.new, lines[at+len(h.old):])
		from = at + len(h.new)
	}
	return strings.Join(lines, "\n"), nil
}

func find(lines, want []string, from int) int {
	for i := from; i+len(want) <= len(lines); i++ {
		if slices.Equal(lines[i:i+len(want)], want) {
			return i
		}
	}
	return -1
}

// applyPatch changes several files. All changes are worked out before the first is made, so a
// patch that does not fit changes nothing.
func (h *Handler) applyPatch(_ context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var args struct {
		Patch string `json:"patch"`
	}
	if err := arguments(inv, &args); err != nil {
		return capabilities.Output{}, err
	}
	list, err := parsePatch(args.Patch)
	if err != nil {
		return capabilities.Output{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	modes := make([]os.FileMode, len(list))
	for i := range list {
		if modes[i], err = h.prepare(&list[i]); err != nil {
			return capabilities.Output{}, err
		}
	}
	applied := []string{}
	for i, c := range list {
		if err := h.make(&c, modes[i]); err != nil {
			e := capabilities.AsError(err)
			return capabilities.Output{Effect: capabilities.EffectPartial}, e.WithDetails(map[string]any{"applied": applied})
		}
		applied = append(applied, c.what+" "+c.path)
		inv.Observe("data.write.workspace", c.path)
	}
	return capabilities.Output{
		Effect: capabilities.EffectConfirmed, Evidence: "the files were written and put in place", Result: map[string]any{"applied": applied},
	}, nil
}

// prepare works out what a change makes of its file.
func (h *Handler) prepare(c *change) (os.FileMode, error) {
	rel, err := h.local(c.path)
	if err != nil {
		return 0, err
	}
	_, gone := h.root.Lstat(rel)
	if c.what == "add" {
		if gone == nil {
			return 0, capabilities.Errorf(capabilities.CodeConflict, "patch: %.200q is there already", c.path)
		}
		return 0o644, nil
	}
	text, mode, err := h.text(c.path)
	if err != nil || c.what == "delete" {
		return mode, err
	}
	if c.to != "" {
		to, err := h.local(c.to)
		if err != nil {
			return 0, err
		}
		if _, err := h.root.Lstat(to); err == nil {
			return 0, capabilities.Errorf(capabilities.CodeConflict, "patch: %.200q is there already", c.to)
		}
	}
	c.text, err = apply(c.path, text, c.hunks)
	return mode, err
}

func (h *Handler) make(c *change, mode os.FileMode) error {
	rel, err := h.local(c.path)
	if err != nil {
		return err
	}
	switch {
	case c.what == "delete":
		if err := h.root.Remove(rel); err != nil {
			return failed(c.path, err)
		}
		return nil
	case c.to != "":
		if err := h.put(c.to, c.text, mode); err != nil {
			return err
		}
		if err := h.root.Remove(rel); err != nil {
			return failed(c.path, err)
		}
		return nil
	}
	return h.put(c.path, c.text, mode)
}
