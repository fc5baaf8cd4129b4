package media

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities/browser/process"
	"github.com/handrail-dev/handrail/platform"
)

// DefaultWarm is how long the browser stays after its last use.
const DefaultWarm = time.Minute

// Fake has Chrome make up devices; for tests only.
type Fake struct {
	// CameraFile is a Y4M (4:2:0) or MJPEG file, MicrophoneFile a WAV file, that plays
	// as the device; empty: Chrome's test pattern and beeps.
	CameraFile, MicrophoneFile string
}

// Options of New; required unless a default is named.
type Options struct {
	Finder   platform.BrowserFinder
	Launcher platform.Launcher
	Sandbox  process.Sandbox // default: required
	Dir      string          // as process.Options.Dir
	Warm     time.Duration   // default: DefaultWarm
	// Fake is set where a test must not touch this host's devices; nil: it does.
	Fake *Fake
	// Devices lists what the system has, without Chrome; nil: only Chrome tells, when
	// it is used. ok false: the system does not tell either.
	Devices func(ctx context.Context, kind platform.SensorKind) (list []platform.SensorDevice, ok bool)
	Log     *slog.Logger // default: discards
}

// Backend implements platform.Sensors.
type Backend struct {
	o    Options
	log  *slog.Logger
	turn chan struct{} // one token: who starts the browser
	// cooling are browsers that end because nobody used them.
	cooling sync.WaitGroup

	mu     sync.Mutex
	closed bool
	page   *page // nil: none runs
	using  int
	rests  int // how often Rest was called
	idle   *time.Timer
	seen   map[platform.SensorKind][]platform.SensorDevice // when Chrome was last asked
}

var _ platform.LiveSensors = (*Backend)(nil)

// New makes a Backend; it starts nothing.
func New(o Options) (*Backend, error) {
	if o.Finder == nil || o.Launcher == nil {
		return nil, errors.New("media: Finder and Launcher are required")
	}
	if o.Warm <= 0 {
		o.Warm = DefaultWarm
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Backend{o: o, log: o.Log, turn: make(chan struct{}, 1), seen: map[platform.SensorKind][]platform.SensorDevice{}}, nil
}

// Gives reports true: Chrome has all of it.
func (b *Backend) Gives(platform.SensorKind, platform.MediaFormat) bool { return true }

// Look starts no browser.
func (b *Backend) Look(ctx context.Context, kind platform.SensorKind) platform.SensorLook {
	l := platform.SensorLook{Fake: b.o.Fake != nil}
	found, err := b.o.Finder.Find(ctx)
	var missing *platform.MissingError
	switch {
	case errors.As(err, &missing):
		l.Missing = missing
		return l
	case err != nil:
		l.Missing = &platform.MissingError{What: "The browser could not be looked for.", Fix: "A person has to see what is wrong on the node."}
		return l
	}
	l.Backend = found.Product + " " + found.Version
	switch without, missing := b.o.Sandbox.Without(found); {
	case missing != nil:
		l.Missing, l.Confined = missing, true
	case without:
		l.Degraded = process.DegradedSandbox
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l.Devices, l.Listed = b.seen[kind], b.seen[kind] != nil
	if b.o.Fake == nil && b.o.Devices != nil {
		if list, ok := b.o.Devices(ctx, kind); ok {
			l.Devices, l.Listed = list, true
		}
	}
	return l
}

// Photo takes one picture.
func (b *Backend) Photo(ctx context.Context, o platform.PhotoOrder) (platform.Photo, error) {
	p, leave, err := b.enter(ctx)
	if err != nil {
		return platform.Photo{}, err
	}
	defer leave()
	device, id, err := b.pick(ctx, p, platform.SensorCamera, o.Device, o.Facing)
	if err != nil {
		return platform.Photo{}, err
	}
	var got struct {
		Data          string
		Width, Height int
		Time          float64
		Label         string
	}
	err = p.capture(ctx, "photo", map[string]any{"device": id, "mime": o.MIME, "quality": o.Quality}, nil, &got)
	if err != nil {
		return platform.Photo{}, err
	}
	body, err := base64.StdEncoding.DecodeString(got.Data)
	if err != nil || len(body) == 0 {
		return platform.Photo{}, fmt.Errorf("%w: the browser returned no picture", platform.ErrSensorLost)
	}
	return platform.Photo{Bytes: body, Width: got.Width, Height: got.Height, At: stamp(got.Time), Device: device}, nil
}

// Bits a second: enough for a face and a room at 720p.
const (
	filmBits  = 2_500_000
	soundBits = 96_000
)

// Record records until the duration is over.
func (b *Backend) Record(ctx context.Context, o platform.RecordOrder) (platform.Recording, error) {
	p, leave, err := b.enter(ctx)
	if err != nil {
		return platform.Recording{}, err
	}
	defer leave()
	device, id, err := b.pick(ctx, p, o.Kind, o.Device, o.Facing)
	if err != nil {
		return platform.Recording{}, err
	}
	args := map[string]any{"device": id, "duration": float64(o.Duration) / float64(time.Millisecond)}
	name := "listen"
	if o.Format == platform.FormatWebM {
		name = "film"
		args["mime"], args["bits"], args["soundBits"] = mimeOf(o), filmBits, soundBits
		args["video"] = o.Kind == platform.SensorCamera
		if o.Sound {
			args["microphone"] = ""
		}
	}
	w := &writing{order: o}
	var got struct {
		Bytes int64
		Time  float64
		Rate  int
		Lost  float64
		Sound bool
	}
	if err := p.capture(ctx, name, args, w, &got); err != nil {
		return platform.Recording{}, err
	}
	if w.err != nil {
		return platform.Recording{}, w.err
	}
	if w.bytes != got.Bytes || w.bytes == 0 {
		return platform.Recording{}, fmt.Errorf("%w: %d of %d bytes arrived", platform.ErrSensorLost, w.bytes, got.Bytes)
	}
	lost := time.Duration(got.Lost * float64(time.Millisecond))
	return platform.Recording{Device: device, Sound: got.Sound, Rate: got.Rate, Channels: 1, At: stamp(got.Time), Lost: lost}, nil
}

func mimeOf(o platform.RecordOrder) string {
	switch {
	case o.Kind == platform.SensorMicrophone:
		return "audio/webm;codecs=opus"
	case o.Sound:
		return "video/webm;codecs=" + o.Codec + ",opus"
	}
	return "video/webm;codecs=" + o.Codec
}

func stamp(ms float64) time.Time { return time.UnixMilli(int64(ms)) }

// Live returns what a device sees or hears until ctx ends.
func (b *Backend) Live(ctx context.Context, o platform.LiveOrder) error {
	p, leave, err := b.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	_, id, err := b.pick(ctx, p, o.Kind, o.Device, "")
	if err != nil {
		return err
	}
	return p.live(ctx, map[string]any{"device": id, "video": o.Kind == platform.SensorCamera, "bits": o.Bits}, o)
}

// writing takes what a recording says, in order, on the browser's reading goroutine.
type writing struct {
	order platform.RecordOrder
	frame func(data []byte, key bool) // in place of order.Write
	bytes int64
	err   error
}

// take handles one message; false: it is of no use to go on.
func (w *writing) take(m message) bool {
	data, done := m.Data, m.Done
	if w.err != nil {
		return false
	}
	if w.frame != nil {
		body, err := base64.StdEncoding.DecodeString(data)
		if err == nil && len(body) > 0 {
			w.frame(body, m.Key)
		}
		w.err = err
		return err == nil
	}
	if data == "" {
		w.order.Progress(time.Duration(done * float64(time.Millisecond)))
		return true
	}
	body, err := base64.StdEncoding.DecodeString(data)
	if err == nil {
		w.bytes += int64(len(body))
		err = w.order.Write(body)
	}
	w.err = err
	return err == nil
}

// pick returns the device with that ID, and Chrome's own name for it.
func (b *Backend) pick(ctx context.Context, p *page, kind platform.SensorKind, want string,
	facing platform.Facing) (platform.SensorDevice, string, error) {
	var got []struct{ ID, Kind, Label string }
	if err := p.ask(ctx, "devices", nil, &got); err != nil {
		return platform.SensorDevice{}, "", err
	}
	of := map[platform.SensorKind]string{platform.SensorCamera: "videoinput", platform.SensorMicrophone: "audioinput"}[kind]
	devices, ids := []platform.SensorDevice{}, []string{}
	for _, d := range got {
		if d.Kind == of && d.ID == "" { // one that this page may not know more of
			return platform.SensorDevice{}, "", platform.ErrSensorRefused
		}
		// Chrome lists the default microphone a second time, under that name.
		if d.Kind == of && d.ID != "default" && d.ID != "communications" {
			devices, ids = append(devices, platform.SensorDevice{Label: d.Label, Kind: kind, Default: len(devices) == 0}), append(ids, d.ID)
		}
	}
	for _, d := range got {
		if d.Kind == of && d.ID == "default" && len(devices) == 0 {
			devices, ids = append(devices, platform.SensorDevice{Label: d.Label, Kind: kind, Default: true}), append(ids, d.ID)
		}
	}
	platform.SensorIDs(devices)
	b.mu.Lock()
	b.seen[kind] = devices
	b.mu.Unlock()
	at, err := platform.ChooseSensor(kind, devices, want, facing)
	if err != nil {
		return platform.SensorDevice{}, "", err
	}
	return devices[at], ids[at], nil
}

// conditions are the names under which the page's errors come.
var conditions = map[string]platform.SensorError{
	"NotFoundError": platform.ErrNoSensor, "OverconstrainedError": platform.ErrNoSensor,
	"NotReadableError": platform.ErrSensorBusy, "TrackStartError": platform.ErrSensorBusy,
	"NotAllowedError": platform.ErrSensorRefused, "SecurityError": platform.ErrSensorRefused,
	"NotSupportedError": platform.ErrSensorCannot, "TypeError": platform.ErrSensorCannot,
}

// condition words what the page said.
func condition(name, message string) error {
	kind, ok := conditions[name]
	if !ok {
		kind = platform.ErrSensorLost
	}
	return fmt.Errorf("%w: %s: %s", kind, name, message)
}

// message is what the page says while it works.
type message struct {
	Number int
	Data   string
	Done   float64
	Key    bool // Data is a frame that needs none before
}

func readMessage(payload string) (message, bool) {
	var m message
	return m, strings.HasPrefix(payload, "{") && json.Unmarshal([]byte(payload), &m) == nil && m.Number > 0
}
