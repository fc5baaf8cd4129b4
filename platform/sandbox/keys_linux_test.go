package sandbox_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

// S1-12, S1-13, S1-40: the execution keys of a call select the limits of its program, and without
// one for that it starts no other.
func TestExecutionKeysDecideLimits(t *testing.T) {
	s := heldTo(t, 0)
	for name, c := range map[string]struct {
		class          capabilities.IsolationClass
		keys           []string
		cpu, megabytes string
	}{
		"t0":                     {capabilities.ClassT0, nil, "1", "128"},
		"t1":                     {capabilities.ClassT1, nil, "30", "512"},
		"t3":                     {capabilities.ClassT3, nil, "60", "512"},
		"t1, more memory":        {capabilities.ClassT1, []string{capabilities.KeyMemory}, "30", "4096"},
		"t1, more time":          {capabilities.ClassT1, []string{capabilities.KeyExtended}, "600", "512"},
		"t1, the call's time":    {capabilities.ClassT1, []string{capabilities.KeyBurst}, "unlimited", "512"},
		"t1, everything, narrow": {capabilities.ClassT1, []string{capabilities.KeyBurst, capabilities.KeyExtended, capabilities.KeyMemory}, "unlimited", "4096"},
	} {
		p, err := s.Start(t.Context(), sandbox.Program{Argv: []string{"sh", "-c", "ulimit -t; ulimit -d"}, Class: c.class, Call: true, Keys: c.keys})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_ = p.Stdin().Close()
		said, _ := io.ReadAll(p.Stdout())
		code, err := p.Wait()
		cpu, memory, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
		if kilobytes := c.megabytes + " MiB"; code != 0 || err != nil || cpu != c.cpu || mebibytes(memory) != kilobytes {
			t.Errorf("%s: %s s, %s KiB, want %s s, %s; %d %v %s", name, cpu, memory, c.cpu, kilobytes, code, err, p.Stderr())
		}
	}
	for _, landlock := range []int{0, 4} {
		s := heldTo(t, landlock)
		for name, c := range map[string]struct {
			argv []string
			keys []string
			ok   bool
		}{
			"starts another":               {[]string{"child"}, []string{capabilities.KeySpawn}, true},
			"starts another without a key": {[]string{"child"}, []string{capabilities.KeyBurst}, false},
			"starts another without any":   {[]string{"child"}, nil, false},
			"becomes another":              {[]string{"exec"}, nil, false},
			"has threads":                  {[]string{"streams"}, nil, true},
		} {
			p := sandbox.Program{Argv: c.argv, Class: capabilities.ClassT1, Call: true, Keys: c.keys}
			if said := triedIn(t, s, p); (said == "<nil>") != c.ok {
				t.Errorf("Landlock %d, %s: %s", landlock, name, said)
			}
		}
	}
}

// A program that works on beyond its processor time is ended by the kernel (S1-13).
func TestProcessorTimeIsBounded(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := heldTo(t, 0).Start(t.Context(), sandbox.Program{Argv: []string{self, "try", "spin"}, Class: capabilities.ClassT0, Call: true})
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Stdin().Close()
	if said, _ := io.ReadAll(p.Stdout()); len(said) > 0 {
		t.Errorf("it came to its end: %s", said)
	}
	if code, err := p.Wait(); code == 0 || err != nil {
		t.Errorf("it ended with %d, %v", code, err)
	}
}

func mebibytes(kibibytes string) string {
	n := map[string]string{"131072": "128", "524288": "512", "4194304": "4096"}[kibibytes]
	return n + " MiB"
}

// S1-13: a program is an interpreter only if its call was granted that language.
func TestLanguageKeysDecideTheInterpreter(t *testing.T) {
	s := heldTo(t, 0)
	for _, c := range []struct {
		program, key string
		ok           bool
	}{
		{"perl", "", false}, {"perl", "execution.language.python", false}, {"perl", "execution.language.perl", true},
		{"/usr/bin/perl5.36", "", false}, {"sh", "", true},
	} {
		p, err := s.Start(t.Context(), sandbox.Program{Argv: []string{c.program, "-e", "1"}, Call: true, Keys: []string{c.key}})
		if refused := capabilities.CodeOf(err) == capabilities.CodeForbidden; refused == c.ok {
			t.Errorf("%s with %q: %v", c.program, c.key, err)
		}
		if err == nil {
			p.Kill()
			_, _ = p.Wait()
		}
	}
}

// S1-16, S1-17, S1-40: the data keys of a call decide which folders its program sees, and what it
// may do there. Folders that were made for it alone it may write whatever they say.
func TestDataKeysDecideFolders(t *testing.T) {
	s := heldTo(t, 0)
	readable, writable, own := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{readable, writable, own} {
		if err := os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	both, reads, none := []string{capabilities.KeyRead, capabilities.KeyWrite}, []string{capabilities.KeyRead}, []string{}
	for _, c := range []struct {
		what, dir string
		keys      []string
		ok        bool
	}{
		{"read", readable, both, true}, {"read", readable, reads, true}, {"read", readable, none, false},
		{"write", readable, both, false},
		{"read", writable, both, true}, {"read", writable, reads, true}, {"read", writable, none, false},
		{"write", writable, both, true}, {"write", writable, reads, false}, {"write", writable, none, false},
		{"write", own, both, true}, {"write", own, none, true},
	} {
		p := sandbox.Program{
			Argv: []string{c.what, filepath.Join(c.dir, "a")}, Read: []string{readable}, Write: []string{writable}, Own: []string{own}, Call: true, Keys: c.keys,
		}
		if said := triedIn(t, s, p); (said == "<nil>") != c.ok {
			t.Errorf("%s %s with %v: %s", c.what, filepath.Base(c.dir), c.keys, said)
		}
	}
}
