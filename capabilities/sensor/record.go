package sensor

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/sensor/sound"
	"github.com/handrail-dev/handrail/capabilities/sensor/webm"
	"github.com/handrail-dev/handrail/platform"
)

// recordResult is what a recording's call returns beside its bytes.
type recordResult struct {
	MIME       string  `json:"mime"`
	DurationMS float64 `json:"duration_ms"` // as the file itself says
	Width      int     `json:"width,omitempty"`
	Height     int     `json:"height,omitempty"`
	Timestamp  string  `json:"timestamp"` // of the beginning
	Device     named   `json:"device"`
	Backend    string  `json:"backend"`
	HasSound   *bool   `json:"has_audio,omitempty"`
	LostMS     float64 `json:"lost_ms,omitempty"` // of sound, in whose place silence stands
	Fake       bool    `json:"fake,omitempty"`
}

// shortBy is how much a film may fall short of what was asked for and still be whole: a
// frame at each end, of a camera that in the dark takes eight a second. Samples are
// counted and never fall short.
const shortBy = 250 * time.Millisecond

// DefaultDuration is how long is recorded when the call does not say.
const DefaultDuration = 5 * time.Second

func (h *Handler) video(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var args struct {
		Duration int64           `json:"duration_ms"`
		Camera   string          `json:"camera"`
		Facing   platform.Facing `json:"facing_mode"`
		Device   string          `json:"device_id"`
		Format   string          `json:"format"`
		Audio    *bool           `json:"audio"`
	}
	if err := json.Unmarshal(inv.Args, &args); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "The arguments do not have the expected shape.")
	}
	if args.Camera != "" {
		facing := map[string]platform.Facing{"front": platform.FacingUser, "rear": platform.FacingEnvironment}[args.Camera]
		if args.Facing != "" && args.Facing != facing {
			return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments,
				"camera and facing_mode name two different cameras.").WithHint("Give one of them.")
		}
		args.Facing = facing
	}
	codec, ok := videoCodec(args.Format)
	if !ok {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeFormatUnsupported, "This node records video as WebM only.").
			WithHint(`Leave format out, or give "video/webm;codecs=vp8" or "video/webm;codecs=vp9".`)
	}
	wanted := slices.Contains(inv.Grants, keyAudio) && (args.Audio == nil || *args.Audio)
	kinds := []platform.SensorKind{platform.SensorCamera}
	if wanted {
		kinds = append(kinds, platform.SensorMicrophone)
	}
	release, err := h.take(kinds...)
	if err != nil {
		return capabilities.Output{}, err
	}
	defer release()
	inv.Observe(keyCamera, "video")
	if wanted {
		inv.Observe(keyAudio, "video")
	}
	got, err := h.record(ctx, inv, platform.RecordOrder{
		Kind: platform.SensorCamera, Device: args.Device, Facing: args.Facing, Sound: wanted, Format: platform.FormatWebM, Codec: codec,
	}, args.Duration)
	if err != nil {
		return capabilities.Output{}, err
	}
	return h.finishWebM(inv, got, "video/webm")
}

func (h *Handler) sound(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var args struct {
		Duration int64  `json:"duration_ms"`
		Device   string `json:"device_id"`
		MIME     string `json:"mime"`
	}
	if err := json.Unmarshal(inv.Args, &args); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "The arguments do not have the expected shape.")
	}
	mime, ok := soundType(args.MIME)
	if !ok {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeFormatUnsupported, "This node does not record sound in that format.").
			WithHint("Give audio/wav, audio/flac or audio/webm.")
	}
	release, err := h.take(platform.SensorMicrophone)
	if err != nil {
		return capabilities.Output{}, err
	}
	defer release()
	inv.Observe(keyAudio, "sound")
	order := platform.RecordOrder{Kind: platform.SensorMicrophone, Device: args.Device, Format: platform.FormatPCM}
	if mime == "audio/webm" {
		order.Format, order.Codec = platform.FormatWebM, "opus"
	}
	got, err := h.record(ctx, inv, order, args.Duration)
	if err != nil {
		return capabilities.Output{}, err
	}
	if mime == "audio/webm" {
		return h.finishWebM(inv, got, mime)
	}
	return h.finishSamples(inv, got, mime)
}

// recorded is a recording as its backend returned it.
type recorded struct {
	bytes.Buffer
	platform.Recording
	look     platform.SensorLook
	duration time.Duration // that was asked for
}

// record has the first backend that can record it.
func (h *Handler) record(ctx context.Context, inv capabilities.Invocation, o platform.RecordOrder, ms int64) (*recorded, error) {
	got := &recorded{duration: time.Duration(ms) * time.Millisecond}
	if ms == 0 {
		got.duration = DefaultDuration
	}
	o.Duration = got.duration
	total := float64(got.duration.Milliseconds())
	o.Progress = func(done time.Duration) {
		inv.Progress(capabilities.Progress{Done: min(float64(done.Milliseconds()), total), Total: total, Message: "recording, in milliseconds"})
	}
	o.Write = func(p []byte) error {
		if got.Len()+len(p) > h.o.MaxBytes {
			return tooLarge(h.o.MaxBytes)
		}
		got.Write(p)
		return nil
	}
	err := h.each(ctx, o.Kind, o.Format, func(b platform.Sensors, l platform.SensorLook) (err error) {
		got.Reset()
		got.look = l
		got.Recording, err = b.Record(ctx, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

// cut is what is said of a recording that is too short, by what its bytes say and not
// by what the clock did.
func (r *recorded) cut(duration time.Duration) error {
	return capabilities.Errorf(capabilities.CodeCaptureBroken, "Only %d of %d ms were recorded; nothing of it was kept.",
		duration.Milliseconds(), r.duration.Milliseconds())
}

func (h *Handler) finishWebM(inv capabilities.Invocation, got *recorded, mime string) (capabilities.Output, error) {
	info, err := webm.Read(got.Bytes())
	if err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeCaptureBroken, err, "")
	}
	if info.Duration < got.duration-shortBy {
		return capabilities.Output{}, got.cut(info.Duration)
	}
	result := got.result(mime, info.Duration)
	codecs, heard := []string{}, false
	for _, t := range info.Tracks {
		if t.Frames == 0 {
			continue
		}
		if t.End < got.duration/2 {
			return capabilities.Output{}, got.cut(t.End)
		}
		codec, _ := strings.CutPrefix(t.Codec, "V_")
		codec, _ = strings.CutPrefix(codec, "A_")
		codecs = append(codecs, strings.ToLower(codec))
		if t.Video {
			result.Width, result.Height = t.Width, t.Height
		}
		heard = heard || !t.Video
	}
	if mime == "video/webm" {
		if result.Width == 0 || result.Height == 0 {
			return capabilities.Output{}, capabilities.Errorf(capabilities.CodeCaptureBroken, "The camera returned no picture.")
		}
		result.HasSound = &heard
	}
	result.MIME += ";codecs=" + strings.Join(codecs, ",")
	return got.output(inv, result, func(w io.Writer) error {
		_, err := webm.Finish(w, got.Bytes())
		return err
	})
}

func (h *Handler) finishSamples(inv capabilities.Invocation, got *recorded, mime string) (capabilities.Output, error) {
	if got.Rate < 8000 || got.Rate > 1<<16-1 || got.Channels != 1 {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeCaptureBroken, "The microphone returned %d channels at %d Hz.",
			got.Channels, got.Rate)
	}
	raw := got.Bytes()
	samples := make([]int16, len(raw)/2)
	for i := range samples {
		samples[i] = int16(binary.LittleEndian.Uint16(raw[2*i:]))
	}
	duration := time.Duration(len(samples)) * time.Second / time.Duration(got.Rate)
	if heard := duration - got.Lost; duration < got.duration-time.Millisecond || heard < duration/2 {
		return capabilities.Output{}, got.cut(heard)
	}
	result := got.result(mime, duration)
	result.LostMS = float64(got.Lost.Microseconds()) / 1000
	return got.output(inv, result, func(w io.Writer) error {
		if mime == "audio/flac" {
			return sound.FLAC(w, samples, got.Rate)
		}
		return sound.WAV(w, samples, got.Rate, 1)
	})
}

func (r *recorded) result(mime string, duration time.Duration) recordResult {
	return recordResult{
		MIME: mime, DurationMS: float64(duration.Microseconds()) / 1000, Timestamp: stamp(r.At), Device: name(r.Device), Backend: r.look.Backend,
		Fake: r.look.Fake,
	}
}

func (r *recorded) output(inv capabilities.Invocation, result recordResult, write func(io.Writer) error) (capabilities.Output, error) {
	out := capabilities.Output{
		Result: result,
		Effect: capabilities.EffectConfirmed, Evidence: fmt.Sprintf("the recording was read back: %s, %.0f ms", result.MIME, result.DurationMS),
		Untrusted: true,
	}
	if result.LostMS > 0 {
		out.Effect, out.Evidence = capabilities.EffectPartial,
			fmt.Sprintf("of %.0f ms of sound %.0f were lost; silence stands in their place", result.DurationMS, result.LostMS)
	}
	what := "video"
	if strings.HasPrefix(result.MIME, "audio/") {
		what = "sound"
	}
	return keep(inv, out, what, result.MIME, r.At, write)
}

// videoCodec reads a format: a container, a codec, or both as in a media type.
func videoCodec(format string) (codec string, ok bool) {
	kind, codecs, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(format, " ", "")), ";codecs=")
	codecs = strings.Trim(codecs, `"`)
	switch kind {
	case "", "webm", "video/webm":
	case "vp8", "vp9":
		return kind, codecs == ""
	default:
		return "", false
	}
	switch strings.TrimSuffix(codecs, ",opus") {
	case "", "vp8":
		return "vp8", true
	case "vp9", "vp09.00.10.08":
		return "vp9", true
	}
	return "", false
}

// soundType reads the media type of a sound.
func soundType(mime string) (plain string, ok bool) {
	kind, codecs, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(mime, " ", "")), ";codecs=")
	codecs = strings.Trim(codecs, `"`)
	switch kind {
	case "", "audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave", "wav":
		return "audio/wav", codecs == "" || codecs == "1"
	case "audio/flac", "audio/x-flac", "flac":
		return "audio/flac", codecs == ""
	case "audio/webm", "webm":
		return "audio/webm", codecs == "" || codecs == "opus"
	}
	return "", false
}
