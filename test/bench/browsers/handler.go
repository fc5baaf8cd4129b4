package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/chrome"
	"github.com/handrail-dev/handrail/platform/procguard"
)

// alone is the browser handler in this process: our own floor, and what tells
// whether time goes on the way or in the browser.
type alone struct {
	h *browser.Handler
}

// newAlone returns the handler as a subject. With trace, the messages between it
// and Chrome are written there, each with its time.
func newAlone(b platform.Browser, site *pages, trace io.Writer) (subject, error) {
	var launcher platform.Launcher = procguard.New(procguard.Options{})
	if trace != nil {
		launcher = &tapped{launcher, &tape{w: trace, began: time.Now()}}
	}
	o := browser.Options{
		Finder: chrome.New(chrome.Options{Path: b.Path}), Launcher: launcher, AllowOrigins: []string{site.main, site.other},
		Log: slog.New(slog.DiscardHandler),
	}
	if b.NoSandbox != "" {
		o.Sandbox = browser.SandboxOff
	}
	h, err := browser.New(o)
	if err != nil {
		return nil, err
	}
	return &toolUser{called: "its handler alone", by: alone{h}, words: ours, close: h.Close}, nil
}

func (a alone) call(tool string, args any) (answer, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := a.h.Handle(ctx, capabilities.Invocation{
		Call:       "bench",
		Capability: capabilities.CapabilityID("tyrum.browser." + strings.ReplaceAll(strings.TrimPrefix(tool, "tool_browser_"), "_", "-")),
		Lane:       "bench", Args: raw,
	})
	if err != nil {
		return answer{}, err
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err = enc.Encode(out.Result)
	given := answer{text: text.String()}
	for _, blob := range out.Blobs {
		given.image = []byte(base64.StdEncoding.EncodeToString(blob.Bytes))
	}
	return given, err
}

// tapped is a launcher whose processes' messages are written down.
type tapped struct {
	platform.Launcher
	to *tape
}

func (t *tapped) Start(ctx context.Context, c platform.Command) (platform.Process, error) {
	p, err := t.Launcher.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return &tappedProcess{p, tap{t.to, "->", p.In(), nil}, tap{t.to, "<-", nil, p.Out()}}, nil
}

type tappedProcess struct {
	platform.Process
	in, out tap
}

func (p *tappedProcess) In() io.Writer  { return &p.in }
func (p *tappedProcess) Out() io.Reader { return &p.out }

// tape is the record: one line per read or write, with the ms since it began.
type tape struct {
	mu    sync.Mutex
	w     io.Writer
	began time.Time
}

func (t *tape) line(direction string, data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := float64(time.Since(t.began).Microseconds()) / 1000
	for part := range strings.SplitSeq(strings.TrimSuffix(string(data), "\x00"), "\x00") {
		if len(part) > 400 {
			part = part[:400] + fmt.Sprintf("… (%d bytes)", len(part))
		}
		fmt.Fprintf(t.w, "%10.2f %s %s\n", at, direction, part)
	}
}

type tap struct {
	to        *tape
	direction string
	w         io.Writer
	r         io.Reader
}

func (t *tap) Write(b []byte) (int, error) {
	t.to.line(t.direction, b)
	return t.w.Write(b)
}

func (t *tap) Read(b []byte) (int, error) {
	n, err := t.r.Read(b)
	if n > 0 {
		t.to.line(t.direction, b[:n])
	}
	return n, err
}

// traceFile makes the file of that name in the folder, unless that is empty.
func traceFile(dir, name string) (io.WriteCloser, error) {
	if dir == "" {
		return nil, errors.New("no folder")
	}
	return os.Create(filepath.Join(dir, name))
}
