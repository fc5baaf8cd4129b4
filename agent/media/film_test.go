package media

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/handrail-dev/handrail/agent/spool"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/sensor/webm"
	"github.com/handrail-dev/handrail/platform"
)

// shelf keeps what a call committed, in clear, unless it has no room.
type shelf struct {
	files [][]byte
	full  string // where there is no room: create, write or commit
	open  int    // writers that were neither committed nor aborted
}

func (s *shelf) room(at string) error {
	if s.full == at {
		return capabilities.Wrap(capabilities.CodeArtifactSpace, errors.New("no space left on device"), "")
	}
	return nil
}

func (s *shelf) Create(capabilities.ArtifactSpec) (capabilities.ArtifactWriter, error) {
	if err := s.room("create"); err != nil {
		return nil, err
	}
	s.open++
	return &book{shelf: s}, nil
}

type book struct {
	bytes.Buffer
	shelf *shelf
	over  bool
}

func (b *book) Write(p []byte) (int, error) {
	if err := b.shelf.room("write"); err != nil && b.Len()+len(p) > 100 {
		return 0, err
	}
	return b.Buffer.Write(p)
}

func (b *book) Commit() (capabilities.Artifact, error) {
	if err := b.shelf.room("commit"); err != nil {
		return capabilities.Artifact{}, err
	}
	b.Abort()
	b.shelf.files = append(b.shelf.files, b.Bytes())
	return capabilities.Artifact{Size: int64(b.Len())}, nil
}

func (b *book) Abort() {
	if !b.over {
		b.over = true
		b.shelf.open--
	}
}

// filming is a recording that runs by a call.
type filming struct {
	*shelf
	began chan Recorded
	end   chan error
	out   capabilities.Output
	stop  context.CancelCauseFunc
}

func record(t *testing.T, h *Handler, call capabilities.CallID, args string) *filming {
	t.Helper()
	s := &shelf{}
	f := recordTo(t, h, call, args, s)
	f.shelf = s
	return f
}

func recordTo(t *testing.T, h *Handler, call capabilities.CallID, args string, spool capabilities.ArtifactSpool) *filming {
	t.Helper()
	f := &filming{began: make(chan Recorded, 1), end: make(chan error, 1)}
	var ctx context.Context
	ctx, f.stop = context.WithCancelCause(t.Context())
	go func() {
		var err error
		f.out, err = h.Handle(ctx, capabilities.Invocation{Call: call, Capability: screenFilm, Args: []byte(args), Spool: spool, Observe: func(string, string) {}, Progress: func(p capabilities.Progress) {
			var word Recorded
			if json.Unmarshal(p.Data, &word) == nil {
				f.began <- word
			}
		}})
		f.end <- err
	}()
	return f
}

// A recording is whole, a part that says so, or nothing, by what ended it.
func TestFilmEnds(t *testing.T) {
	for name, c := range map[string]struct {
		last  func(*testing.T, *Handler, *filming)
		end   string // "" for nothing
		whole bool
	}{
		"stopped": {func(t *testing.T, h *Handler, _ *filming) {
			for _, again := range []string{`{"stopped":true}`, `{"stopped":false}`} {
				out, err := h.Handle(t.Context(), capabilities.Invocation{Capability: filmEnds, Args: []byte(`{"recording":"c1"}`)})
				if body, _ := json.Marshal(out.Result); err != nil || string(body) != again {
					// It may be over by the second time.
					if capabilities.CodeOf(err) != capabilities.CodeNotFound {
						t.Errorf("stop: %s %v", body, err)
					}
				}
			}
		}, endStopped, true},
		"time over": {func(*testing.T, *Handler, *filming) {}, endTimeOver, true},
		"gateway gone": {func(_ *testing.T, _ *Handler, f *filming) {
			f.stop(capabilities.Wrap(capabilities.CodeCancelled, capabilities.ErrCut, ""))
		}, endCut, false},
		"cancelled": {func(_ *testing.T, _ *Handler, f *filming) {
			f.stop(&capabilities.Error{Code: capabilities.CodeCancelled})
		}, "", false},
		"node stopped": {func(_ *testing.T, _ *Handler, f *filming) {
			f.stop(&capabilities.Error{Code: capabilities.CodeStopped})
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // its time is over when everything else is done
				desk := &still{news: make(chan platform.Rect, 1)}
				h, err := New(Options{Opener: desk})
				if err != nil {
					t.Fatal(err)
				}
				defer h.Close()
				long := `"duration_ms":600000`
				if c.end == endTimeOver {
					long = `"duration_ms":1000`
				}
				f := record(t, h, "c1", `{"lane":"robot",`+long+`}`)
				if word := await(t, "first picture", f.began); word.Recording != "c1" || word.Started.IsZero() {
					t.Errorf("%+v", word)
				}
				args := func() map[string]any { return map[string]any{"action": "click", "text": "a\nb\u202ec"} }
				h.CallBegan("other", "someone", "tool.desktop.mouse", args)
				h.CallBegan("one", "robot", "tool.desktop.mouse", args)
				desk.change()
				h.CallEnded("one", "error stale_frame")
				h.CallEnded("other", "ok")
				h.CallBegan("two", "robot", "tool.desktop.wait", func() map[string]any { return nil })
				c.last(t, h, f)
				err = await(t, "end", f.end)
				h.mu.Lock()
				sources, films, door := len(h.sources), len(h.films), h.door.users
				h.mu.Unlock()
				if sources != 0 || films != 0 || door != 0 {
					t.Errorf("%d encoders, %d films and %d at the door are left", sources, films, door)
				}
				if c.end == "" {
					if err == nil || len(f.files) != 0 {
						t.Fatalf("it left %d files: %v", len(f.files), err)
					}
					return
				}
				if err != nil || len(f.files) != 1 || len(f.out.Artifacts) != 1 {
					t.Fatal(err, len(f.files))
				}
				r := f.out.Result.(filmResult)
				if r.End != c.end || r.Whole != c.whole || c.whole != (f.out.Effect == capabilities.EffectConfirmed) || r.Chapters != 2 || r.Width != 160 || r.Height != 96 {
					t.Errorf("%+v %s", r, f.out.Effect)
				}
				info, err := webm.Read(f.files[0])
				if err != nil || info.Tracks[0].Frames != r.Frames {
					t.Errorf("%+v %v", info, err)
				}
				file := string(f.files[0])
				for _, want := range []string{"tool.desktop.mouse action=click text=a\\u{a}b\\u{202e}c: error stale_frame", "tool.desktop.wait: still running"} {
					if !strings.Contains(file, want) {
						t.Errorf("there is no chapter %q", want)
					}
				}
			})
		})
	}
}

// A film is bounded, and there are few at once.
func TestFilmBounds(t *testing.T) {
	m := newFilm("robot", "c1", func() {})
	key := append([]byte{0, 0, 0, 0x9D, 0x01, 0x2A, 160, 0, 96, 0}, make([]byte, 1<<20)...)
	for range 2 * maxFilm >> 20 {
		m.add(&frame{data: key, key: true})
	}
	if n := m.web.Bytes(); n > maxFilm || n < maxFilm-2<<20 {
		t.Errorf("%d bytes", n)
	}
	await(t, "the end", m.full)
	if m.end() {
		t.Error("what was full was stopped as well")
	}
	for range maxChapters + 3 {
		m.callBegan("x", "tool.desktop.mouse", func() map[string]any { return map[string]any{"text": strings.Repeat("x", 1000)} })
	}
	if len(m.list) != maxChapters || m.left != 3 || len([]rune(m.list[0].what)) != maxTitle {
		t.Errorf("%d chapters, %d left out, of %d characters", len(m.list), m.left, len(m.list[0].what))
	}

	h, err := New(Options{Opener: &still{news: make(chan platform.Rect, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	const order = `{"lane":"robot","duration_ms":600000}`
	one, two := record(t, h, "c1", order), record(t, h, "c2", order)
	await(t, "first picture", one.began)
	await(t, "first picture", two.began)
	if err := await(t, "refusal", record(t, h, "c3", order).end); capabilities.CodeOf(err) != capabilities.CodeOverloaded {
		t.Errorf("a third recording: %v", err)
	}
}

// A viewer who comes while the screen is looked at for the others gets a picture, too, though the
// screen does not change and only one picture was wanted before.
func TestWhoComesMeanwhile(t *testing.T) {
	desk := &still{news: make(chan platform.Rect, 1)}
	h, err := New(Options{Opener: desk})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	late := newFilm("robot", "late", func() {})
	desk.look = sync.OnceFunc(func() {
		h.mu.Lock()
		src := h.sources[""]
		h.mu.Unlock()
		src.add(&viewer{film: late})
	})
	one := record(t, h, "c1", `{"lane":"robot","duration_ms":600000}`)
	await(t, "first picture", one.began)
	await(t, "first picture of who came late", late.first)
}

// A recording that cannot be kept says so, leaves nothing half-written and nothing open,
// and the screen can be recorded again.
func TestFilmWithoutRoom(t *testing.T) {
	desk := &still{news: make(chan platform.Rect, 1)}
	h, err := New(Options{Opener: desk})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	const order = `{"lane":"robot","duration_ms":600000}`
	fails := func(t *testing.T, call capabilities.CallID, to capabilities.ArtifactSpool) {
		t.Helper()
		f := recordTo(t, h, call, order, to)
		await(t, "first picture", f.began)
		if _, err := h.Handle(t.Context(), capabilities.Invocation{Capability: filmEnds, Args: []byte(`{"recording":"` + string(call) + `"}`)}); err != nil {
			t.Fatal(err)
		}
		if err := await(t, "end", f.end); capabilities.CodeOf(err) != capabilities.CodeArtifactSpace || len(f.out.Artifacts) != 0 {
			t.Errorf("it ended with %v and %d files", err, len(f.out.Artifacts))
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.sources) != 0 || len(h.films) != 0 || h.viewers != 0 {
			t.Errorf("%d encoders, %d films and %d viewers are left", len(h.sources), len(h.films), h.viewers)
		}
	}
	for _, at := range []string{"create", "write", "commit"} {
		to := &shelf{full: at}
		fails(t, capabilities.CallID("no-room-to-"+at), to)
		if to.open != 0 || len(to.files) != 0 {
			t.Errorf("%s: %d writers are open, %d files were kept", at, to.open, len(to.files))
		}
	}

	// The node's own spool, which has no room.
	dir := t.TempDir()
	kept, err := spool.Open(spool.Options{Dir: filepath.Join(dir, "spool"), KeyFile: filepath.Join(dir, "key"), Quota: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	call := kept.For("no-room", maxFilm)
	fails(t, "no-room", call)
	if err := call.Settle(nil); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "spool")); err != nil || len(left) != 0 || kept.Used() != 0 {
		t.Errorf("%d files, %d bytes are left: %v", len(left), kept.Used(), err)
	}

	after := record(t, h, "c2", order)
	await(t, "first picture", after.began)
	if _, err := h.Handle(t.Context(), capabilities.Invocation{Capability: filmEnds, Args: []byte(`{"recording":"c2"}`)}); err != nil {
		t.Fatal(err)
	}
	if err := await(t, "end", after.end); err != nil || len(after.files) != 1 {
		t.Errorf("the next one: %v", err)
	}
}
