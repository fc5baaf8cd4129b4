package desktop_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	handler "github.com/handrail-dev/handrail/capabilities/desktop"
	"github.com/handrail-dev/handrail/gateway/principal"
	opener "github.com/handrail-dev/handrail/platform/desktop"
	"github.com/handrail-dev/handrail/platform/ocr"
	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/platform/sandbox"
	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/desktop"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

func TestMain(m *testing.M) {
	// Connections that are kept alive end a moment after their servers.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// rule is the named policy that the runs here permit the family by. A tool that requires approval
// is asked about all the same, and granted ahead.
const rule = `@id("desktop-acceptance") permit (principal, action in Action::"family:desktop", resource);
`

// quiet is how long the node waits after the person, in these tests.
const quiet = 2 * time.Second

// start runs a whole site whose node has the desk as its desktop, in this
// process, whose environment becomes the desk's.
func start(t *testing.T, d *desk.Desk) desktop.Options {
	t.Helper()
	for _, e := range d.Env {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	log := slog.New(slog.DiscardHandler)
	o := opener.New(opener.Options{Log: log})
	t.Cleanup(func() { _ = o.Close() })
	h, err := handler.New(handler.Options{Opener: o, QuietTime: quiet, Reader: ocr.New("", sandbox.New(procguard.New(procguard.Options{}))), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	s := site.Start(t, site.Options{Rules: site.Rules + rule})
	n := s.AddNode("desk", h)
	n.AwaitReady(h.Capabilities()...)
	s.Grant("agent", n, "tool.desktop.*")
	return desktop.Options{
		Options: suite.Options{URL: s.URL() + "/mcp", Token: s.MustToken("agent", principal.RoleAgent), ReadToken: s.MustToken("reader", principal.RoleOperator)},
		Browser: desktop.Program{App: "chromium", Args: []string{"--no-sandbox", "--test-type", "--disable-gpu", "--disable-dev-shm-usage"}},
		Quiet:   quiet,
	}
}

// The suite itself: each behaviour is a subtest. -args -report DIR keeps the report.
var (
	reportDir = flag.String("report", "", "folder for the suite's report")
	runOnly   = flag.String("behaviour", "", "only behaviours whose ID matches")
)

func run(t *testing.T, o desktop.Options, only string) *suite.Report {
	t.Helper()
	o.Behaviours = suite.Select(desktop.All(), regexp.MustCompile(only))
	if *runOnly != "" {
		o.Behaviours = suite.Select(o.Behaviours, regexp.MustCompile(*runOnly))
	}
	o.Behaviours = suite.Select(o.Behaviours, site.Subtests())
	if len(o.Behaviours) == 0 {
		t.Skip("none chosen")
	}
	o.Done = func(out suite.Outcome) {
		if testing.Verbose() {
			fmt.Printf("%-8s %6d ms  %3d calls  %s  %s\n", out.Status, out.Duration.Milliseconds(), out.Calls, out.ID, out.Error)
		}
	}
	report, err := desktop.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if *reportDir != "" {
		if err := report.WriteTo(*reportDir); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d of %d passed in %s", report.Count(suite.Passed), len(report.Outcomes), report.Took)
	return report
}

// leave are the behaviours that need what a host may lack.
func judge(t *testing.T, report *suite.Report, leave string) {
	t.Helper()
	for _, out := range report.Outcomes {
		t.Run(out.ID, func(t *testing.T) {
			switch {
			case out.Status == suite.NotRun && regexp.MustCompile(leave).MatchString(out.ID):
				t.Skip(out.Error)
			case out.Status != suite.Passed:
				t.Errorf("%s: %s\n%s: %s", out.Title, out.Proves, out.Status, out.Error)
			}
		})
	}
}

// twoDisplays stand side by side, of different sizes, heights and scales: the right one
// has twice as many pixels a millimetre.
var twoDisplays = []desk.Monitor{{Name: "left", Width: 1100, Height: 900}, {Name: "right", X: 1100, Y: 100, Width: 700, Height: 800, MM: 93}}

func TestDesktopBehaviours(t *testing.T) {
	d := desk.StartX(t, desk.Options{Size: "1800x900", Monitors: twoDisplays})
	d.InstallQtEditor()
	o := start(t, d)
	o.Editors = map[string]desktop.Program{"qt": {App: "desk-qt-editor", Args: []string{"{file}"}}}
	o.Relayout = func(context.Context) (func(), error) {
		d.SetMonitors([]desk.Monitor{{Name: "left", Width: 1000, Height: 900}, {Name: "right", X: 1000, Y: 0, Width: 800, Height: 900, MM: 106}})
		return func() { d.SetMonitors(twoDisplays) }, nil
	}
	judge(t, run(t, o, "^"), `^person\.`)
}

// In a Xephyr, what is done to its window comes out of the inner desktop's own
// devices, as a person's doing does.
func TestPersonBehaviours(t *testing.T) {
	outer := desk.StartX(t, desk.Options{Size: "1300x1000", NoBus: true})
	d, window := outer.StartXephyr(desk.Options{Size: "1200x900"})
	o := start(t, d)
	o.Person = func(context.Context) error {
		outer.Activate(window)
		outer.Xdotool("mousemove", "--window", window, "600", "800", "mousemove_relative", "--", "7", "5", "mousemove_relative", "--", "-7", "-5")
		return nil
	}
	judge(t, run(t, o, `^person\.`), `^$`)
}

// The same behaviours on a Wayland desktop, where every program is a client of the
// compositor and none of an X server.
func TestWaylandBehaviours(t *testing.T) {
	s := desk.StartSway(t, desk.SwayOptions{Outputs: []string{"HEADLESS-1 resolution 1100x900 position 0 0", "HEADLESS-2 resolution 700x800 position 1100 100"}})
	s.Tell("for_window [title=.*] floating enable") // as on the other systems, a window that opens leaves the others where they are
	s.InstallQtEditor()
	o := start(t, s.Desk)
	o.Browser.Args = append(o.Browser.Args, "--ozone-platform=wayland")
	o.Editors = map[string]desktop.Program{"qt": {App: "desk-qt-editor", Args: []string{"{file}"}}}
	o.Relayout = func(context.Context) (func(), error) {
		s.Tell("output HEADLESS-2 position 1100 0 resolution 800x900")
		return func() { s.Tell("output HEADLESS-2 position 1100 100 resolution 700x800") }, nil
	}
	o.Window = func(title string) (x, y int, shown bool) {
		w, ok := s.Window(title)
		return w.X, w.Y, ok && w.Visible
	}
	judge(t, run(t, o, "^"), `^person\.`)
}
