package darwin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/ebitengine/purego/objc"
)

// Clipboard is the general pasteboard. It implements platform.Clipboard.
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
func (c *Clipboard) Write(_ context.Context, text string, concealed bool, clearAfter time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clear != nil {
		c.clear.Stop()
		c.clear = nil
	}
	done := false
	c.a.pooled(func() {
		b := board()
		if concealed {
			// Not to the person's other devices either.
			b.Send(objc.RegisterName("prepareForNewContentsWithOptions:"), uintptr(hostOnly))
		} else {
			b.Send(objc.RegisterName("clearContents"))
		}
		set := func(s, kind string) bool {
			value := c.a.text(s)
			defer c.a.drop(value)
			return objc.Send[bool](b, objc.RegisterName("setString:forType:"), uintptr(value), uintptr(c.a.word(kind)))
		}
		if concealed {
			for _, kind := range concealing {
				set("", kind)
			}
		}
		done = set(text, plainText)
		c.count = objc.Send[int](b, objc.RegisterName("changeCount"))
	})
	if !done {
		return fmt.Errorf("darwin: the pasteboard did not take the text")
	}
	c.ours, c.digest = true, sha256.Sum256([]byte(text))
	if clearAfter > 0 {
		var due *time.Timer
		due = time.AfterFunc(clearAfter, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.clear == due {
				c.clearNow()
			}
		})
		c.clear = due
	}
	return nil
}

// Read returns the text on the pasteboard.
func (c *Clipboard) Read(context.Context) (text string, err error) {
	c.a.pooled(func() { text = c.held() })
	return text, nil
}

// held returns the text there; within a pool.
func (c *Clipboard) held() string {
	s := board().Send(objc.RegisterName("stringForType:"), uintptr(c.a.word(plainText)))
	return c.a.read(ref(s), maxUnits)
}

// Clear empties the pasteboard if it holds what Write put there.
func (c *Clipboard) Clear(context.Context) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clearNow(), nil
}

// clearNow is Clear with c.mu held.
func (c *Clipboard) clearNow() (cleared bool) {
	if !c.ours {
		return false
	}
	c.a.pooled(func() {
		b := board()
		if objc.Send[int](b, objc.RegisterName("changeCount")) != c.count && sha256.Sum256([]byte(c.held())) != c.digest {
			return // somebody else's
		}
		b.Send(objc.RegisterName("clearContents"))
		cleared = true
	})
	c.ours = false
	return cleared
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
