package darwin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/ebitengine/purego/objc"
	"golang.design/x/clipboard"
)

// Clipboard is the general pasteboard. It implements platform.Clipboard. Texts are read
// and put there by golang.design/x/clipboard, but for concealed ones: it cannot keep what
// it writes on this Mac.
type Clipboard struct {
	a *api

	mu     sync.Mutex // above what follows
	ours   bool       // something was written and not cleared since
	count  int        // of the pasteboard's changes after our last write
	digest [32]byte   // of what was written
	clear  *time.Timer
}

// NewClipboard returns a Clipboard. Close stops what it meant to clear later.
func NewClipboard() (*Clipboard, error) {
	a, err := load()
	if err != nil {
		return nil, err
	}
	return &Clipboard{a: a}, nil
}

const (
	plainText = "public.utf8-plain-text" // NSPasteboardTypeString
	hostOnly  = 1                        // NSPasteboardContentsCurrentHostOnly
	maxUnits  = 4 << 20                  // of another program's text that are read
)

// concealing are the types by which clipboard managers know what to leave alone.
var concealing = []string{"org.nspasteboard.ConcealedType", "org.nspasteboard.TransientType"}

func board() objc.ID {
	return objc.ID(objc.GetClass("NSPasteboard")).Send(objc.RegisterName("generalPasteboard"))
}

// Write puts text on the pasteboard.
func (c *Clipboard) Write(ctx context.Context, text string, concealed bool, clearAfter time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return errors.New("darwin: the text for the clipboard is not text")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clear != nil {
		c.clear.Stop()
		c.clear = nil
	}
	if concealed {
		if !c.conceal(text) {
			return errors.New("darwin: the pasteboard did not take the text")
		}
	} else if _, err := clipboard.Write(ctx, clipboard.FmtText, []byte(text)); err != nil {
		return fmt.Errorf("darwin: writing the pasteboard: %w", err)
	}
	c.a.pooled(func() { c.count = objc.Send[int](board(), objc.RegisterName("changeCount")) })
	c.ours, c.digest = true, sha256.Sum256([]byte(text))
	if clearAfter > 0 {
		var due *time.Timer
		due = time.AfterFunc(clearAfter, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.clear == due {
				_, _ = c.clearNow(context.Background()) // a pasteboard that cannot be read has no text
			}
		})
		c.clear = due
	}
	return nil
}

// conceal puts text there with the hints, for this Mac alone: the person's other devices
// get what is on the pasteboard otherwise. It tells whether the text was taken.
func (c *Clipboard) conceal(text string) (taken bool) {
	c.a.pooled(func() {
		b := board()
		b.Send(objc.RegisterName("prepareForNewContentsWithOptions:"), uintptr(hostOnly))
		set := func(s, kind string) bool {
			value := c.a.text(s)
			defer c.a.drop(value)
			return objc.Send[bool](b, objc.RegisterName("setString:forType:"), uintptr(value), uintptr(c.a.word(kind)))
		}
		for _, kind := range concealing {
			set("", kind)
		}
		taken = set(text, plainText)
	})
	return taken
}

// Read returns the text on the pasteboard.
func (c *Clipboard) Read(ctx context.Context) (string, error) {
	b, err := clipboard.Read(ctx, clipboard.FmtText)
	if errors.Is(err, clipboard.ErrNoData) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("darwin: reading the pasteboard: %w", err)
	}
	return strings.ToValidUTF8(string(b[:min(len(b), maxUnits)]), "\uFFFD"), nil
}

// Clear empties the pasteboard if it holds what Write put there.
func (c *Clipboard) Clear(ctx context.Context) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clearNow(ctx)
}

// clearNow is Clear with c.mu held.
func (c *Clipboard) clearNow(ctx context.Context) (cleared bool, err error) {
	if !c.ours {
		return false, nil
	}
	var count int
	c.a.pooled(func() { count = objc.Send[int](board(), objc.RegisterName("changeCount")) })
	if count != c.count {
		text, err := c.Read(ctx)
		if err != nil {
			return false, err
		}
		if sha256.Sum256([]byte(text)) != c.digest { // somebody else's
			c.ours = false
			return false, nil
		}
	}
	c.a.pooled(func() { board().Send(objc.RegisterName("clearContents")) })
	c.ours = false
	return true, nil
}

// Close stops a clearing that is due later.
func (c *Clipboard) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clear != nil {
		c.clear.Stop()
		c.clear = nil
	}
}
