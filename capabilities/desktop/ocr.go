package desktop

import (
	"context"
	"errors"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
)

// see finds text in the pixels: of the bounds that are given, or of all displays.
func (h *call) see(ctx context.Context, o *selector.OCR) ([]platform.SeenText, error) {
	d, err := h.desktop(ctx)
	if err != nil {
		return nil, err
	}
	layout, err := h.layout(ctx, d)
	if err != nil {
		return nil, err
	}
	if h.o.Reader == nil {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "This node has nothing that reads text in pictures.").
			WithHint("Use a selector by role and name, or a screenshot.")
	}
	area := layout.Whole()
	if o.Bounds != nil {
		if area = area.Intersect(*o.Bounds); area.Empty() {
			return nil, &capabilities.Error{Code: capabilities.CodeOutsideDesktop}
		}
	}
	h.observe(keyScreen, "")
	frame, err := d.Screen.Frame(ctx, area, false)
	if err != nil {
		return nil, err
	}
	words, err := h.o.Reader.Read(ctx, frame)
	frame.Release()
	var lacks *platform.MissingError
	if errors.As(err, &lacks) {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "%s", lacks.What).WithHint(lacks.Fix)
	}
	if err != nil {
		return nil, err
	}
	own, err := h.ownAreas(ctx, d)
	if err != nil {
		return nil, err
	}
	return phrase(words, o.Text, o.Fold, own), nil
}

// ownAreas returns where this program's own windows are.
func (h *call) ownAreas(ctx context.Context, d *platform.Desktop) ([]platform.Rect, error) {
	windows, err := h.list(ctx, d)
	var own []platform.Rect
	for _, w := range windows {
		if w.Own && !w.Minimized {
			own = append(own, w.Bounds)
		}
	}
	return own, err
}

// phrase finds a text in the words of lines. It may begin and end within a word.
func phrase(words []platform.SeenText, text string, fold bool, own []platform.Rect) []platform.SeenText {
	plain := selector.Simple
	if fold {
		plain = selector.Folded
	}
	want := plain(text)
	count := len(strings.Fields(want))
	var found []platform.SeenText
	for i := range words {
		if count == 0 || i+count > len(words) || words[i+count-1].Line != words[i].Line {
			continue
		}
		run := words[i : i+count]
		parts := make([]string, count)
		for k, w := range run {
			parts[k] = plain(w.Text)
		}
		if !strings.Contains(strings.Join(parts, " "), want) {
			continue
		}
		hit := run[0]
		texts := []string{hit.Text}
		for _, w := range run[1:] {
			hit.Bounds, hit.Confidence = hit.Bounds.Union(w.Bounds), min(hit.Confidence, w.Confidence)
			texts = append(texts, w.Text)
		}
		hit.Text = strings.Join(texts, " ")
		if !covered(hit.Bounds, own) {
			found = append(found, hit)
		}
	}
	return found
}

func covered(r platform.Rect, by []platform.Rect) bool {
	for _, b := range by {
		if !b.Intersect(r).Empty() {
			return true
		}
	}
	return false
}

// querySeen answers a query for text in the pixels.
func (h *call) querySeen(ctx context.Context, o *selector.OCR, limit int, result *queryResult) error {
	found, err := h.see(ctx, o)
	if err != nil {
		return err
	}
	result.Total = len(found)
	for _, f := range found[:min(len(found), limit)] {
		bounds := rectOf(f.Bounds)
		result.Matches = append(result.Matches,
			match{Kind: "ocr", Text: capabilities.Clip(f.Text, 512), Bounds: &bounds, Confidence: f.Confidence})
	}
	return nil
}

// holdsSeen looks whether text is seen.
func (w *waiter) holdsSeen(ctx context.Context) (bool, error) {
	found, err := w.h.see(ctx, w.sel.OCR)
	if err != nil {
		return false, err
	}
	return (len(found) > 0) == (w.state == "exists" || w.state == "visible"), nil
}
