package browser_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	handler "github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/capabilities/browser/script"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/platform/chrome"
	"github.com/handrail-dev/handrail/platform/confine"
	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
	"github.com/handrail-dev/handrail/suite/tasks"
	"github.com/handrail-dev/handrail/test/site"
)

func TestMain(m *testing.M) {
	script.Main(confine.Self)
	// Connections that are kept alive end a moment after their servers.
	goleak.VerifyTestMain(m, goleak.Cleanup(script.Unwatched()), goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// freePorts returns two addresses and who listens on them: a port that is let go may
// be somebody else's when it is wanted.
func freePorts(t testing.TB) (pages [2]string, open func(addr string) (net.Listener, error)) {
	held := map[string]net.Listener{}
	for i, host := range []string{"127.0.0.1", "localhost"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		pages[i] = net.JoinHostPort(host, port)
		held[pages[i]] = l
		t.Cleanup(func() { _ = l.Close() })
	}
	return pages, func(addr string) (net.Listener, error) {
		if l := held[addr]; l != nil {
			delete(held, addr) // a second suite listens for itself
			return l, nil
		}
		return net.Listen("tcp", addr)
	}
}

// uploadRule permits uploads without asking: the node allows one folder only.
const uploadRule = `@id("uploads") permit (principal, action == Action::"tool.browser.upload-file", resource);
`

// start runs a whole site with a real Chrome and returns what a suite needs to talk to it.
func start(t testing.TB) browser.Options {
	t.Helper()
	pages, open := freePorts(t)
	finder := chrome.New(chrome.Options{})
	log := slog.New(slog.DiscardHandler)
	uploads := t.TempDir()
	o := handler.Options{
		Finder: finder, Launcher: procguard.New(procguard.Options{Log: log}), Log: log, UploadRoots: []string{uploads}, StateDir: t.TempDir(),
	}
	rules := site.Rules + uploadRule
	for _, p := range pages {
		origin := "http://" + p
		o.AllowOrigins = append(o.AllowOrigins, origin)
		text, err := policy.OriginPermit(origin, "the suite's pages")
		if err != nil {
			t.Fatal(err)
		}
		rules += string(text)
	}
	found, err := finder.Find(context.Background())
	if err != nil {
		t.Fatalf("the suite needs a real Chrome: %v", err)
	}
	if found.NoSandbox != "" {
		o.Sandbox = handler.SandboxOff
		rules += string(policy.NoSandboxPermit("this host gives no sandbox", "test"))
	}
	h, err := handler.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	s := site.Start(t, site.Options{Rules: rules})
	s.AddNode("chrome", h)
	return browser.Options{
		Options: suite.Options{
			URL: s.URL() + "/mcp", Token: s.MustToken("agent", principal.RoleAgent), ReadToken: s.MustToken("reader", principal.RoleOperator),
		},
		Pages: pages, Listen: open, Lanes: 2 * runtime.NumCPU(), Uploads: uploads,
	}
}

// The suite itself: each behaviour is a subtest. -args -report DIR keeps the report.
var (
	reportDir = flag.String("report", "", "folder for the suite's report")
	runOnly   = flag.String("behaviour", "", "only behaviours whose ID matches")
)

func TestBehaviours(t *testing.T) {
	o := start(t)
	o.Behaviours = browser.All()
	if *runOnly != "" {
		o.Behaviours = suite.Select(o.Behaviours, regexp.MustCompile(*runOnly))
	} else if wanted := site.Subtests(); wanted != nil {
		o.Behaviours = suite.Select(o.Behaviours, wanted)
	} else if testing.Short() {
		o.Behaviours = suite.Shard{I: 1, N: 10}.Of(o.Behaviours)
	}
	o.Done = func(out suite.Outcome) {
		if testing.Verbose() {
			first, _, _ := strings.Cut(out.Error, "\n")
			fmt.Printf("%-8s %6d ms  %3d calls  %s  %s\n", out.Status, out.Duration.Milliseconds(), out.Calls, out.ID, first)
		}
	}
	if *recordFile != "" {
		o.Way = record(t, *recordFile)
	}
	report, err := browser.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if *reportDir != "" {
		if err := report.WriteTo(*reportDir); err != nil {
			t.Error(err)
		}
	}
	for _, out := range report.Outcomes {
		t.Run(out.ID, func(t *testing.T) {
			if out.Status != suite.Passed {
				t.Errorf("%s: %s\n%s: %s", out.Title, out.Proves, out.Status, out.Error)
			}
		})
	}
	t.Logf("%s: %d of %d passed in %s", report.Behind, report.Count(suite.Passed), len(report.Outcomes), report.Took)
}

// The tasks that tools are compared by can be done.
func TestTasks(t *testing.T) {
	o := start(t)
	o.Of, o.Behaviours = tasks.Behaviours(), tasks.All()
	report, err := browser.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range report.Outcomes {
		if out.Status != suite.Passed {
			t.Errorf("%s: %s: %s", out.ID, out.Status, out.Error)
		}
	}
	if len(report.Outcomes) != len(o.Behaviours) || len(report.Outcomes) < 9 {
		t.Errorf("%d of %d were tried", len(report.Outcomes), len(o.Behaviours))
	}
}

func TestCatalogue(t *testing.T) {
	all := browser.All()
	if len(all) < 200 {
		t.Errorf("%d behaviours; 200 are promised", len(all))
	}
	form := regexp.MustCompile(`^[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, b := range all {
		if !form.MatchString(b.ID) || seen[b.ID] || b.Title == "" || b.Proves == "" {
			t.Errorf("%q is no ID, is there twice, or has no title or purpose", b.ID)
		}
		seen[b.ID] = true
	}
}

// Every behaviour is in exactly one of n shards, whatever n is.
func TestShardsPartition(t *testing.T) {
	all := browser.All()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		some := all[:rapid.IntRange(0, len(all)).Draw(t, "some")]
		times := map[string]int{}
		for i := 1; i <= n; i++ {
			s, err := suite.ParseShard(fmt.Sprintf("%d/%d", i, n))
			if err != nil {
				t.Fatal(err)
			}
			part := s.Of(some)
			if len(part) < len(some)/n || len(part) > len(some)/n+1 {
				t.Fatalf("shard %s has %d of %d", s, len(part), len(some))
			}
			for _, b := range part {
				times[b.ID]++
			}
		}
		for _, b := range some {
			if times[b.ID] != 1 {
				t.Fatalf("%s is in %d shards of %d", b.ID, times[b.ID], n)
			}
		}
	})
	for _, bad := range []string{"0/3", "4/3", "1", "1/", "/2", "a/b", "-1/2", "1/0", "1/2/3", "99999/99999"} {
		if s, err := suite.ParseShard(bad); err == nil {
			t.Errorf("%q is taken as %s", bad, s)
		}
	}
}
