package sensor

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/jpeg"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// made is a camera and a microphone that return the same each time, at once.
type made struct {
	picture []byte
	err     error // of each photo
}

var device = platform.SensorDevice{ID: "made", Label: "Made up", Default: true}

func newMade(t *testing.T) *made {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 64, 48)), nil); err != nil {
		t.Fatal(err)
	}
	return &made{picture: b.Bytes()}
}

func (*made) Gives(kind platform.SensorKind, format platform.MediaFormat) bool {
	return kind == platform.SensorCamera == (format == platform.FormatPhoto)
}

func (*made) Look(context.Context, platform.SensorKind) platform.SensorLook {
	return platform.SensorLook{Backend: "made up", Devices: []platform.SensorDevice{device}, Listed: true}
}

func (m *made) Photo(context.Context, platform.PhotoOrder) (platform.Photo, error) {
	if m.err != nil {
		return platform.Photo{}, m.err
	}
	return platform.Photo{Bytes: m.picture, Width: 64, Height: 48, At: time.Now(), Device: device}, nil
}

func (m *made) Record(_ context.Context, o platform.RecordOrder) (platform.Recording, error) {
	const rate = 8000
	if err := o.Write(make([]byte, 2*rate*int(o.Duration/time.Millisecond)/1000)); err != nil {
		return platform.Recording{}, err
	}
	return platform.Recording{Device: device, Rate: rate, Channels: 1, At: time.Now()}, nil
}

func (*made) Rest()        {}
func (*made) Close() error { return nil }

// tight is a spool that has no room at one point.
type tight struct {
	bytes.Buffer
	at   string // create, write, commit; "" for room
	open int
	kept int
}

var errFull = capabilities.Wrap(capabilities.CodeArtifactSpace, errors.New("no space left on device"), "")

func (s *tight) Create(capabilities.ArtifactSpec) (capabilities.ArtifactWriter, error) {
	if s.at == "create" {
		return nil, errFull
	}
	s.open++
	return &inTight{s: s}, nil
}

type inTight struct {
	s    *tight
	over bool
}

func (w *inTight) Write(p []byte) (int, error) {
	if w.s.at == "write" && w.s.Len()+len(p) > 20 {
		return 0, errFull
	}
	return w.s.Buffer.Write(p)
}

func (w *inTight) Commit() (capabilities.Artifact, error) {
	if w.s.at == "commit" {
		return capabilities.Artifact{}, errFull
	}
	w.Abort()
	w.s.kept++
	return capabilities.Artifact{Size: int64(w.s.Len())}, nil
}

func (w *inTight) Abort() {
	if !w.over {
		w.over = true
		w.s.open--
	}
}

// A capture that cannot be kept says so, leaves nothing half-written and nothing open,
// and the next one has the device.
func TestCaptureWithoutRoom(t *testing.T) {
	h, err := New(Options{Backends: []platform.Sensors{newMade(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for what, c := range map[string]struct {
		id   capabilities.CapabilityID
		args string
	}{"photo": {capPhoto, `{}`}, "wav": {capSound, `{"duration_ms":300}`}, "flac": {capSound, `{"duration_ms":300,"mime":"audio/flac"}`}} {
		for _, at := range []string{"create", "write", "commit", ""} {
			to := &tight{at: at}
			out, err := h.Handle(t.Context(), capabilities.Invocation{Capability: c.id, Args: []byte(c.args), Spool: to})
			if want := map[bool]capabilities.Code{false: capabilities.CodeArtifactSpace}[at == ""]; capabilities.CodeOf(err) != want {
				t.Errorf("%s, %s: %v", what, at, err)
			}
			if kept := len(out.Artifacts); to.open != 0 || kept != to.kept || (kept == 1) != (at == "") {
				t.Errorf("%s, %s: %d are open, %d kept, %d told", what, at, to.open, to.kept, kept)
			}
		}
	}
}

// A fault that only a call can find is in readiness afterwards, with what to do, for a while or
// until a call works.
func TestReadinessAfterACall(t *testing.T) {
	b := newMade(t)
	now := time.Now()
	h, err := New(Options{Backends: []platform.Sensors{b}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	take := func() error {
		_, err := h.Handle(t.Context(), capabilities.Invocation{Capability: capPhoto, Spool: &tight{}})
		return err
	}
	ready := func(id capabilities.CapabilityID) capabilities.Readiness {
		for _, r := range h.Readiness(t.Context()) {
			if r.Capability == id {
				return r
			}
		}
		t.Fatal(id)
		return capabilities.Readiness{}
	}
	for _, c := range []struct {
		err    error
		code   capabilities.Code
		reason capabilities.Reason
	}{
		{platform.ErrSensorBusy, capabilities.CodeSensorBusy, capabilities.ReasonDeviceBusy},
		{platform.ErrSensorRefused, capabilities.CodeSensorRefused, capabilities.ReasonPermission},
		{&platform.MissingError{What: "It is not allowed.", Fix: "Allow it.", Permission: true}, capabilities.CodeSensorRefused, capabilities.ReasonPermission},
		{platform.ErrSensorLost, capabilities.CodeCaptureBroken, capabilities.ReasonReady},
	} {
		for _, over := range []func(){func() { now = now.Add(time.Minute) }, func() {
			b.err = nil
			if err := take(); err != nil {
				t.Error(err)
			}
		}} {
			b.err = c.err
			if err := take(); capabilities.CodeOf(err) != c.code {
				t.Errorf("%v: %v", c.err, err)
			}
			if r := ready(capPhoto); r.Reason != c.reason || (r.Fix == "") != r.Ready() || len(r.Fix) > 300 || len(r.Devices) != 1 {
				t.Errorf("%v: %+v", c.err, r)
			}
			if r := ready(capSound); !r.Ready() {
				t.Errorf("%v: %+v", c.err, r)
			}
			over()
			if r := ready(capPhoto); !r.Ready() {
				t.Errorf("%v: it stays: %+v", c.err, r)
			}
		}
	}
}
