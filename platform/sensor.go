package platform

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// SensorKind is what a sensor takes in.
type SensorKind string

// The kinds.
const (
	SensorCamera     SensorKind = "camera"
	SensorMicrophone SensorKind = "microphone"
)

// Facing is where a camera looks. The zero value: nobody says.
type Facing string

// The directions, in the contract's words.
const (
	FacingUser        Facing = "user"        // at the person before the device
	FacingEnvironment Facing = "environment" // away from them
)

// SensorDevice is one camera or microphone.
type SensorDevice struct {
	ID    string // made of Label by SensorIDs: the same on every backend and after every start
	Label string // for people, such as "Integrated Camera"; at most 256 bytes
	Kind  SensorKind
	// Facing is what the system or the label says.
	Facing  Facing
	Default bool // used when nothing is asked for
}

// maxSensorLabel bounds what a device may call itself.
const maxSensorLabel = 256

// SensorIDs fills ID, Facing and a clean Label of devices in their order: an ID is
// the label in small letters and digits ("integrated-camera"), the second of a name
// gets "-2". Chrome hides a device's real ID behind a salt that changes with each
// start, so the label is all that every backend has in common.
func SensorIDs(devices []SensorDevice) {
	seen := map[string]int{}
	for i := range devices {
		d := &devices[i]
		d.Label = cleanLabel(d.Label)
		base := slug(d.Label)
		if base == "" {
			base = string(d.Kind)
		}
		seen[base]++
		d.ID = base
		if n := seen[base]; n > 1 {
			d.ID += "-" + string(rune('0'+min(n, 9)))
		}
		if d.Facing == "" && d.Kind == SensorCamera {
			d.Facing = facingOf(d.ID)
		}
	}
}

// cleanLabel drops what is not to be read, the vendor and product number that Chrome
// adds ("Camera (046d:0825)"), and what is too long.
func cleanLabel(s string) string {
	s = capabilities.Printable(s)
	if open := strings.LastIndexByte(s, '('); open > 0 && strings.HasSuffix(s, ")") && isUSBNumber(s[open+1:len(s)-1]) {
		s = s[:open]
	}
	return capabilities.Clip(strings.TrimSpace(s), maxSensorLabel)
}

func isUSBNumber(s string) bool {
	hex := func(s string) bool { return len(s) == 4 && strings.Trim(s, "0123456789abcdefABCDEF") == "" }
	vendor, product, ok := strings.Cut(s, ":")
	return ok && hex(vendor) && hex(product)
}

func slug(label string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(label) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			gap = false
			b.WriteRune(r)
			if b.Len() >= 64 {
				break
			}
		} else {
			gap = true
		}
	}
	return b.String()
}

// facingOf reads the words by which makers tell two built-in cameras apart.
func facingOf(id string) Facing {
	for _, word := range strings.Split(id, "-") {
		switch word {
		case "front", "user", "facetime", "integrated":
			return FacingUser
		case "rear", "back", "environment", "world":
			return FacingEnvironment
		}
	}
	return ""
}

// NoSensorError is ErrNoSensor with what there is instead.
type NoSensorError struct {
	Kind   SensorKind
	Device string // that was asked for
	Facing Facing
	Have   []SensorDevice
}

// Error says what was wanted.
func (e *NoSensorError) Error() string {
	return string(ErrNoSensor) + ": " + string(e.Kind) + " " + e.Device + string(e.Facing)
}

// Is makes it ErrNoSensor.
func (e *NoSensorError) Is(target error) bool { return target == ErrNoSensor }

// ChooseSensor returns the index of the device that was asked for, by its ID or label,
// by where it looks, or the default. A camera that looks at the person may be one that
// says nothing (a screen's camera does look there); nothing else is guessed.
func ChooseSensor(kind SensorKind, devices []SensorDevice, id string, facing Facing) (int, error) {
	first := func(fits func(SensorDevice) bool) int {
		return slices.IndexFunc(devices, fits)
	}
	at := -1
	switch {
	case id != "":
		if at = first(func(d SensorDevice) bool { return d.ID == id }); at < 0 {
			at = first(func(d SensorDevice) bool { return d.Label == id })
		}
	case facing != "":
		if at = first(func(d SensorDevice) bool { return d.Facing == facing }); at < 0 && facing == FacingUser {
			at = first(func(d SensorDevice) bool { return d.Facing == "" })
		}
	default:
		if at = first(func(d SensorDevice) bool { return d.Default }); at < 0 && len(devices) > 0 {
			at = 0
		}
	}
	if at < 0 {
		return 0, &NoSensorError{kind, id, facing, devices}
	}
	return at, nil
}

// SensorLook is what a backend says of itself without touching a device.
type SensorLook struct {
	Backend string // such as "PulseAudio 16.1"; empty if it cannot be used
	// Devices are known if Listed; otherwise only using one tells.
	Devices []SensorDevice
	Listed  bool
	Fake    bool // a test's devices, not this host's
	// Degraded names what is missing from its confinement, such as "chrome_sandbox".
	Degraded string
	// Missing says why it cannot be used here; nil: it can. Confined tells that it
	// is a sandbox that this host does not give.
	Missing  *MissingError
	Confined bool
}

// MediaFormat is the format of a backend's output.
type MediaFormat string

// The formats.
const (
	FormatPhoto MediaFormat = "photo" // JPEG or PNG
	FormatPCM   MediaFormat = "pcm"   // signed 16 bits, little endian, channels interleaved
	FormatWebM  MediaFormat = "webm"  // as it is recorded: no duration, no index
)

// PhotoOrder asks for one picture.
type PhotoOrder struct {
	Device  string  // ID or label; empty: by Facing
	Facing  Facing  // empty: the default
	MIME    string  // image/jpeg or image/png
	Quality float64 // 0 to 1; for JPEG
}

// Photo is a picture that was taken.
type Photo struct {
	Bytes         []byte
	Width, Height int
	At            time.Time
	Device        SensorDevice
}

// RecordOrder asks for a recording.
type RecordOrder struct {
	Kind   SensorKind // camera: a film; microphone: sound
	Device string     // ID or label; empty: by Facing
	Facing Facing     // of a camera; empty: the default
	// Sound adds the default microphone to a film, where there is one.
	Sound    bool
	Format   MediaFormat
	Codec    string // of WebM: vp8, vp9 or opus
	Duration time.Duration
	// Write gets the bytes in order; they are the backend's again when it returns. An
	// error ends the recording. Required.
	Write func([]byte) error
	// Progress is told from time to time how much was recorded. Required.
	Progress func(done time.Duration)
}

// Recording says what a finished recording is.
type Recording struct {
	Device         SensorDevice
	Sound          bool // a film has sound
	Rate, Channels int  // of PCM
	At             time.Time
	Lost           time.Duration // of PCM: what was dropped; silence stands in its place
}

// Sensors is one backend of cameras and microphones. All methods are safe for
// concurrent use. When ctx ends, the device is free again before a method returns.
// Errors are *MissingError, or wrap a SensorError.
type Sensors interface {
	// Gives reports whether this backend makes that at all; constant.
	Gives(kind SensorKind, format MediaFormat) bool
	// Look is quick and touches no device.
	Look(ctx context.Context, kind SensorKind) SensorLook
	Photo(ctx context.Context, o PhotoOrder) (Photo, error)
	// Record returns once the whole duration was written, or an error.
	Record(ctx context.Context, o RecordOrder) (Recording, error)
	// Rest frees every device and ends what is kept running for the next use.
	Rest()
	Close() error
}

// LiveOrder asks for what a sensor sees or hears now, encoded, until ctx ends: VP8 of a
// camera, Opus of a microphone (48 kHz, packets of 20 ms).
type LiveOrder struct {
	Kind   SensorKind
	Device string // ID or label; empty: the default
	Bits   int    // a second, to begin with
	// Frame gets each frame or packet as it is made; key says that it needs none before. A frame
	// that would be late is not made, so it has to return soon. Required.
	Frame func(data []byte, key bool)
	// Tune changes what is made from now on. May be nil.
	Tune <-chan LiveTune
}

// LiveTune is what the viewers of a camera need.
type LiveTune struct {
	Bits int  // a second
	Key  bool // the next frame has to need none before
}

// LiveSensors is a backend that has encoders at hand.
type LiveSensors interface {
	Sensors
	// Live returns when ctx ends, or with an error as Record does.
	Live(ctx context.Context, o LiveOrder) error
}

// SensorError is one of the conditions that handlers tell apart.
type SensorError string

// Error returns the text.
func (e SensorError) Error() string { return string(e) }

// The conditions.
const (
	ErrNoSensor      SensorError = "there is no such device"
	ErrSensorBusy    SensorError = "the device is in use"
	ErrSensorRefused SensorError = "the system refuses access to the device"
	// ErrSensorLost says that a capture broke off: the device or the backend ended.
	ErrSensorLost SensorError = "the capture broke off"
	// ErrSensorCannot says that this backend cannot do it with that device; another may.
	ErrSensorCannot SensorError = "the backend cannot do that with this device"
)
