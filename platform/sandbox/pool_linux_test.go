package sandbox

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform/procguard"
)

func pooled(t *testing.T) (s *Sandbox, stop func()) {
	t.Helper()
	s = New(procguard.New(procguard.Options{}))
	if _, err := s.Class(false); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- s.Run(ctx) }()
	var once bool
	stop = func() {
		if cancel(); once {
			return
		}
		once = true
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return s, stop
}

// awaitReady waits until that many runners stand ready.
func awaitReady(t *testing.T, s *Sandbox, class capabilities.IsolationClass, want uint32) {
	t.Helper()
	for t.Context().Err() == nil {
		if n, _, _ := s.Ready(class); n == want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func output(t *testing.T, s *Sandbox, p Program) (text, scratch string) {
	t.Helper()
	child, err := s.Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	_ = child.Stdin().Close()
	out, err := io.ReadAll(child.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	if code, err := child.Wait(); err != nil || code != 0 {
		t.Fatalf("%d %v %s", code, err, child.Stderr())
	}
	return string(out), child.Scratch()
}

// A class whose programs come has runners that stand ready, and no other class has: each serves one
// program, and knows of no other (S1-39, S1-40).
func TestRunnersStandReady(t *testing.T) {
	s, stop := pooled(t)
	first, second := t.TempDir(), t.TempDir()
	look := func(dir string) Program {
		return Program{Argv: []string{"bash", "-c", `ls -A "$TMPDIR"; echo left >"$TMPDIR/left"; echo "$SECRET"; cat "$1/a" 2>/dev/null; echo own >"$2/a"`, "bash", first, dir}, Write: []string{dir}}
	}
	p := look(first)
	p.Env = []string{"SECRET=of the first"}
	text, one := output(t, s, p)
	if text != "of the first\n" {
		t.Errorf("%q", text)
	}
	awaitReady(t, s, capabilities.ClassT1, spare)
	if _, warm, cold := s.Ready(capabilities.ClassT1); warm != 0 || cold != 1 {
		t.Errorf("%d %d", warm, cold)
	}
	// The next one finds nothing of it: not its folder, its files, its variables, its scratch folder.
	text, two := output(t, s, look(second))
	if text != "\n" || one == two {
		t.Errorf("%q in %s after %s", text, two, one)
	}
	if _, warm, cold := s.Ready(capabilities.ClassT1); warm != 1 || cold != 1 {
		t.Errorf("%d %d", warm, cold)
	}
	// Another class has its own, and takes none of these.
	if n, warm, cold := s.Ready(capabilities.ClassT3); n != 0 || warm != 0 || cold != 0 {
		t.Errorf("%d %d %d", n, warm, cold)
	}
	awaitReady(t, s, capabilities.ClassT1, spare)
	if _, three := output(t, s, Program{Argv: []string{"true"}, Class: capabilities.ClassT3}); three == "" {
		t.Error("it has no folder")
	}
	if n, _, _ := s.Ready(capabilities.ClassT1); n != spare {
		t.Errorf("%d stand ready", n)
	}
	if _, warm, cold := s.Ready(capabilities.ClassT3); warm != 0 || cold != 1 {
		t.Errorf("%d %d", warm, cold)
	}
	if stop(); slices.ContainsFunc(Classes, func(c capabilities.IsolationClass) bool { n, _, _ := s.Ready(c); return n > 0 }) {
		t.Error("some stand ready after the end")
	}
}

// A runner that ended while it stood ready serves nobody.
func TestARunnerThatEnded(t *testing.T) {
	s, _ := pooled(t)
	output(t, s, Program{Argv: []string{"true"}})
	awaitReady(t, s, capabilities.ClassT1, spare)
	s.pools.mu.Lock()
	ready := slices.Clone(s.pools.class[capabilities.ClassT1].ready)
	s.pools.mu.Unlock()
	for _, child := range ready {
		_ = child.Close()
	}
	if text, _ := output(t, s, Program{Argv: []string{"echo", "ran"}}); text != "ran\n" {
		t.Errorf("%q", text)
	}
}

// A runner takes an order of its own class alone.
func TestARunnerHasOneClass(t *testing.T) {
	s, _ := pooled(t)
	child, err := s.prepare(t.Context(), capabilities.ClassT1)
	if err != nil {
		t.Fatal(err)
	}
	p := newProcess(t.Context(), child, &Program{}, func() {}, func() {})
	if err := p.tell(order{Path: "/bin/true", Argv: []string{"true"}, Dir: "/", Class: capabilities.ClassT3}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); capabilities.AsError(err).Code != capabilities.CodeIsolationUnavailable || !strings.Contains(err.Error(), "of class t1 has an order of class t3") {
		t.Errorf("%v", err)
	}
}
