package fake

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/platform"
)

type clipboard struct{ d *Desktop }

type clip struct {
	text       string
	ours       bool
	concealed  bool
	clearAfter time.Duration
}

var _ platform.Clipboard = (*clipboard)(nil)

// Write puts text there. Nothing clears it but Clear and Elapse.
func (c *clipboard) Write(ctx context.Context, text string, concealed bool, clearAfter time.Duration) error {
	if err := c.d.begin(ctx, "clipboard.write"); err != nil {
		return err
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return errors.New("fake: the text for the clipboard is not text")
	}
	c.d.mu.Lock()
	c.d.clip = clip{text, true, concealed, clearAfter}
	c.d.mu.Unlock()
	c.d.tell(Event{Op: "clipboard.write", Text: text})
	return nil
}

// Read returns the text there.
func (c *clipboard) Read(ctx context.Context) (string, error) {
	if err := c.d.begin(ctx, "clipboard.read"); err != nil {
		return "", err
	}
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	return c.d.clip.text, nil
}

// Clear empties it if it is still ours.
func (c *clipboard) Clear(ctx context.Context) (bool, error) {
	if err := c.d.begin(ctx, "clipboard.clear"); err != nil {
		return false, err
	}
	c.d.mu.Lock()
	ours := c.d.clip.ours
	if ours {
		c.d.clip = clip{}
	}
	c.d.mu.Unlock()
	c.d.tell(Event{Op: "clipboard.clear"})
	return ours, nil
}

// Copy is the person copying text in an application.
func (d *Desktop) Copy(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clip = clip{text: text}
}

// Copied returns the clipboard's text with how it was written there.
func (d *Desktop) Copied() (text string, ours, concealed bool, clearAfter time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clip.text, d.clip.ours, d.clip.concealed, d.clip.clearAfter
}

// Elapse is the time passing after which the clipboard was to be cleared.
func (d *Desktop) Elapse() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.clip.ours && d.clip.clearAfter > 0 {
		d.clip = clip{}
	}
}
