package service

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

func spec(role Role) Spec {
	return Spec{Role: role, Program: "/opt/hand rail/handrail", Args: []string{"--url", "https://a.example/?x=1&y=$HOME%h"}, Data: "/srv/data",
		Account: "handrail", Home: "/home/kim"}
}

// A gateway's service sees no folder of people and none for temporary files, so no path of its may
// lie there. A node is a person's own.
func TestWhatAServiceWouldNotSee(t *testing.T) {
	for _, c := range []struct {
		role                  Role
		program, data, hidden string
	}{
		{Gateway, "/usr/local/bin/handrail", "/var/lib/handrail", ""},
		{Gateway, "/home/kim/bin/handrail", "/var/lib/handrail", "/home/kim/bin/handrail"},
		{Gateway, "/usr/bin/handrail", "/run/user/1000/state", "/run/user/1000/state"},
		{Gateway, "/tmp/../tmp/handrail", "/srv/data", "/tmp/../tmp/handrail"},
		{Gateway, "/homes/handrail", "/srv/tmp/data", ""},
		{Node, "/home/kim/bin/handrail", "/home/kim/.local/state/handrail", ""},
	} {
		s := spec(c.role)
		s.Program, s.Data = c.program, c.data
		if p, err := For("linux", s); err != nil || p.Hidden != c.hidden {
			t.Errorf("%s %s %s: %q, %v", c.role, c.program, c.data, p.Hidden, err)
		}
	}
}

// Each system is told the whole command, word for word, whatever stands in it.
func TestPlansRunTheCommand(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		for _, role := range []Role{Gateway, Node} {
			p, err := For(goos, spec(role))
			if err != nil {
				t.Fatal(err)
			}
			all := ""
			for _, f := range p.Files {
				all += f.Text
			}
			for _, argv := range p.On {
				all += strings.Join(argv, " ") + "\n"
			}
			want := map[string]string{
				"linux":   `"/opt/hand rail/handrail" ` + string(role) + ` --data /srv/data --url "https://a.example/?x=1&y=$$HOME%%h"`,
				"darwin":  "<string>/opt/hand rail/handrail</string>\n<string>" + string(role) + "</string>\n<string>--data</string>\n<string>/srv/data</string>\n<string>--url</string>\n<string>https://a.example/?x=1&amp;y=$HOME%h</string>",
				"windows": `"/opt/hand rail/handrail" "` + string(role) + `" "--data" "/srv/data" "--url" "https://a.example/?x=1&y=$HOME%h"`,
			}[goos]
			if !strings.Contains(all, want) {
				t.Errorf("%s %s does not run %s:\n%s", goos, role, want, all)
			}
			if len(p.On) == 0 || len(p.Off) == 0 || len(p.Running) == 0 {
				t.Errorf("%s %s: %+v", goos, role, p)
			}
			if goos == "darwin" {
				for d := xml.NewDecoder(strings.NewReader(p.Files[0].Text)); ; {
					if _, err := d.Token(); errors.Is(err, io.EOF) {
						break
					} else if err != nil {
						t.Fatalf("%v:\n%s", err, p.Files[0].Text)
					}
				}
			}
		}
	}
	if _, err := For("plan9", spec(Gateway)); capabilities.CodeOf(err) != capabilities.CodeNotSupported {
		t.Error(err)
	}
	bad := spec(Gateway)
	bad.Args = []string{"--url\nExecStartPre=/bin/sh"}
	if _, err := For("linux", bad); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
		t.Errorf("a line break in a word: %v", err)
	}
}

// A file that somebody else wrote stays, and what cannot be switched on leaves none.
func TestInstallLeavesWhatIsNotOurs(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.service")
	p := Plan{Name: "a.service", Files: []File{{file, "# " + mark + "\n"}}, On: [][]string{{filepath.Join(dir, "no-such-program")}}}
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Install(t.Context()); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Error(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := p.Install(t.Context()); err == nil {
		t.Error("installed without the system's program")
	}
	if p.Installed(t.Context()) {
		t.Error("a service that could not be switched on left its file")
	}
	if err := p.Uninstall(t.Context()); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Error(err)
	}
	p.On = nil
	for range 2 { // and once more, over what is ours
		if err := p.Install(t.Context()); err != nil || !p.Installed(t.Context()) {
			t.Fatal(err)
		}
	}
	if err := p.Uninstall(t.Context()); err != nil || p.Installed(t.Context()) {
		t.Error(err)
	}
}
