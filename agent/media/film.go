package media

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/sensor/webm"
)

// The capabilities of a recording: the screen as a file, and its end before its time.
const (
	screenFilm capabilities.CapabilityID = "tyrum.live.record"
	filmEnds   capabilities.CapabilityID = "tyrum.live.record-stop"
)

const (
	// maxFilm bounds a film in bytes: it is in memory until it is whole.
	maxFilm = 56 << 20
	// maxFilms bounds the films that are made at once.
	maxFilms = 2
	// maxChapters bounds the chapters of a film, and maxTitle one's name in characters.
	maxChapters = 2000
	maxTitle    = 160
	// filmRate is what a film's encoder may use, in bits per second: beyond, the picture
	// is coarser until it rests.
	filmRate = 4_000_000
	// keyGap is how long a film is without a frame that one can jump to, while it moves.
	keyGap = 10 * time.Second
	// lastPicture is how long the end of a film waits for the screen as it is then.
	lastPicture = 2 * time.Second
)

// How a film ended.
const (
	endStopped  = "stopped"
	endTimeOver = "time_over"
	endTooLarge = "too_large"
	endCut      = "cut"
)

// film is a recording that is being made. It is a viewer without a way: the encoder's output is
// kept.
type film struct {
	lane    capabilities.LaneID
	own     capabilities.CallID
	wantKey func()
	first   chan struct{} // closed with the first frame
	full    chan struct{} // closed when there is no more room
	stop    chan struct{} // closed by whoever ends it before its time
	ending  chan struct{} // closed with a key frame of after since

	mu      sync.Mutex // above what follows
	web     webm.Film
	began   time.Time // of the first frame
	lastKey time.Time
	since   time.Time // what the last picture has to be of; zero: not said yet
	over    bool      // full or stop is closed
	kept    bool      // it takes nothing more
	list    []entry
	at      map[capabilities.CallID]int // in list, of calls that run
	left    int                         // calls for which there was no room
}

// entry is a call of the lane.
type entry struct {
	from, to time.Time
	what     string
	outcome  string
}

func newFilm(lane capabilities.LaneID, own capabilities.CallID, wantKey func()) *film {
	return &film{
		lane: lane, own: own, wantKey: wantKey, first: make(chan struct{}), full: make(chan struct{}), stop: make(chan struct{}),
		ending: make(chan struct{}), at: map[capabilities.CallID]int{},
	}
}

// add keeps a frame. Frames before one that can be shown by itself are of no use.
func (m *film) add(f *frame) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept || m.over && m.web.Bytes()+len(f.data) > maxFilm {
		return
	}
	if m.web.Frames() == 0 {
		m.began = f.at
	}
	if m.web.Bytes()+len(f.data) > maxFilm {
		m.over = true
		close(m.full)
		return
	}
	if m.web.Add(f.at.Sub(m.began), f.data) != nil {
		return
	}
	if m.web.Frames() == 1 {
		close(m.first)
	}
	if f.key {
		m.lastKey = f.at
		if !m.since.IsZero() && !f.looked.Before(m.since) {
			close(m.ending)
			m.since = time.Time{}
		}
	} else if f.at.Sub(m.lastKey) >= keyGap {
		m.wantKey()
	}
}

// end stops it; false if it was over already.
func (m *film) end() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return false
	}
	m.over = true
	close(m.stop)
	return true
}

// awaitLast has the screen as it is now be the last picture, if it comes in time. It is
// called once.
func (m *film) awaitLast() {
	m.mu.Lock()
	m.since = time.Now() // a picture that is on its way shows what was before
	m.mu.Unlock()
	m.wantKey()
	timer := time.NewTimer(lastPicture)
	defer timer.Stop()
	select {
	case <-m.ending:
	case <-m.full:
	case <-timer.C:
	}
}

func (m *film) callBegan(call capabilities.CallID, tool capabilities.ToolID, args func() map[string]any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept || call == m.own || tool.Family() == "live" {
		return
	}
	if len(m.list) == maxChapters {
		m.left++
		return
	}
	m.at[call] = len(m.list)
	m.list = append(m.list, entry{from: time.Now(), what: titled(tool, args())})
}

func (m *film) callEnded(call capabilities.CallID, outcome string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i, ok := m.at[call]; ok && !m.kept {
		delete(m.at, call)
		m.list[i].to, m.list[i].outcome = time.Now(), outcome
	}
}

// titled is a call in words: its tool, and what its descriptor lets out of its
// arguments.
func titled(tool capabilities.ToolID, args map[string]any) string {
	var b strings.Builder
	b.WriteString(string(tool))
	for _, k := range slices.Sorted(maps.Keys(args)) {
		fmt.Fprintf(&b, " %s=%v", k, args[k])
	}
	return capabilities.Brief(capabilities.Escape(b.String()), maxTitle)
}

// chaptersLocked returns the calls as parts of the film.
func (m *film) chaptersLocked(end time.Time) []webm.Chapter {
	all := make([]webm.Chapter, 0, len(m.list))
	for _, e := range m.list {
		if e.outcome == "" {
			e.to, e.outcome = end, "still running"
		}
		all = append(all, webm.Chapter{From: e.from.Sub(m.began), To: e.to.Sub(m.began), Title: e.what + ": " + e.outcome})
	}
	return all
}

// CallBegan tells the films of that lane.
func (h *Handler) CallBegan(call capabilities.CallID, lane capabilities.LaneID, tool capabilities.ToolID, args func() map[string]any) {
	for _, m := range h.filmsNow() {
		if m.lane == lane {
			m.callBegan(call, tool, args)
		}
	}
}

// CallEnded tells the films.
func (h *Handler) CallEnded(call capabilities.CallID, outcome string) {
	for _, m := range h.filmsNow() {
		m.callEnded(call, outcome)
	}
}

func (h *Handler) filmsNow() []*film {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*film, 0, len(h.films))
	for _, m := range h.films {
		all = append(all, m)
	}
	return all
}

type filmArguments struct {
	Lane       capabilities.LaneID `json:"lane"`
	DurationMS int64               `json:"duration_ms"`
	Display    string              `json:"display"`
}

// Recorded is the word that a recording sends once it has its first frame: what ends it.
type Recorded struct {
	Recording capabilities.CallID `json:"recording"`
	// Started is when the first frame was taken, by the device's clock.
	Started time.Time `json:"started_at"`
}

type filmResult struct {
	MIME       string  `json:"mime"`
	DurationMS float64 `json:"duration_ms"`
	Timestamp  string  `json:"timestamp"` // of the beginning
	Width      int     `json:"width"`
	Height     int     `json:"height"`
	Frames     int     `json:"frames"`
	Chapters   int     `json:"chapters"`
	LeftOut    int     `json:"chapters_left_out,omitempty"`
	// Whole is false for what ended before anybody wanted it to.
	Whole bool   `json:"whole"`
	End   string `json:"end"`
}

// record makes a film of the screen until its time is over or it is stopped. A film that ends by
// itself (the screen went, the gateway did) is kept up to there and says so; one whose call
// somebody ended is not kept at all.
func (h *Handler) record(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var args filmArguments
	if err := json.Unmarshal(inv.Args, &args); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "The arguments do not have the expected shape.")
	}
	if inv.Spool == nil {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNotSupported, "This node keeps no files.")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.life, func() { cancel(closing()) })()
	if reason := h.o.Opener.Locked(ctx); reason != "" {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeSessionLocked, "%s", reason)
	}
	src, err := h.sourceFor(args.Display, outlet{codec: vp8Codec})
	if err != nil {
		return capabilities.Output{}, err
	}
	m := newFilm(args.Lane, inv.Call, src.wantKey)
	v := &viewer{film: m}
	if !h.begin(m) {
		h.unlook(src)
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeOverloaded, "%d recordings are the most.", maxFilms)
	}
	leave := sync.OnceFunc(func() {
		src.drop(v)
		h.forget(m)
		h.unlook(src)
	})
	defer leave()
	inv.Observe("data.read.screen", "recording")
	inv.Observe("data.capture.screen", "recording")
	src.add(v)
	end, err := m.follow(ctx, src, time.Duration(args.DurationMS)*time.Millisecond, inv)
	if err != nil {
		return capabilities.Output{}, explain(ctx, err)
	}
	if end == endStopped || end == endTimeOver {
		m.awaitLast()
	}
	leave()
	return m.keep(inv, end)
}

// follow waits for the film's end and says how it ended. An error means that nothing is
// to be kept.
func (m *film) follow(ctx context.Context, src *source, length time.Duration, inv capabilities.Invocation) (string, error) {
	timer := time.NewTimer(connectTime)
	defer timer.Stop()
	select {
	case <-m.first:
	case <-timer.C:
		return "", capabilities.Errorf(capabilities.CodeDeadlineExceeded, "No picture came from the screen.")
	case <-src.end:
		return "", src.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	m.mu.Lock()
	began := m.began
	m.mu.Unlock()
	word, err := json.Marshal(Recorded{inv.Call, began.UTC()})
	if err != nil {
		return "", err
	}
	inv.Progress(capabilities.Progress{Message: "recording", Data: word})
	timer.Reset(length - time.Since(began))
	select {
	case <-m.stop:
		return endStopped, nil
	case <-timer.C:
		return endTimeOver, nil
	case <-m.full:
		return endTooLarge, nil
	case <-src.end:
		return endCut, nil
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), capabilities.ErrCut) {
			return endCut, nil
		}
		return "", context.Cause(ctx)
	}
}

// keep writes the file.
func (m *film) keep(inv capabilities.Invocation, end string) (capabilities.Output, error) {
	m.mu.Lock()
	now := time.Now()
	chapters := m.chaptersLocked(now)
	m.kept = true // from here on it is this goroutine's
	m.mu.Unlock()
	const mime = "video/webm"
	w, err := inv.CreateArtifact(capabilities.ArtifactSpec{Name: "recording-" + m.began.UTC().Format("20060102-150405") + ".webm", MIME: mime})
	if err != nil {
		return capabilities.Output{}, err
	}
	defer w.Abort()
	length := now.Sub(m.began)
	if err := m.web.Write(w, length, chapters); err != nil {
		return capabilities.Output{}, err
	}
	kept, err := w.Commit()
	if err != nil {
		return capabilities.Output{}, err
	}
	width, height := m.web.Size()
	r := filmResult{
		MIME: mime + ";codecs=vp8", DurationMS: float64(length.Milliseconds()), Timestamp: m.began.UTC().
			Format(time.RFC3339Nano), Width: width, Height: height,
		Frames: m.web.Frames(), Chapters: len(chapters), LeftOut: m.left, Whole: end == endStopped || end == endTimeOver, End: end,
	}
	out := capabilities.Output{Result: r, Artifacts: []capabilities.Artifact{kept}, Effect: capabilities.EffectConfirmed, Untrusted: true,
		Evidence: fmt.Sprintf("%d frames in %.0f ms, %d chapters", r.Frames, r.DurationMS, r.Chapters)}
	if !r.Whole {
		out.Effect, out.Evidence = capabilities.EffectPartial, "it ended before its time: "+map[string]string{
			endTooLarge: "the file was as large as one may be", endCut: "the screen or the gateway was gone",
		}[end]
	}
	return out, nil
}

// stopFilm ends a recording; its own call makes the file.
func (h *Handler) stopFilm(inv capabilities.Invocation) (capabilities.Output, error) {
	var args struct {
		Recording capabilities.CallID `json:"recording"`
	}
	if err := json.Unmarshal(inv.Args, &args); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "The arguments do not have the expected shape.")
	}
	h.mu.Lock()
	m := h.films[args.Recording]
	h.mu.Unlock()
	if m == nil {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNotFound, "This recording does not exist, or has ended.")
	}
	return capabilities.Output{
		Result: map[string]bool{"stopped": m.end()}, Effect: capabilities.EffectConfirmed, Evidence: "the recording takes no more frames",
	}, nil
}

// begin lets a film hear of calls.
func (h *Handler) begin(m *film) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.films) >= maxFilms {
		return false
	}
	h.films[m.own] = m
	return true
}

func (h *Handler) forget(m *film) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.films, m.own)
}
