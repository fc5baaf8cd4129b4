package apps

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/platform"
)

func TestFind(t *testing.T) {
	data, system := t.TempDir(), t.TempDir()
	write := func(dir, id, text string) string {
		t.Helper()
		file := filepath.Join(dir, "applications", id)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("[Desktop Entry]\nType=Application\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	env := func(name string) string {
		return map[string]string{"XDG_DATA_HOME": data, "XDG_DATA_DIRS": system, "TERMINAL": "cat"}[name]
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh here")
	}
	cat, _ := exec.LookPath("cat")
	calc := write(system, "org.gnome.Calculator.desktop", "Name=Calculator\nName[de]=Taschenrechner\nExec=sh --gapplication %U\nPath="+data+"\n[Desktop Action x]\nExec=cat\n")
	write(system, "gone.desktop", "Name=Gone\nExec=/no/such/program\n")
	write(system, "hidden.desktop", "Name=Hidden\nExec=sh\nHidden=true\n")
	write(system, "mine.desktop", "Name=Mine\nExec=cat\n")
	write(data, "mine.desktop", "Name=Mine\nExec=sh user\n")
	write(system, "kde/tool.desktop", "Name=Tool\nExec=sh \"a b\\\\\\\\$\" %% --name=%c %i\nIcon=pic\n")
	write(system, "screen.desktop", "Name=Screen\nExec=sh\nTerminal=true\n")
	write(system, "twice1.desktop", "Name=Twice\nExec=cat\nNoDisplay=true\n")
	write(system, "twice2.desktop", "Name=Twice\nExec=sh\n")
	write(system, "danger.desktop", "Name=Danger\nExec=sh ; touch $(pwned) `x` && y\n")
	for _, c := range []struct {
		app  string
		args []string
		want []string
		dir  string
	}{
		{"org.gnome.Calculator", nil, []string{sh, "--gapplication"}, data},
		{"org.gnome.Calculator.desktop", []string{"f 1", "f2"}, []string{sh, "--gapplication", "f 1", "f2"}, data},
		{calc, nil, []string{sh, "--gapplication"}, data},
		{"Calculator", nil, []string{sh, "--gapplication"}, data},
		{"calculator", nil, []string{sh, "--gapplication"}, data},
		{"Taschenrechner", nil, []string{sh, "--gapplication"}, data},
		{"Mine", nil, []string{sh, "user"}, ""},
		{"Mine", []string{"-v"}, []string{sh, "user", "-v"}, ""},
		{"kde-tool", nil, []string{sh, "a b\\$", "%", "--name=Tool", "--icon", "pic"}, ""},
		{"Screen", nil, []string{cat, "-e", sh}, ""},
		{"Twice", nil, []string{sh}, ""},
		{"Danger", nil, []string{sh, ";", "touch", "$(pwned)", "`x`", "&&", "y"}, ""},
		{"sh", []string{"-c", "x; y"}, []string{sh, "-c", "x; y"}, ""},
		{sh, []string{"a"}, []string{sh, "a"}, ""},
	} {
		argv, dir, err := Find(c.app, c.args, env)
		if err != nil || !slices.Equal(argv, c.want) || dir != c.dir {
			t.Errorf("%s %q: got %q in %q, %v; want %q in %q", c.app, c.args, argv, dir, err, c.want, c.dir)
		}
	}
	for _, app := range []string{"", "Gone", "Hidden", "no such thing", "/no/such", "./sh", "a\x00b", "/etc/passwd"} {
		_, _, err := Find(app, nil, env)
		var missing *platform.MissingError
		if !errors.As(err, &missing) || missing.Fix == "" {
			t.Errorf("%q: %v", app, err)
		}
	}
	if _, _, err := Find("alcul", nil, env); err == nil || !strings.Contains(err.Error(), "Calculator") {
		t.Errorf("a part of a name does not lead to the name: %v", err)
	}
}

// A command line of a desktop file is split as the specification says, and never panics.
func FuzzEntry(f *testing.F) {
	f.Add("[Desktop Entry]\nType=Application\nName=A\nExec=sh \"a \\\\\"b\" %f %% %c\n", "x")
	f.Add("[Desktop Entry]\nExec=\"", "")
	f.Add("[Desktop Entry]\nExec=%", "%f")
	f.Fuzz(func(t *testing.T, raw, arg string) {
		e := parseEntry([]byte(raw))
		e.exec = "sh " + e.exec
		argv, _, err := e.command([]string{arg}, func(string) string { return "" })
		if err != nil {
			return
		}
		if !filepath.IsAbs(argv[0]) {
			t.Errorf("starts %q", argv)
		}
	})
}
