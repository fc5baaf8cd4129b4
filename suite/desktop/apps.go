package desktop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/suite"
)

// browsers are the programs to try for the window that talks back.
func (s *whole) browsers() []Program {
	if s.o.Browser.App != "" {
		return []Program{s.o.Browser}
	}
	names := []string{"google-chrome-stable", "google-chrome", "chromium", "chromium-browser", "microsoft-edge"}
	switch runtime.GOOS {
	case "windows":
		names = []string{"chrome", "msedge"}
	case "darwin":
		names = []string{"Google Chrome", "Chromium", "Microsoft Edge"}
	}
	var args []string
	switch {
	case s.o.NoSandbox:
		args = []string{"--no-sandbox", "--test-type"}
	case os.Geteuid() == 0:
		panic(lack{"a Chrome in its sandbox, which refuses root; --browser-sandbox auto runs it without"})
	}
	var list []Program
	for _, n := range names {
		list = append(list, Program{n, args})
	}
	return list
}

// The programs to try for each kind of editor. Every one saves on Control+S.
func editors(kind string) []Program {
	switch kind {
	case "gtk":
		return []Program{
			{"mousepad", []string{"--disable-server", "{file}"}}, {"xed", []string{"{file}"}}, {"pluma", []string{"{file}"}},
			{"gedit", []string{"--standalone", "{file}"}},
		}
	case "qt":
		return []Program{
			{"featherpad", []string{"--standalone", "{file}"}}, {"kwrite", []string{"{file}"}}, {"kate", []string{"--new", "{file}"}},
		}
	}
	return nil
}

// launch starts a program and waits for a window with that text in its title. It is ended behind
// the behaviour. launch tells whether the program is installed; its process is then kept as {pid}.
func (r *run) launch(program Program, title string) bool {
	args := make([]any, len(program.Args))
	for i, a := range program.Args {
		args[i] = r.fill(a)
	}
	do := with("kind", "launch", "app", program.App)
	if len(args) > 0 {
		do["args"] = args
	}
	c := r.Made(r.Call("act", with("action", do, "then_wait", with("window", title, "timeout_ms", 40000))))
	if c.Code == "app_not_found" {
		return false
	}
	if c.Code != "" {
		r.Fail("launching %s: %s", program.App, c.End())
	}
	pid := int(suite.Number(c.Result, "pid"))
	r.vars["pid"] = float64(pid)
	started := processOf(pid)
	r.clean = append(r.clean, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		started.end(ctx)
	})
	if got := suite.Pick(c.Result, "wait.status"); got != "satisfied" {
		r.Fail("%s shows no window titled %q: %s", program.App, r.fill(title), suite.Brief(c.Result))
	}
	return true
}

// editor opens an editor of that kind on a new file with that text. The window's
// title is kept as {editor}.
func editor(kind, text string) step {
	return func(r *run) {
		r.s.files++
		name := fmt.Sprintf("hr%d-%d.txt", os.Getpid(), r.s.files)
		file := filepath.Join(r.s.dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			r.Fail("%v", err)
		}
		r.vars["file"], r.vars["editor"] = file, name
		candidates := editors(kind)
		if p, ok := r.s.o.Editors[kind]; ok {
			candidates = []Program{p}
		} else if p, ok := r.s.programs[kind]; ok {
			candidates = []Program{p}
		}
		for _, p := range candidates {
			if r.launch(p, "{editor}") {
				r.s.programs[kind] = p
				act(`window:~"{editor}"`, "activate")(r)
				// A window that has just come may not have its keyboard yet.
				await(with("selector", `window:~"{editor}" >> role:textbox && state:multiline`, "state", "focused"), "satisfied")(r)
				return
			}
		}
		panic(lack{string(map[string]need{"gtk": needsGTK, "qt": needsQt}[kind])})
	}
}

// saved has the editor save, and wants its file to hold that text.
func saved(want string) step {
	return func(r *run) {
		call("keyboard", with("action", "press", "key", "Control+s"))(r)
		holdsFile(want)(r)
	}
}

// pasted is saved for text that was pasted. It comes when its owner gives it, after the
// key was handled, and who saves before has none of it: so the editor saves until it has.
func pasted(want string) step {
	return soon(func(r *run) string {
		call("keyboard", with("action", "press", "key", "Control+s"))(r)
		return otherwise(r, want)
	})
}

// holdsFile wants the file to hold that text soon, but for newlines at its end.
func holdsFile(want string) step {
	return soon(func(r *run) string { return otherwise(r, want) })
}

// otherwise says what the file holds instead of that text.
func otherwise(r *run, want string) string {
	data, err := os.ReadFile(r.fill("{file}"))
	if err != nil {
		return err.Error()
	}
	if got := strings.TrimRight(string(data), "\n"); got != want {
		return fmt.Sprintf("the file holds %q, want %q", got, want)
	}
	return ""
}

// terminals are the programs to try that run one in their window: that of the
// first, then that of Wayland's sessions.
func terminals() []Program {
	work := []string{"sh", "-c", `exec cat >"$0"`, "{file}"}
	list := []Program{
		{"xterm", append([]string{"-u8", "-T", "{editor}", "-e"}, work...)},
		{"foot", append([]string{"-T", "{editor}"}, work...)},
	}
	if wayland() {
		list = list[1:] // xterm needs an X server
	}
	return list
}

// wayland reports a desktop whose programs are all clients of a Wayland compositor.
func wayland() bool { return os.Getenv("WAYLAND_DISPLAY") != "" && os.Getenv("DISPLAY") == "" }

// terminal opens one that writes each line typed into it to {file}.
func terminal() step {
	return func(r *run) {
		r.s.files++
		name := fmt.Sprintf("hr%d-%d.txt", os.Getpid(), r.s.files)
		r.vars["file"], r.vars["editor"] = filepath.Join(r.s.dir, name), name
		if !slices.ContainsFunc(terminals(), func(p Program) bool { return r.launch(p, "{editor}") }) {
			panic(lack{string(needsTerminal)})
		}
		act(`window:~"{editor}"`, "activate")(r)
		soon(func(r *run) string {
			if _, err := os.Stat(r.fill("{file}")); err != nil {
				return err.Error()
			}
			return ""
		})(r)
	}
}

// process is one that the suite had started. An ID may be another's later, so its
// beginning counts too.
type process struct {
	pid   int
	began string
}

func processOf(pid int) process { return process{pid, beginning(pid)} }

// end ends it, and waits until it is gone.
func (p process) end(ctx context.Context) {
	if p.pid <= 0 || p.began == "" || beginning(p.pid) != p.began {
		return
	}
	_ = thaw(p.pid)
	found, err := os.FindProcess(p.pid)
	if err != nil {
		return
	}
	defer found.Release()
	_ = found.Kill()
	for ctx.Err() == nil && beginning(p.pid) == p.began {
		time.Sleep(20 * time.Millisecond)
	}
}
