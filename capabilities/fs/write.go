package fs

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

func sortBy(list []map[string]any, key string) {
	slices.SortFunc(list, func(a, b map[string]any) int {
		x, _ := a[key].(string)
		y, _ := b[key].(string)
		return cmp.Compare(x, y)
	})
}

// write writes a file, in place of one that was there.
func (h *Handler) write(_ context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var args struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	if err := arguments(inv, &args); err != nil {
		return capabilities.Output{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.put(args.Path, args.Content, 0o644); err != nil {
		return capabilities.Output{}, err
	}
	rel, _ := h.local(args.Path)
	inv.Observe("data.write.workspace", shown(rel))
	return capabilities.Output{Effect: capabilities.EffectConfirmed, Evidence: "the file was written and put in place",
		Result: map[string]any{"path": shown(rel), "bytes_written": len(args.Content)}}, nil
}

// edit replaces a text in a file that stands there once, or everywhere if it is told so.
func (h *Handler) edit(_ context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var args struct {
		Path string `json:"path"`
		Old  string `json:"old_string"`
		New  string `json:"new_string"`
		All  bool   `json:"replace_all"`
	}
	if err := arguments(inv, &args); err != nil {
		return capabilities.Output{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	text, mode, err := h.text(args.Path)
	if err != nil {
		return capabilities.Output{}, err
	}
	n := strings.Count(text, args.Old)
	switch {
	case n == 0:
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "old_string does not stand in the file").
			WithHint("Read the file again and give the text as it is, with its spaces.")
	case n > 1 && !args.All:
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "old_string stands in the file %d times", n).
			WithHint("Give more of the text around it, or replace_all.")
	}
	if err := h.put(args.Path, strings.ReplaceAll(text, args.Old, args.New), mode); err != nil {
		return capabilities.Output{}, err
	}
	rel, _ := h.local(args.Path)
	inv.Observe("data.write.workspace", shown(rel))
	return capabilities.Output{Effect: capabilities.EffectConfirmed, Evidence: "the file was written and put in place",
		Result: map[string]any{"path": shown(rel), "replacements": n}}, nil
}
