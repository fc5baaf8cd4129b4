package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/fake"
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

// A part that is done in another way than usual works, and is named with the reason.
func TestDoctorNamesWhatStandsIn(t *testing.T) {
	f := fake.New()
	usual := desktopFindings(t.Context(), f)
	is := func(f finding) bool { return f.Name == "desktop screen" }
	if slices.ContainsFunc(usual, is) {
		t.Errorf("of the usual way it says %+v", usual)
	}
	found := desktopFindings(t.Context(), instead{fake.New()})
	i := slices.IndexFunc(found, is)
	if i < 0 || !found[i].OK || found[i].Detail != "read by another, since ours did not open" {
		t.Errorf("it says %+v", found)
	}
}

// A remedy that mends several findings is told once, in the fuller words.
func TestDoctorTellsEachFixOnce(t *testing.T) {
	cmd := newDoctorCmd()
	var out strings.Builder
	cmd.SetOut(&out)
	const fix = "Set DISPLAY."
	printFindings(cmd, []finding{
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
