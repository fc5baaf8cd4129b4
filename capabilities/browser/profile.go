package browser

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// A profile lasts below Options.StateDir; see kept.go. A lane that asked for one gets a Chrome
// of its own, which works on a copy in its scratch folder: the launcher brings it
// in and takes it home when that Chrome has ended, even if this process was
// killed. So it lies nowhere in use by two, and never half written.

// profileDir is the user data folder's name in Chrome's scratch folder.
const profileDir = "profile"

// stateName is what profiles and storage states may be called.
var stateName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

var errStateName = capabilities.Errorf(capabilities.CodeInvalidArguments,
	"A name has to be 1 to 64 lowercase letters, digits, hyphens or underscores, a letter or digit first.")

// caches are what Chrome makes again by itself.
var caches = []string{
	"Cache", "Code Cache", "GPUCache", "DawnGraphiteCache", "DawnWebGPUCache", "ShaderCache", "GrShaderCache", "GraphiteDawnCache",
	"Crashpad", "BrowserMetrics", "component_crx_cache", "optimization_guide_model_store", "Safe Browsing",
}

// withProfile returns the lane a Chrome of its own with its profile.
func (l *lane) withProfile(ctx context.Context, w way) (*chrome, error) {
	l.h.mu.Lock()
	before := l.h.homes[w.home]
	l.h.mu.Unlock()
	if before != nil && (before.leaving.Load() || !before.alive()) { // it is on its way home
		select {
		case <-before.proc.Done():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	out, err := l.openEgress()
	if err != nil {
		return nil, err
	}
	c, err := l.h.startChrome(ctx, chromeStart{headless: w.headless, own: l, proxy: out.Addr(), lend: &platform.Lend{
		Home: w.home, Name: profileDir, Leave: caches,
		Note: fmt.Sprintf("conversation %s, process %d, since %s", l.id, os.Getpid(), time.Now().UTC().Format(time.RFC3339)),
	}})
	if err != nil {
		out.Close()
		return nil, err
	}
	out.Use(c.proc)
	l.h.mu.Lock()
	l.h.homes[w.home] = c
	l.h.mu.Unlock()
	l.h.windows(l) // an earlier lane may have had it in one
	l.mu.Lock()
	ended := l.ended
	if !ended {
		l.chrome, l.context, l.egress = c, "", out
	}
	emulated := l.emulated
	out.SetOffline(emulated.isOffline())
	l.mu.Unlock()
	if ended {
		l.dispose(c, "", out)
		return nil, errLaneClosed
	}
	if err := emulated.grantGeolocation(ctx, c, ""); err != nil {
		return nil, err
	}
	if err := l.h.keptBack(ctx, c, ""); err != nil {
		return nil, err
	}
	return c, l.allowDownloads(ctx, c, "")
}

// profileInUse says who has the profile.
func profileInUse(e *platform.LentError) error {
	who := e.Note
	if who == "" {
		who = "another process"
	}
	return capabilities.Wrap(capabilities.CodeConflict, e, "The profile is in use by "+capabilities.Clip(who, 300)+".").
		WithHint("Close it there with tool.browser.close, or launch another profile.")
}
