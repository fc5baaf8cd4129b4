package desk

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Xdotool plays a person, or another program: events of the desk's XTEST devices.
func (d *Desk) Xdotool(args ...string) string {
	d.T.Helper()
	return d.Run("xdotool", args...)
}

// Pointer says where the pointer is, by xdotool.
func (d *Desk) Pointer() (x, y int) {
	d.T.Helper()
	for line := range strings.Lines(d.Xdotool("getmouselocation", "--shell")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		n, _ := strconv.Atoi(value)
		switch name {
		case "X":
			x = n
		case "Y":
			y = n
		}
	}
	return x, y
}

// Clipboard reads the clipboard by xclip; ok is false if nobody offers text.
func (d *Desk) Clipboard() (text string, ok bool) {
	d.T.Helper()
	text, err := d.Try("xclip", "-selection", "clipboard", "-o", "-target", "UTF8_STRING")
	return text, err == nil
}

// ClipboardTargets lists what the clipboard's owner offers.
func (d *Desk) ClipboardTargets() []string {
	d.T.Helper()
	out, _ := d.Try("xclip", "-selection", "clipboard", "-o", "-target", "TARGETS")
	return strings.Fields(out)
}

// ClipboardAs reads the clipboard in one of its targets.
func (d *Desk) ClipboardAs(target string) (string, error) {
	d.T.Helper()
	return d.Try("xclip", "-selection", "clipboard", "-o", "-target", target)
}

// SetClipboard puts text into the clipboard by xclip, which stays its owner.
func (d *Desk) SetClipboard(text string) *Process {
	d.T.Helper()
	file := filepath.Join(d.dir, "clip.txt")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		d.T.Fatalf("%v", err)
	}
	p := d.Start("xclip", "-selection", "clipboard", "-i", "-quiet", file)
	Await(d.T, "xclip to own the clipboard", func() bool {
		if p.Ended() {
			d.T.Fatalf("xclip ended: %v", p.Err)
		}
		got, ok := d.Clipboard()
		return ok && got == text
	})
	return p
}

// Xterm starts a terminal that writes what is typed into it to a file, a line at
// a time; Lines reads them.
func (d *Desk) Xterm() (a *App, lines func() []string) {
	d.T.Helper()
	d.fixed++
	file := filepath.Join(d.dir, fmt.Sprintf("xterm-%d.txt", d.fixed))
	a = d.AppTitled("desk-xterm", "xterm", "-u8", "-T", "desk-xterm", "-e", "sh", "-c", `exec cat >"$1"`, "sh", file)
	return a, func() []string {
		data, _ := os.ReadFile(file)
		return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	}
}

// Chromium shows a page in a window without a bar. The page's title is what App.Title reads, which
// makes the title the oracle of a page.
func (d *Desk) Chromium(html string, args ...string) *App {
	d.T.Helper()
	program := ""
	for _, name := range []string{"chromium", "google-chrome-stable", "google-chrome", "chromium-browser"} {
		if _, err := lookPath(name); err == nil {
			program = name
			break
		}
	}
	if program == "" {
		Need(d.T, "chromium")
	}
	d.fixed++
	page := filepath.Join(d.dir, fmt.Sprintf("page-%d.html", d.fixed))
	if err := os.WriteFile(page, []byte(html), 0o600); err != nil {
		d.T.Fatalf("%v", err)
	}
	all := []string{
		"--user-data-dir=" + filepath.Join(d.dir, fmt.Sprintf("chromium-%d", d.fixed)), "--no-first-run", "--no-default-browser-check",
		"--disable-gpu", "--password-store=basic", "--disable-component-update", "--disable-sync", "--disable-background-networking",
		"--disable-dev-shm-usage", "--no-sandbox", "--test-type", // the page is ours, and a container gives no sandbox
	}
	return d.App(program, append(append(all, args...), "--app=file://"+page)...)
}
