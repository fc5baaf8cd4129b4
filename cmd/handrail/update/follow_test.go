package update

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// device is a node of a gateway that is of some version.
type device struct {
	gateway string
	heard   func(string)
	leave   chan struct{}
	fails   error // what it ends with when it is to leave
}

func (d *device) Run(ctx context.Context) error {
	d.heard(d.gateway)
	select {
	case <-ctx.Done():
		return nil
	case <-d.leave:
		return d.fails
	}
}

func (d *device) Leave(time.Duration) { close(d.leave) }

// logged keeps what is logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
	news chan struct{}
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() {
		select {
		case l.news <- struct{}{}:
		default:
		}
	}()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// node is a program that is a node of that version; as one it ends with code.
func node(version string, code int) []byte {
	return fmt.Appendf(nil, "#!/bin/sh\nif [ \"$1\" = version ]; then echo '{\"version\":\"%s\",\"os\":\"%s\",\"arch\":\"%s\"}'; exit; fi\n"+
		"[ \"$1 $2\" = 'node --once' ] && exit %d\nexit 9\n", version, runtime.GOOS, runtime.GOARCH, code)
}

// A node takes its gateway's version when the owner's place has it, after the new program reached
// the gateway, and no other: its program is as it was then, nothing is beside it, and the node goes
// on.
func TestFollowing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("programs are scripts here")
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	_, stranger, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	lost := capabilities.Errorf(capabilities.CodeNodeRevoked, "revoked")
	for name, c := range map[string]struct {
		gateway string
		place   []byte // what is in the program's place; nil: the node's own
		offered []byte // in the release
		version string // of the release
		key     ed25519.PrivateKey
		fails   error
		becomes []byte // the program that takes over; nil: none does
		why     string // in the log, if it does not
		opens   int    // how often the node runs
	}{
		"the gateway's version is fetched": {gateway: "1.3.0", version: "1.3.0", offered: node("1.3.0", 0), becomes: node("1.3.0", 0), opens: 1},
		"one between the two is fetched":   {gateway: "1.4.0", version: "1.3.0", offered: node("1.3.0", 0), becomes: node("1.3.0", 0), opens: 1},
		"it is in place already":           {gateway: "1.3.0", place: node("1.3.0", 0), becomes: node("1.3.0", 0), opens: 1},
		"the place has one beyond the gateway's": {gateway: "1.3.0", version: "1.4.0", offered: node("1.4.0", 0),
			why: "newer than the gateway", opens: 1},
		"the place has none":             {gateway: "1.3.0", version: "1.2.0", offered: node("1.2.0", 0), why: "no version that is newer", opens: 1},
		"another signed it":              {gateway: "1.3.0", version: "1.3.0", offered: node("1.3.0", 0), key: stranger, why: "not signed", opens: 1},
		"it does not reach the gateway":  {gateway: "1.3.0", version: "1.3.0", offered: node("1.3.0", 1), why: "did not reach the gateway", opens: 2},
		"nor does the one in place":      {gateway: "1.3.0", place: node("1.3.0", 1), why: "did not reach the gateway", opens: 2},
		"the node was revoked meanwhile": {gateway: "1.3.0", version: "1.3.0", offered: node("1.3.0", 0), fails: lost, why: "revoked", opens: 1},
		"nothing is named, nor there":    {gateway: "1.3.0", why: "and the program handrail is not", opens: 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "handrail")
			before := node("1.2.0", 0)
			if c.place != nil {
				before = c.place
			}
			must(t, os.WriteFile(file, before, 0o755))
			log := &logged{news: make(chan struct{}, 1)}
			f := &Follower{
				Job:     Job{Key: public, Program: file, Version: "1.2.0", Say: func(string) {}},
				Command: []string{"node"}, Within: time.Minute, Again: time.Hour, Out: io.Discard, Err: io.Discard, Log: slog.New(slog.NewTextHandler(log, nil)),
			}
			if c.offered != nil {
				if c.key == nil {
					c.key = key
				}
				a := &attack{}
				a.put(c.offered)
				text := sealed(t, c.key, payloadType, Metadata{Version: c.version, Expires: time.Now().Add(time.Hour),
					Files: map[string]File{runtime.GOOS + "/" + runtime.GOARCH: a.file}})
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/handrail-update.json" {
						_, _ = w.Write(text)
						return
					}
					_, _ = w.Write(a.served)
				}))
				defer server.Close()
				f.Job.URL = server.URL + "/handrail-update.json"
			}
			opened, again := 0, make(chan struct{}, 9)
			f.Open = func(heard func(string)) (Node, error) {
				opened++
				again <- struct{}{}
				return &device{gateway: c.gateway, heard: heard, leave: make(chan struct{}), fails: c.fails}, nil
			}
			var became []byte
			f.Become = func() (err error) {
				became, err = os.ReadFile(file)
				return err
			}
			must(t, f.Able())
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			done := make(chan error, 1)
			go func() { done <- f.Run(ctx) }()
			if c.becomes == nil && c.fails == nil {
				for !strings.Contains(log.String(), "node.not_updated") {
					<-log.news
				}
				for range c.opens {
					<-again
				}
				stop()
			}
			if err := <-done; !errors.Is(err, c.fails) {
				t.Errorf("it ends with %v", err)
			}
			if string(became) != string(c.becomes) || opened != c.opens {
				t.Errorf("%.300q takes over; the node ran %d times", became, opened)
			}
			if c.becomes != nil {
				return
			}
			if !strings.Contains(log.String(), c.why) {
				t.Errorf("it says %s", log)
			}
			if is, err := os.ReadFile(file); err != nil || string(is) != string(before) {
				t.Errorf("the program is %.300q, %v", is, err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
}

// A node does not follow an older gateway, one of its own version, or one that is no release.
func TestNothingToFollow(t *testing.T) {
	for _, version := range []string{"", "1.2.0", "v1.2.0", "1.1.9", "1.2.0-rc.1", "devel-abc", "9"} {
		if Newer(version, "1.2.0") {
			t.Errorf("%q is newer", version)
		}
	}
	if err := (&Follower{Job: Job{Version: "devel"}}).Able(); capabilities.CodeOf(err) != capabilities.CodeNotSupported {
		t.Error(err)
	}
	if err := (&Follower{Job: Job{Version: "1.2.0", Program: "/usr/bin/handrail"}}).Able(); err != nil {
		t.Errorf("a program of the system's packages cannot be gone on with: %v", err)
	}
	for _, j := range []Job{{Version: "1.2.0", Program: "/usr/bin/handrail", URL: "https://releases.example/x"}, {Version: "1.2.0", URL: "http://releases.example/x"}} {
		if err := (&Follower{Job: j}).Able(); err == nil {
			t.Errorf("%+v is fetched", j)
		}
	}
}
