package windows

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/platform/x11/x11test"
	"github.com/handrail-dev/handrail/test/desk"
)

func TestLaunch(t *testing.T) {
	desk.Need(t, "xterm")
	d := x11test.Bare(t, "")
	w := openWindows(t, d)
	t.Setenv("HANDRAIL_SECRET", "x")
	out := filepath.Join(t.TempDir(), "env")
	before := list(t, w)
	pid, err := w.Launch(x11test.Within(t), "xterm", []string{"-title", "a;b $(c)", "-e", "sh", "-c", "env >" + out + ".new; mv " + out + ".new " + out + "; sleep 1000"})
	if err != nil || pid == 0 {
		t.Fatal(pid, err)
	}
	t.Cleanup(func() {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	})
	desk.Await(t, "its window", func() bool {
		all := list(t, w)
		return len(all) == len(before)+1 && all[0].Title == "a;b $(c)" && all[0].PID == pid
	})
	var env []byte
	desk.Await(t, "its environment", func() bool { env, err = os.ReadFile(out); return err == nil })
	if strings.Contains(string(env), "HANDRAIL_SECRET") || !strings.Contains(string(env), "DISPLAY="+d.Display+"\n") {
		t.Errorf("started with %s", env)
	}
}
