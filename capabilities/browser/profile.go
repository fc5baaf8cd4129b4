package browser

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/process"
)

// A profile lasts below Options.StateDir; see kept.go. A lane that asked for one gets a Chrome
// of its own, which works on a copy of it: see process.Lend.

// stateName is what profiles and storage states may be called.
var stateName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

var errStateName = capabilities.Errorf(capabilities.CodeInvalidArguments,
	"A name has to be 1 to 64 lowercase letters, digits, hyphens or underscores, a letter or digit first.")

// withProfile returns the lane a Chrome of its own with its profile.
func (l *lane) withProfile(ctx context.Context, w way) (*chrome, error) {
	l.h.mu.Lock()
	before := l.h.homes[w.home]
	l.h.mu.Unlock()
	if before != nil && (before.Departing()) { // it is on its way home
		select {
		case <-before.Program.Done():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	out, err := l.openEgress()
	if err != nil {
		return nil, err
	}
	c, err := l.h.startChrome(ctx, l, process.How{Headless: w.headless, Proxy: out.Addr(), Lend: process.Lend(w.home,
		fmt.Sprintf("conversation %s, process %d, since %s", l.id, os.Getpid(), time.Now().UTC().Format(time.RFC3339)))})

	if err != nil {
		out.Close()
		return nil, err
	}
	out.Use(c.Program)
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
