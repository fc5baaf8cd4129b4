package main

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/handrail-dev/handrail/test/desk"
)

// The first start in a terminal of a desktop opens the console in the person's browser, by an
// address that holds no secret, and the number that the terminal shows signs in there. The second
// start opens nothing.
func TestTheFirstStartOpensTheConsole(t *testing.T) {
	dir := t.TempDir()
	bin, opened := filepath.Join(dir, "bin"), filepath.Join(dir, "opened")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte("#!/bin/sh\nprintf '%s\\n' \"$#\" \"$@\" >'"+opened+".new' && mv '"+opened+".new' '"+opened+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	program := programsIn(t, dir)
	start := func(data string, args ...string) (*aTerminal, func()) {
		x := openTerminal(t)
		cmd := program.program(data, append([]string{"up", "--browser-sandbox", "auto", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--no-task"}, args...)...)
		cmd.Args = append(cmd.Args[:1], cmd.Args[2:]...) // without --json: it is for a person
		cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "DISPLAY=:0", "CI=", "SSH_CONNECTION=", "SSH_TTY=", "SUDO_UID=", "XDG_SESSION_ID=2", "NO_COLOR=1", "TERM=xterm")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = x.slave, x.slave, x.slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		end := func() {
			_ = cmd.Process.Signal(os.Interrupt)
			_ = cmd.Wait()
		}
		t.Cleanup(end)
		return x, end
	}
	data := filepath.Join(dir, "data")
	x, end := start(data)
	var number []string
	desk.Await(t, "a number to be shown", func() bool {
		number = regexp.MustCompile(`(?m)^    (\d{4} \d{4})\s*$`).FindStringSubmatch(x.frame())
		return number != nil
	})
	desk.Await(t, "the browser to be opened", func() bool { _, err := os.Stat(opened); return err == nil })
	told, err := os.ReadFile(opened)
	if err != nil {
		t.Fatal(err)
	}
	page, once := strings.CutPrefix(strings.TrimSpace(string(told)), "1\n")
	if !once || !regexp.MustCompile(`^http://localhost:\d+/console/login$`).MatchString(page) {
		t.Fatalf("the opener was told %q", told)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodPost, page+"/number", strings.NewReader(url.Values{"number": {number[1]}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", strings.TrimSuffix(page, "/console/login"))
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/console/entered" || resp.Header.Get("Set-Cookie") == "" {
		t.Errorf("the number opens no session: %d %v", resp.StatusCode, resp.Header)
	}
	x.await("The number was used")
	end()

	if err := os.Remove(opened); err != nil {
		t.Fatal(err)
	}
	for name, again := range map[string]func() (*aTerminal, func()){
		"a second start": func() (*aTerminal, func()) { return start(data) },
		"--no-open":      func() (*aTerminal, func()) { return start(filepath.Join(dir, "other"), "--no-open") },
	} {
		x, end := again()
		x.await("Ctrl-C ends it")
		end()
		if _, err := os.Stat(opened); err == nil || strings.Contains(x.frame(), "Type this number") {
			t.Errorf("%s opens the console:\n%s", name, x.frame())
		}
	}
}
