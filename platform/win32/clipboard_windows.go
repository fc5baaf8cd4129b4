package win32

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
	"unsafe"

	"golang.design/x/clipboard"
	"golang.org/x/sys/windows"
)

// Clipboard is the session's clipboard. It implements platform.Clipboard. Texts are put
// there by golang.design/x/clipboard. Ours is the reading: the library's goes on to the
// first zero, past the end of the memory where there is none. Ours is the clearing, too,
// since nobody may write between the look at what is there and its end.
type Clipboard struct {
	mu     sync.Mutex
	ours   bool     // something was written and not cleared since
	digest [32]byte // of what was written
	clear  *time.Timer
}

// NewClipboard returns a Clipboard. Close stops what it meant to clear later.
func NewClipboard() *Clipboard { return &Clipboard{} }

const (
	unicodeText = 13
	maxRead     = 4 << 20 // bytes of another program's text that are read
)

// The formats that keep a text out of histories, of other machines' clipboards
// and of programs that watch.
var concealing = []struct {
	name  string
	value uint32
}{{"ExcludeClipboardContentFromMonitorProcessing", 1}, {"CanIncludeInClipboardHistory", 0}, {"CanUploadToCloudClipboard", 0}}

// open runs f with the clipboard open, on one thread. Another program may have
// it open; they keep it for moments only.
func open(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for try := 0; ; try++ {
		ok, _, errno := procOpenClipboard.Call(0)
		if ok != 0 {
			defer procCloseClipboard.Call()
			return f()
		}
		if try == 1000 {
			return fmt.Errorf("win32: another program holds the clipboard: %w", failed("OpenClipboard", errno))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Write puts text on the clipboard, in one transaction with its hints. A call that ends
// meanwhile is not given up: nobody would know what is there.
func (c *Clipboard) Write(ctx context.Context, text string, concealed bool, clearAfter time.Duration) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return errors.New("win32: the text for the clipboard is not text")
	}
	var all []clipboard.Option
	if concealed {
		for _, f := range concealing {
			all = append(all, clipboard.Item{Format: clipboard.Register(f.name), Bytes: binary.LittleEndian.AppendUint32(nil, f.value)})
		}
	}
	all = append(all, clipboard.Item{Format: clipboard.FmtText, Bytes: []byte(text)})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clear != nil {
		c.clear.Stop()
		c.clear = nil
	}
	if _, err := clipboard.WriteAll(ctx, all...); err != nil {
		return fmt.Errorf("win32: writing the clipboard: %w", err)
	}
	c.ours, c.digest = text != "", sha256.Sum256([]byte(text))
	if c.ours && clearAfter > 0 {
		c.clearIn(clearAfter, clearAttempts)
	}
	return nil
}

// A text that is to go and cannot is tried again: another program may hold the
// clipboard, or not answer for a form of the text that it promised.
const (
	clearAttempts = 300
	clearPause    = 2 * time.Second
)

// clearIn clears after a time; with c.mu held.
func (c *Clipboard) clearIn(after time.Duration, attempts int) {
	var due *time.Timer
	due = time.AfterFunc(after, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.clear != due {
			return // written again, or closed
		}
		if _, err := c.clearNow(ctx); err != nil && attempts > 1 {
			c.clearIn(clearPause, attempts-1)
		}
	})
	c.clear = due
}

// Read returns the text on the clipboard.
func (c *Clipboard) Read(ctx context.Context) (text string, err error) {
	if is, _, _ := procIsFormatAvailable.Call(unicodeText); is == 0 {
		return "", nil
	}
	err = open(ctx, func() error {
		text, err = held()
		return err
	})
	return text, err
}

// held returns the text on the open clipboard.
func held() (string, error) {
	if is, _, _ := procIsFormatAvailable.Call(unicodeText); is == 0 {
		return "", nil
	}
	memory, _, errno := procGetClipboardData.Call(unicodeText)
	if memory == 0 {
		return "", failed("GetClipboardData", errno)
	}
	address, _, errno := procGlobalLock.Call(memory)
	if address == 0 {
		return "", failed("GlobalLock", errno)
	}
	defer procGlobalUnlock.Call(memory)
	size, _, _ := procGlobalSize.Call(memory)
	return windows.UTF16ToString(unsafe.Slice(at[uint16](address), min(size, maxRead)/2)), nil
}

// Clear empties the clipboard if it holds what Write put there.
func (c *Clipboard) Clear(ctx context.Context) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clearNow(ctx)
}

// clearNow is Clear with c.mu held.
func (c *Clipboard) clearNow(ctx context.Context) (bool, error) {
	if !c.ours {
		return false, nil
	}
	cleared := false
	err := open(ctx, func() error {
		text, err := held()
		if err != nil || sha256.Sum256([]byte(text)) != c.digest {
			return err
		}
		if ok, _, errno := procEmptyClipboard.Call(); ok == 0 {
			return failed("EmptyClipboard", errno)
		}
		cleared = true
		return nil
	})
	if err == nil {
		c.ours = false
	}
	return cleared, err
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
