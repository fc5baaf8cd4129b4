package fs

import (
	"context"
	"io"
	iofs "io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/folder"
)

// Bounds of what is read at once.
const (
	maxChars   = 200_000
	maxEntries = 2000
)

// read returns a file's text, or lines of it.
func (h *Handler) read(_ context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var args struct {
		Path   string `json:"path"`
		Offset int    `json:"offset"`
		Limit  int    `json:"limit"`
	}
	if err := arguments(inv, &args); err != nil {
		return capabilities.Output{}, err
	}
	text, _, err := h.text(args.Path)
	if err != nil {
		return capabilities.Output{}, err
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "%.200q is no text", args.Path)
	}
	rel, _ := h.local(args.Path)
	chosen := lines(text, args.Offset, args.Limit)
	content := chosen
	if utf8.RuneCountInString(content) > maxChars {
		content = string([]rune(content)[:maxChars])
	}
	inv.Observe("data.read.workspace", shown(rel))
	return capabilities.Output{Effect: capabilities.EffectConfirmed, Result: map[string]any{
		"content": content, "path": shown(rel), "raw_chars": utf8.RuneCountInString(text),
		"selected_chars": utf8.RuneCountInString(content), "truncated": len(content) < len(chosen),
	}}, nil
}

// lines returns at most limit lines from the one with index offset on; 0: all.
func lines(text string, offset, limit int) string {
	for range offset {
		_, rest, ok := strings.Cut(text, "\n")
		if !ok {
			return ""
		}
		text = rest
	}
	if limit <= 0 {
		return text
	}
	end := 0
	for range limit {
		i := strings.IndexByte(text[end:], '\n')
		if i < 0 {
			return text
		}
		end += i + 1
	}
	return text[:end]
}

// list returns what is in a folder, sorted by name.
func (h *Handler) list(_ context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var args struct {
		Path string `json:"path"`
	}
	if err := arguments(inv, &args); err != nil {
		return capabilities.Output{}, err
	}
	if args.Path == "" {
		args.Path = "."
	}
	rel, err := h.local(args.Path)
	if err != nil {
		return capabilities.Output{}, err
	}
	f, _, err := folder.Open(h.root, rel, os.O_RDONLY)
	if err != nil {
		return capabilities.Output{}, failed(args.Path, err)
	}
	defer f.Close()
	found, err := f.ReadDir(maxEntries + 1)
	if err != nil && err != io.EOF {
		return capabilities.Output{}, failed(args.Path, err)
	}
	entries := make([]map[string]any, 0, len(found))
	for _, e := range found[:min(len(found), maxEntries)] {
		one := map[string]any{"name": strings.ToValidUTF8(e.Name(), "\uFFFD"), "type": kindOf(e.Type())}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			one["size"] = info.Size()
		}
		entries = append(entries, one)
	}
	sortBy(entries, "name")
	inv.Observe("data.read.workspace", shown(rel))
	return capabilities.Output{Effect: capabilities.EffectConfirmed, Result: map[string]any{
		"path": shown(rel), "entries": entries, "truncated": len(found) > maxEntries,
	}}, nil
}

func kindOf(m iofs.FileMode) string {
	switch {
	case m.IsDir():
		return "folder"
	case m.IsRegular():
		return "file"
	case m&iofs.ModeSymlink != 0:
		return "link"
	}
	return "other"
}
