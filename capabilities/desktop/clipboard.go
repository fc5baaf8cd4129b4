package desktop

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// clearAfter is when a written text goes, if the call does not say.
const clearAfter = time.Minute

// clipboardWrite carries out tyrum.desktop.clipboard-write, by which secrets are
// delivered: the text is in nothing that this gives back.
func (h *Handler) clipboardWrite(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	args := struct {
		Text         string `json:"text"`
		Concealed    bool   `json:"concealed"`
		ClearAfterMS int64  `json:"clear_after_ms"`
	}{Concealed: true, ClearAfterMS: clearAfter.Milliseconds()}
	if err := decode(inv, &args); err != nil {
		return capabilities.Output{}, err
	}
	d, err := h.desktop(ctx)
	if err != nil {
		return capabilities.Output{}, err
	}
	if d.Clipboard == nil {
		return capabilities.Output{}, missing(d, platform.PartClipboard)
	}
	observe(ctx, keyClipboard, "")
	if err := d.Clipboard.Write(ctx, args.Text, args.Concealed, time.Duration(args.ClearAfterMS)*time.Millisecond); err != nil {
		return capabilities.Output{}, err
	}
	got, err := d.Clipboard.Read(ctx)
	if err != nil {
		return capabilities.Output{}, err
	}
	if got != args.Text {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeExecutionFailed, "Another program took the clipboard at once.").
			WithHint("Find out which one, such as a clipboard manager, and try again.")
	}
	return capabilities.Output{
		Result: map[string]string{"status": "ok"},
		Effect: capabilities.EffectConfirmed, Evidence: "the clipboard was read back",
	}, nil
}
