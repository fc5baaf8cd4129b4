package process

import (
	"context"
	"os"
	"runtime"
	"strings"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/platform"
)

// How says how a Chrome is started.
type How struct {
	Headless bool
	// Tenant returns the one who works in it, before its first page arrives. Required.
	Tenant func(*Chrome) Tenant
	// Proxy is the way out of its default context. Default: nothing goes out there.
	Proxy string
	// Lend is its profile, which outlives it; see Lend. Default: one that goes with it.
	Lend *platform.Lend

	attached bool // it is not ours to start
}

// caches are what Chrome makes again by itself.
var caches = []string{
	"Cache", "Code Cache", "GPUCache", "DawnGraphiteCache", "DawnWebGPUCache", "ShaderCache", "GrShaderCache", "GraphiteDawnCache",
	"Crashpad", "BrowserMetrics", "component_crx_cache", "optimization_guide_model_store", "Safe Browsing",
}

// Lend is a profile that lasts in the folder home. Chrome works on a copy in its scratch folder:
// the launcher brings it in and takes it home when that Chrome has ended, even if this process
// was killed. So it lies nowhere in use by two, and never half written. note says who has it.
func Lend(home, note string) *platform.Lend {
	return &platform.Lend{Home: home, Name: ProfileDir, Leave: caches, Note: note}
}

// Start finds, starts and greets Chrome.
func (s *Set) Start(ctx context.Context, how How) (*Chrome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	b, err := s.o.Finder.Find(ctx)
	if err != nil {
		return nil, Missing(err)
	}
	if err := mayStart(s.o.Sandbox, b); err != nil {
		return nil, err
	}
	if !how.Headless && runtime.GOOS == "linux" && (os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" || b.RunAs != nil) {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "This node has no display that a visible browser could use.").
			WithHint("Launch with headless true.")
	}
	p, err := s.o.Launcher.Start(ctx, platform.Command{
		Path: b.Path, Name: "chrome", ScratchBase: s.o.Dir, User: b.RunAs, Alone: true, Lend: how.Lend,
		Build: func(scratch string) (args, env []string) {
			return flags(b, s.o.Sandbox, how, scratch), environment(scratch, how.Headless)
		},
	})
	if err != nil {
		return nil, notStarted(err)
	}
	c, err := s.speak(p, devtools.OverPipe(p.Out(), p.In()), how)
	if err != nil {
		return nil, err
	}
	version := devtools.Start(ctx, c.Root, cdpbrowser.GetVersion, cdp.Empty{})
	attach := devtools.Start(ctx, c.Root, target.SetAutoAttach, target.SetAutoAttachParams{
		// Every page, popups too, stops before its first script until it is set up.
		AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: ptr(true),
		Filter: target.Filter{{Type: "page"}, {Exclude: true}},
	})
	v, err := version.Get(ctx)
	if err == nil {
		_, err = attach.Get(ctx)
	}
	if err != nil {
		p.Close()
		return nil, startFailure(ctx, err, p.Output())
	}
	_, c.Version, _ = strings.Cut(v.Product, "/")
	s.mu.Lock()
	s.version = c.Version
	s.mu.Unlock()
	s.o.Log.Info("browser.started", "version", c.Version, "pid", p.PID(), "headless", how.Headless, "sandbox", s.o.Sandbox)
	return c, nil
}

func ptr[T any](v T) *T { return &v }
