package media

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp/codecs"
	"github.com/pion/webrtc/v4"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// still is a desktop with a small screen that changes when it is told to.
type still struct {
	mu     sync.Mutex
	seq    uint64
	looked int    // how often it was looked at
	look   func() // instead of doing nothing else meanwhile
	noise  bool
	news   chan platform.Rect
}

func (s *still) Open(context.Context) (*platform.Desktop, error) {
	return &platform.Desktop{Name: "still", Screen: s}, nil
}
func (s *still) Locked(context.Context) string { return "" }
func (s *still) Close() error                  { return nil }

var stillArea = platform.Rect{Width: 160, Height: 96}

func (s *still) Layout(context.Context) (platform.Layout, error) {
	return platform.Layout{Displays: []platform.Display{{ID: "one", Bounds: stillArea, Primary: true}}}, nil
}

func (s *still) Frame(context.Context, platform.Rect, bool) (*platform.Frame, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked++
	if s.look != nil {
		s.look()
	}
	pix := make([]byte, stillArea.Width*stillArea.Height*4)
	for i := range pix {
		if pix[i] = byte(s.seq * 40); s.noise {
			pix[i] = byte(rand.Uint32())
		}
	}
	return &platform.Frame{Area: stillArea, Seq: s.seq, At: time.Now(), Pix: pix, Stride: stillArea.Width * 4}, nil
}

func (s *still) Changes(context.Context, platform.Rect) (<-chan platform.Rect, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.news, nil
}

func (s *still) change() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	select {
	case s.news <- stillArea:
	default:
	}
}

// seen is a frame as a viewer got it.
type seen struct {
	key  bool
	at   uint32 // when the screen showed it, of a clock of 90 kHz
	data string
}

// watching is a viewer who watches by a call.
type watching struct {
	*webrtc.PeerConnection
	frames chan seen
	ssrc   chan uint32
	end    chan error
	out    any // of the call; good after end
	cancel context.CancelFunc
}

func watch(t *testing.T, h *Handler) *watching {
	t.Helper()
	return watchBy(t, h, newViewer(t), func(answer string) string { return answer })
}

// watchBy is watch by a viewer that gets the answer changed.
func watchBy(t *testing.T, h *Handler, viewer *webrtc.PeerConnection, change func(answer string) string) *watching {
	t.Helper()
	return watchWith(t, h, viewer, change, func(json.RawMessage) {})
}

// watchWith is watchBy that hears what else the session says.
func watchWith(t *testing.T, h *Handler, viewer *webrtc.PeerConnection, change func(answer string) string, heard func(json.RawMessage)) *watching {
	t.Helper()
	w := &watching{PeerConnection: viewer, frames: make(chan seen, 4096), ssrc: make(chan uint32, 1), end: make(chan error, 1)}
	w.OnTrack(func(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) {
		w.ssrc <- uint32(track.SSRC())
		var data []byte
		for {
			p, _, err := track.ReadRTP()
			if err != nil {
				return
			}
			var vp8 codecs.VP8Packet
			part, err := vp8.Unmarshal(p.Payload)
			if err != nil {
				continue
			}
			if data = append(data, part...); p.Marker {
				w.frames <- seen{key: data[0]&1 == 0, at: p.Timestamp, data: string(data)}
				data = nil
			}
		}
	})
	args, err := json.Marshal(arguments{Offer: offerOf(t, w.PeerConnection)})
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	w.cancel = cancel
	go func() {
		out, err := h.Handle(ctx, capabilities.Invocation{Capability: screenLive, Args: args, Progress: func(p capabilities.Progress) {
			var word Answered
			if json.Unmarshal(p.Data, &word) == nil && word.Answer != "" {
				answers <- word.Answer
			} else {
				heard(p.Data)
			}
		}})
		w.out = out.Result
		w.end <- err
	}()
	answer := change(await(t, "answer", answers))
	if err := w.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}); err != nil {
		t.Fatal(err)
	}
	return w
}

// Several viewers are shown the same frames of one encoder; one who asks for key frames
// without end gets few, and so does nobody else; the last who goes closes the door.
func TestViewersShareOneEncoder(t *testing.T) {
	desk := &still{news: make(chan platform.Rect, 1), noise: true}
	h, err := New(Options{Opener: desk})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	one := watch(t, h)
	if f := await(t, "first frame", one.frames); !f.key {
		t.Error("the first frame is no key frame")
	}
	two, three := watch(t, h), watch(t, h)
	for _, w := range []*watching{two, three} {
		if f := await(t, "first frame of another", w.frames); !f.key {
			t.Error("another's first frame is no key frame")
		}
	}
	h.mu.Lock()
	sources, viewers := len(h.sources), h.viewers
	h.mu.Unlock()
	if sources != 1 || viewers != 3 {
		t.Errorf("%d viewers have %d encoders", viewers, sources)
	}

	// A frame that one of them gets from now on, all get.
	ssrc := await(t, "track", one.ssrc)
	stop := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = one.WriteRTCP([]rtcp.Packet{&rtcp.PictureLossIndication{MediaSSRC: ssrc}})
				desk.change()
			case <-stop:
				return
			}
		}
	})
	var all []seen
	for keys := 0; keys < 5; {
		f := await(t, "frame", one.frames)
		if all = append(all, f); f.key {
			keys++
		}
	}
	close(stop)
	asking.Wait()
	var keys []uint32
	for _, f := range all {
		if f.key {
			keys = append(keys, f.at)
		}
	}
	// A frame may be looked at some time before it is encoded, so the whole counts, with
	// one interval to spare.
	if took := time.Duration(keys[len(keys)-1]-keys[0]) * time.Second / clockRate; took < time.Duration(len(keys)-2)*keyEvery {
		t.Errorf("%d key frames in %v, for somebody who asked 200 times a second", len(keys), took)
	}
	if len(all) <= len(keys) {
		t.Errorf("%d frames, %d of them key frames", len(all), len(keys))
	}
	// Not each of them, for who was late misses some; no two encoders make the same noise.
	shown := map[string]bool{}
	for _, f := range all {
		shown[f.data] = true
	}
	for _, w := range []*watching{two, three} {
		for f := await(t, "a frame that another had, too", w.frames); !shown[f.data]; f = await(t, "a frame that another had, too", w.frames) {
			continue
		}
	}

	// One who goes leaves the others what they have.
	two.cancel()
	if err := await(t, "end", two.end); capabilities.CodeOf(err) != capabilities.CodeCancelled {
		t.Errorf("it ended with %v", err)
	}
	desk.change()
	desk.mu.Lock()
	looked := desk.looked
	desk.mu.Unlock()
	for len(three.frames) > 0 {
		<-three.frames
	}
	desk.change()
	await(t, "frame after another left", three.frames)
	one.cancel()
	three.cancel()
	await(t, "end", one.end)
	await(t, "end", three.end)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.sources) != 0 || h.viewers != 0 || h.door.users != 0 {
		t.Errorf("nobody watches, and there are %d sources, %d viewers, %d at the door", len(h.sources), h.viewers, h.door.users)
	}
	if looked == 0 || slices.ContainsFunc(all, func(f seen) bool { return f.data == "" }) {
		t.Error("nothing was seen")
	}
}

// As many as may watch see the screen at once, one more is refused, and all go at once.
func TestManyViewers(t *testing.T) {
	desk := &still{news: make(chan platform.Rect, 1)}
	h, err := New(Options{Opener: desk})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var all []*watching
	for range maxViewers {
		all = append(all, watch(t, h))
	}
	for _, w := range all {
		if f := await(t, "first frame", w.frames); !f.key {
			t.Error("the first frame is no key frame")
		}
	}
	args, err := json.Marshal(arguments{Offer: chrome})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Handle(t.Context(), capabilities.Invocation{Capability: screenLive, Args: args}); capabilities.CodeOf(err) != capabilities.CodeOverloaded {
		t.Errorf("one more: %v", err)
	}
	for _, w := range all {
		w.cancel()
	}
	for _, w := range all {
		await(t, "end", w.end)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.sources) != 0 || h.viewers != 0 || h.door.users != 0 {
		t.Errorf("nobody watches, and there are %d sources, %d viewers, %d at the door", len(h.sources), h.viewers, h.door.users)
	}
}
