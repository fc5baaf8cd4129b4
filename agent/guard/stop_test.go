package guard

import (
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
)

// switches opens stop switches on one file, counting what each is told.
func mustSwitch(t testing.TB, path string, onTurn func(bool)) *StopSwitch {
	t.Helper()
	s, err := OpenStopSwitch(path, "site", onTurn)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStopSwitchIsDurableAndOnlyMovesForward(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stop.json")
	stops := 0
	s := mustSwitch(t, path, func(on bool) {
		if on {
			stops++
		}
	})
	changed := s.Changed()
	must(t, s.Set(4, true))
	select {
	case <-changed:
	default:
		t.Fatal("nobody was told")
	}
	must(t, s.Set(4, false))
	must(t, s.Set(3, false))
	again := mustSwitch(t, path, nil)
	if epoch, stopped := again.State(); epoch != 4 || !stopped || stops != 1 {
		t.Fatalf("epoch %d, stopped %v, %d stops", epoch, stopped, stops)
	}
	must(t, again.Set(5, false))
	if _, stopped := again.State(); stopped {
		t.Fatal("a newer epoch could not release")
	}
}

// The gateway's word never releases a device that its person stopped, and the person's word never
// releases what the gateway stopped.
func TestEitherSwitchStops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stop.json")
	var told []bool
	s := mustSwitch(t, path, func(on bool) { told = append(told, on) })
	must(t, s.Set(0, true))
	must(t, s.SetSite(900, true))
	must(t, s.SetSite(901, false))
	if !s.Stopped() {
		t.Fatal("the gateway released what the person stopped")
	}
	must(t, s.SetSite(902, true))
	must(t, s.Set(1, false))
	if !mustSwitch(t, path, nil).Stopped() {
		t.Fatal("the person released what the gateway stopped")
	}
	must(t, s.SetSite(903, false))
	if s.Stopped() || mustSwitch(t, path, nil).Stopped() {
		t.Fatal("still stopped")
	}
	if want := []bool{true, true, true, false}; len(told) != 4 || told[3] != want[3] || !told[0] || !told[1] || !told[2] {
		t.Errorf("told %v", told)
	}
}

// The switch of another site says nothing about this one.
func TestStopOfAnotherSiteIsForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stop.json")
	must(t, mustSwitch(t, path, nil).SetSite(7, true))
	other, err := OpenStopSwitch(path, "another", nil)
	must(t, err)
	if other.Stopped() {
		t.Error("stopped by a site that it does not belong to")
	}
}

// The site's file is written over, never replaced, and says what came last.
func TestSiteSwitchIsWrittenInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stop.json")
	s := mustSwitch(t, path, nil)
	must(t, s.SetSite(7, true))
	first, err := os.Stat(s.site.path)
	must(t, err)
	for epoch := range uint64(4) {
		must(t, s.SetSite(8+epoch*1_000_000_000_000, epoch%2 == 0))
		now, err := os.Stat(s.site.path)
		must(t, err)
		if !os.SameFile(first, now) || now.Size() != siteBytes {
			t.Fatalf("%d bytes, the same file: %v", now.Size(), os.SameFile(first, now))
		}
		if e, on := mustSwitch(t, path, nil).Site(); e != 8+epoch*1_000_000_000_000 || on != (epoch%2 == 0) {
			t.Fatalf("epoch %d, stopped %v", e, on)
		}
	}
	// One of another size, as earlier versions wrote it, is replaced.
	must(t, os.WriteFile(s.site.path, []byte(`{"version":1,"epoch":1,"stopped":true,"site":"site"}`), 0o600))
	old := mustSwitch(t, path, nil)
	must(t, old.SetSite(2, false))
	if e, on := mustSwitch(t, path, nil).Site(); e != 2 || on {
		t.Errorf("epoch %d, stopped %v", e, on)
	}
}

func TestDamagedStopSwitchMeansStopped(t *testing.T) {
	for _, name := range []string{"stop.json", "stop-site.json"} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o600))
		s := mustSwitch(t, filepath.Join(dir, "stop.json"), nil)
		if !s.Stopped() {
			t.Errorf("a damaged %s released the device", name)
		}
		must(t, s.Set(1, false))
		must(t, s.SetSite(1, false))
		if s.Stopped() {
			t.Errorf("%s: nobody can resume", name)
		}
	}
}

// A stop counts even if it cannot be written down; a release does not.
func TestStopWithoutADisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	s := mustSwitch(t, filepath.Join(dir, "stop.json"), nil)
	if err := s.Set(1, true); err == nil || !s.Stopped() {
		t.Errorf("%v, stopped %v", err, s.Stopped())
	}
	if err := s.Set(2, false); err == nil || !s.Stopped() {
		t.Errorf("released without a trace: %v", err)
	}
}

// The word of another process of the owner's is taken over, forwards only.
func TestStopSwitchLooks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stop.json")
	stops := 0
	node := mustSwitch(t, path, func(on bool) {
		if on {
			stops++
		}
	})
	node.Look() // no file yet
	if _, stopped := node.State(); stopped || stops != 0 {
		t.Fatal("stopped by nothing")
	}
	changed := node.Changed()
	must(t, mustSwitch(t, path, nil).Set(0, true))
	node.Look()
	node.Look()
	if _, stopped := node.State(); !stopped || stops != 1 {
		t.Fatalf("stopped %v, told %d times", stopped, stops)
	}
	<-changed
	must(t, mustSwitch(t, path, nil).Set(1, false))
	node.Look()
	if epoch, stopped := node.State(); stopped || epoch != 1 {
		t.Errorf("%d %v", epoch, stopped)
	}
	must(t, node.Set(5, true))
	for _, damaged := range []string{`{"version":1,"epoch":4}`, `{`} {
		must(t, os.WriteFile(path, []byte(damaged), 0o600))
		node.Look()
	}
	if epoch, stopped := node.State(); !stopped || epoch != 5 {
		t.Errorf("an older or damaged file released the device: %d %v", epoch, stopped)
	}
}

// The guard obeys both switches, whatever order stops, releases and tickets come in:
// a ticket runs only if neither is on and it is of the present epochs.
func TestGuardObeysBothSwitches(t *testing.T) {
	f := newFixture(t, permitAll)
	base := f.ticket(t, 1)
	seq := uint64(1)
	rapid.Check(t, func(t *rapid.T) {
		own, on := f.stop.State()
		site, siteOn := f.stop.Site()
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			must(t, f.stop.Set(own, true))
			return
		case 1:
			must(t, f.stop.Set(own+1, false))
			return
		case 2:
			must(t, f.stop.SetSite(site+1, rapid.Bool().Draw(t, "on")))
			return
		}
		seq++
		tk := *base
		tk.Sequence = seq
		tk.StopEpoch = own + rapid.Uint64Range(0, 2).Draw(t, "own") - min(own, 1)
		tk.SiteEpoch = site + rapid.Uint64Range(0, 2).Draw(t, "site") - min(site, 1)
		want := !on && tk.StopEpoch >= own && (tk.SiteEpoch > site || tk.SiteEpoch == site && !siteOn)
		err := f.guard.Check(t.Context(), &tk, f.ready)
		if (err == nil) != want {
			t.Fatalf("own %d %v, site %d %v, ticket %d/%d: %v", own, on, site, siteOn, tk.StopEpoch, tk.SiteEpoch, err)
		}
		if err != nil && err.Code != capabilities.CodeStopped {
			t.Fatal(err)
		}
	})
}

func must(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
