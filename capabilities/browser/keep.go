package browser

import (
	"context"

	"github.com/chromedp/cdproto/cdp"

	cdpbrowser "github.com/chromedp/cdproto/browser"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// A browser with windows shares the clipboard of the desktop, and a page that was
// ever allowed to read it would read a secret that is delivered there. Pasting by key
// is what such a secret is for, so that stays.

var _ capabilities.ClipboardKeeper = (*Handler)(nil)

// KeepClipboard refuses, or allows again, what pages ask the clipboard for, in every
// context of every lane.
func (h *Handler) KeepClipboard(ctx context.Context, keep bool) error {
	h.mu.Lock()
	h.keeping = keep
	lanes := make([]*lane, 0, len(h.lanes))
	for _, l := range h.lanes {
		lanes = append(lanes, l)
	}
	h.mu.Unlock()
	for _, l := range lanes {
		l.mu.Lock()
		c, id := l.chrome, l.context
		l.mu.Unlock()
		if c == nil {
			continue
		}
		if err := keepClipboard(ctx, c, id, keep); err != nil && c.Alive() {
			return capabilities.Wrap(capabilities.CodeExecutionFailed, err,
				"The browser could not be kept from reading the clipboard, so no secret is put there.")
		}
	}
	return nil
}

// keptBack is KeepClipboard for a context that a lane has just got. A lane has it
// before it asks here, so that one of the two sees the other.
func (h *Handler) keptBack(ctx context.Context, c *chrome, id cdp.BrowserContextID) error {
	h.mu.Lock()
	keep := h.keeping
	h.mu.Unlock()
	if !keep {
		return nil
	}
	return keepClipboard(ctx, c, id, true)
}

func keepClipboard(ctx context.Context, c *chrome, id cdp.BrowserContextID, keep bool) error {
	setting := cdpbrowser.PermissionSettingPrompt
	if keep {
		setting = cdpbrowser.PermissionSettingDenied
	} else if c.Attached { // what its person settled holds again
		_, err := devtools.Do(ctx, c.Root, cdpbrowser.ResetPermissions, cdpbrowser.ResetPermissionsParams{BrowserContextID: id})
		return err
	}
	_, err := devtools.Do(ctx, c.Root, cdpbrowser.SetPermission, cdpbrowser.SetPermissionParams{
		Permission: &cdpbrowser.PermissionDescriptor{Name: "clipboard-read"}, Setting: setting, BrowserContextID: id,
	})
	return err
}
