package health

import (
	"context"
	"errors"
	"log/slog"
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

// Each isolation class has a row, and each wall that is missing one of its own, with its fix
// (S1-37).
func TestDoctorNamesMissingWalls(t *testing.T) {
	var walls []sandbox.Standing
	for _, class := range sandbox.Classes {
		walls = append(walls, sandbox.Standing{Class: class, Wall: sandbox.WallLimits, By: "rlimits"})
	}
	walls = append(walls, sandbox.Standing{Class: capabilities.ClassT0, Wall: sandbox.WallNamespaces, By: "all", Deeper: true})
	walls = append(walls, sandbox.Standing{Class: capabilities.ClassT1, Wall: sandbox.WallNamespaces, Err: errors.New("no names"), Fix: "Allow them.", Deeper: true})
	walls = append(walls, sandbox.Standing{Class: capabilities.ClassT2, Wall: sandbox.WallOneDoor, Err: errors.New("it has no hinges"), Fix: "Hang it."})
	var rows []string
	for _, f := range wallFindings(walls) {
		rows = append(rows, strings.TrimSpace(f.Name+"|"+f.Code+"|"+f.Detail+"|"+f.Fix))
	}
	want := []string{
		"isolation t0||limits (rlimits)|", "isolation t0, namespaces||all|",
		"isolation t1||limits (rlimits)|", "isolation t1, namespaces||not here, and nothing rests on it: no names|Allow them.",
		"isolation t2, one door|isolation_unavailable|missing: it has no hinges|Hang it.",
		"isolation t2|isolation_unavailable|what needs it is refused here; the walls that stand: limits (rlimits)|", "isolation t3||limits (rlimits)|",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("%s", strings.Join(rows, "\n"))
	}
}
