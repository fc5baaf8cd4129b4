package desktop

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

const (
	// clearAfter is when a written text goes, if the call does not say.
	clearAfter = time.Minute
	// lookAgain is how often a clipboard that should be empty is looked at.
	lookAgain = time.Second
	// clearTime bounds one look, and clearing when the node ends.
	clearTime = 5 * time.Second
)

// clipboardWrite carries out tyrum.desktop.clipboard-write, by which secrets are
// delivered: the text is in nothing that this returns.
func (h *call) clipboardWrite(ctx context.Context) (capabilities.Output, error) {
	cleared := h.inv.Cleared
	if cleared == nil {
		cleared = func() {}
	}
	args := struct {
		Text         string `json:"text"`
		Concealed    bool   `json:"concealed"`
		ClearAfterMS int64  `json:"clear_after_ms"`
	}{Concealed: true, ClearAfterMS: clearAfter.Milliseconds()}
	if err := h.decode(&args); err != nil {
		cleared()
		return capabilities.Output{}, err
	}
	if !h.inv.Secret.IsZero() {
		args.Text = string(h.inv.Secret.Reveal())
	}
	d, err := h.desktop(ctx)
	if err == nil && d.Clipboard == nil {
		err = missing(d, platform.PartClipboard)
	}
	if err != nil {
		cleared()
		return capabilities.Output{}, err
	}
	h.observe(keyClipboard, "")
	after := time.Duration(args.ClearAfterMS) * time.Millisecond
	began := time.Now()
	err = d.Clipboard.Write(ctx, args.Text, args.Concealed, after)
	// From here on it may be there, whatever the error says.
	if !h.inv.Secret.IsZero() {
		due := time.Now()
		if err == nil {
			due = due.Add(after)
		}
		read := make(chan struct{})
		defer close(read)
		h.watchCleared(d, args.Text, due, read, cleared)
	}
	if err != nil {
		return capabilities.Output{}, err
	}
	got, err := d.Clipboard.Read(ctx)
	if err != nil {
		return capabilities.Output{}, err
	}
	if got == "" && after > 0 && time.Since(began) >= after {
		return capabilities.Output{
			Result: map[string]string{"status": "ok"},
			Effect: capabilities.EffectUnverifiable, Evidence: "it was to be cleared before it could be read back",
		}, nil
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

// watchCleared says cleared once the clipboard was seen without text, when it is due
// and the call has read it back. Until it is, it is cleared again and again; when the
// node ends, at once.
func (h *Handler) watchCleared(d *platform.Desktop, text string, due time.Time, read <-chan struct{}, cleared func()) {
	h.mu.Lock()
	if h.life.Err() != nil {
		h.mu.Unlock()
		return
	}
	h.wg.Add(1)
	h.mu.Unlock()
	go func() {
		defer h.wg.Done()
		over := h.o.After(time.Until(due))
		for {
			select {
			case <-h.life.Done():
			case <-over:
				select {
				case <-h.life.Done():
				case <-read:
				}
			}
			if h.life.Err() != nil {
				ctx, cancel := context.WithTimeout(context.Background(), clearTime)
				defer cancel()
				_, _ = d.Clipboard.Clear(ctx) // the connection may be gone, and the text with it
				return
			}
			if h.emptied(text) {
				cleared()
				return
			}
			over = time.After(lookAgain)
		}
	}()
}

// emptied reports whether the clipboard is there and does not hold text; what this
// program wrote is cleared if it does.
func (h *Handler) emptied(text string) bool {
	ctx, cancel := context.WithTimeout(h.life, clearTime)
	defer cancel()
	d, err := h.o.Opener.Open(ctx) // another one, if the display server ended meanwhile
	if err != nil || d.Clipboard == nil {
		return false
	}
	got, err := d.Clipboard.Read(ctx)
	if err != nil || got != text {
		return err == nil
	}
	if _, err := d.Clipboard.Clear(ctx); err != nil {
		return false
	}
	got, err = d.Clipboard.Read(ctx)
	return err == nil && got != text
}
