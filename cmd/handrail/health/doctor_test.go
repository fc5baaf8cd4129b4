package health

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/fake"
	"github.com/handrail-dev/handrail/platform/notify"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

// instead is a desktop of which a part is done in another way than usual.
type instead struct{ platform.DesktopOpener }

func (o instead) Open(ctx context.Context) (*platform.Desktop, error) {
	d, err := o.DesktopOpener.Open(ctx)
	if err == nil {
		d.Instead = map[platform.DesktopPart]string{platform.PartScreen: "read by another, since ours did not open"}
	}
	return d, err
}

// notices are those of the session that the test runs in.
func notices() platform.Notifier {
	return notify.New(notify.Options{Log: slog.New(slog.DiscardHandler)})
}

// A part that is done in another way than usual works, and is named with the reason.
func TestDoctorNamesWhatStandsIn(t *testing.T) {
	f := fake.New()
	usual := desktopFindings(t.Context(), f, notices())
	is := func(f Finding) bool { return f.Name == "desktop screen" }
	if slices.ContainsFunc(usual, is) {
		t.Errorf("of the usual way it says %+v", usual)
	}
	found := desktopFindings(t.Context(), instead{fake.New()}, notices())
	i := slices.IndexFunc(found, is)
	if i < 0 || !found[i].OK || found[i].Detail != "read by another, since ours did not open" {
		t.Errorf("it says %+v", found)
	}
}

// A remedy that mends several findings is told once, in the fuller words.
func TestDoctorTellsEachFixOnce(t *testing.T) {
	cmd := NewDoctorCmd(Host{})
	var out strings.Builder
	cmd.SetOut(&out)
	const fix = "Set DISPLAY."
	printFindings(cmd, []Finding{
		{Part: "host", Name: "desktop", OK: true, Code: "backend_missing", Detail: "There is none.", Fix: fix},
		{Part: "node", Name: "n1 camera", OK: true, Code: "device_missing", Fix: "Connect one."},
		{Part: "node", Name: "n1 desktop", OK: true, Code: "backend_missing", Fix: "There is none. " + fix},
		{Part: "node", Name: "n1 live", OK: true, Code: "backend_missing", Fix: "There is none. " + fix},
		{Part: "node", Name: "n2 live", Code: "permission_missing", Fix: fix},
	})
	_, told, _ := strings.Cut(out.String(), "\n\n")
	const want = `desktop (backend_missing)
n1 desktop (backend_missing)
n1 live (backend_missing)
  -> There is none. Set DISPLAY.

n1 camera (device_missing)
  -> Connect one.

n2 live (permission_missing)
  -> Set DISPLAY.
`
	if told != want {
		t.Errorf("%s\nwant\n%s", told, want)
	}
}

// Each isolation class has a row, and each wall one that says what it keeps and what it stands on.
// A wall that is missing says so with its fix, and only the classes that need it are refused
// (S1-37).
func TestDoctorNamesClassesAndWalls(t *testing.T) {
	var walls []sandbox.Standing
	for _, class := range sandbox.Classes {
		walls = append(walls, sandbox.Standing{Class: class, Wall: sandbox.WallLimits, By: "rlimits"})
	}
	walls = append(walls, sandbox.Standing{Class: capabilities.ClassT0, Wall: sandbox.WallNamespaces, By: "all", Deeper: true})
	walls = append(walls, sandbox.Standing{Class: capabilities.ClassT1, Wall: sandbox.WallNamespaces, Err: errors.New("no names"), Fix: "Allow them.", Deeper: true})
	walls = append(walls, sandbox.Standing{Class: capabilities.ClassT2, Wall: sandbox.WallOneDoor, Err: errors.New("it has no hinges"), Fix: "Hang it."})
	found := wallFindings(walls)
	var rows []string
	for _, f := range found {
		rows = append(rows, strings.TrimSpace(f.Name+"|"+f.Code+"|"+f.Detail+"|"+f.Fix))
	}
	want := []string{
		"isolation t0||only its input, no files, no network; all of its 1 walls stand|", "isolation t1||some files, no network; all of its 1 walls stand|",
		"isolation t2|isolation_unavailable|a network, by one way that is watched; what needs it is refused here, for want of: one door|",
		"isolation t3||what the grant lists; all of its 1 walls stand|",
		"wall limits (t0, t1, t2, t3)||memory, processor time and size of files of each process; it stands on rlimits|",
		"wall namespaces (t0)||other files and processes and the machine's network are not even there; it stands on all|",
		"wall namespaces (t1)||other files and processes and the machine's network are not even there; not here, and no class rests on it: no names|Allow them.",
		"wall one door (t2)|isolation_unavailable|no connection but to its own proxy; missing here: it has no hinges|Hang it.",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("%s", strings.Join(rows, "\n"))
	}
	cmd := NewDoctorCmd(Host{})
	var out strings.Builder
	cmd.SetOut(&out)
	printFindings(cmd, found)
	for wall, state := range map[string]string{"isolation t2": "unavailable", "wall limits (t0, t1, t2, t3)": "ok", "wall namespaces (t1)": "not here", "wall one door (t2)": "unavailable"} {
		if !regexp.MustCompile(regexp.QuoteMeta(wall) + ` +` + state + ` `).MatchString(out.String()) {
			t.Errorf("%s is not %s:\n%s", wall, state, &out)
		}
	}
	for _, fix := range []string{"wall namespaces (t1)\n  -> Allow them.", "wall one door (t2) (isolation_unavailable)\n  -> Hang it."} {
		if !strings.Contains(out.String(), fix) {
			t.Errorf("it does not say %q:\n%s", fix, &out)
		}
	}
}

// Every wall says what it keeps.
func TestWallsSayWhatTheyKeep(t *testing.T) {
	for _, w := range []sandbox.Wall{
		sandbox.WallFiles, sandbox.WallCalls, sandbox.WallSignals, sandbox.WallPrivileges, sandbox.WallLimits, sandbox.WallProcesses, sandbox.WallOneDoor,
		sandbox.WallNoConnection, sandbox.WallNamespaces, sandbox.WallGroup,
	} {
		if w.Keeps() == "" {
			t.Errorf("%s says nothing", w)
		}
	}
}
