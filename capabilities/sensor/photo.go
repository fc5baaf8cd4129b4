package sensor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg" // what a photo is checked with
	_ "image/png"
	"io"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// photoResult is what a photo's call returns beside the picture.
type photoResult struct {
	MIME      string `json:"mime"`
	Width     int    `json:"width"`
	Height    int    `json:"height"`
	Timestamp string `json:"timestamp"`
	Device    named  `json:"device"`
	Backend   string `json:"backend"`
	Fake      bool   `json:"fake,omitempty"`
}

func (h *Handler) photo(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	args := struct {
		Facing  platform.Facing `json:"facing_mode"`
		Device  string          `json:"device_id"`
		Format  string          `json:"format"`
		Quality *float64        `json:"quality"`
	}{Format: "jpeg"}
	if err := json.Unmarshal(inv.Args, &args); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "The arguments do not have the expected shape.")
	}
	quality := 0.92
	if args.Quality != nil {
		quality = *args.Quality
	}
	release, err := h.take(platform.SensorCamera)
	if err != nil {
		return capabilities.Output{}, err
	}
	defer release()
	inv.Observe(keyCamera, "photo")
	var taken platform.Photo
	var look platform.SensorLook
	err = h.each(ctx, platform.SensorCamera, platform.FormatPhoto, func(b platform.Sensors, l platform.SensorLook) error {
		look = l
		taken, err = b.Photo(ctx, platform.PhotoOrder{Device: args.Device, Facing: args.Facing, MIME: "image/" + args.Format, Quality: quality})
		return err
	})
	if err != nil {
		return capabilities.Output{}, err
	}
	if len(taken.Bytes) > h.o.MaxBytes {
		return capabilities.Output{}, tooLarge(h.o.MaxBytes)
	}
	// The picture's own facts count, not what was meant to be taken.
	config, format, err := image.DecodeConfig(bytes.NewReader(taken.Bytes))
	if err != nil || format != args.Format {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeCaptureBroken, "The camera returned something that is no %s picture.",
			args.Format)
	}
	mime := "image/" + format
	out := capabilities.Output{
		Result: photoResult{mime, config.Width, config.Height, stamp(taken.At), name(taken.Device), look.Backend, look.Fake},
		Effect: capabilities.EffectConfirmed, Evidence: fmt.Sprintf("the picture was read back: %s, %d x %d", mime, config.Width, config.Height),
		Untrusted: true,
	}
	return keep(inv, out, "photo", mime, taken.At, func(w io.Writer) error {
		_, err := w.Write(taken.Bytes)
		return err
	})
}

// bytesField is the result field that the bytes stand for.
const bytesField = "bytesBase64"

// keep makes the file of a capture an artifact of its call; write writes it.
func keep(inv capabilities.Invocation, out capabilities.Output, what, mime string, at time.Time,
	write func(io.Writer) error) (capabilities.Output, error) {
	mime, _, _ = strings.Cut(mime, ";")
	ending := map[string]string{"image/jpeg": "jpg", "image/png": "png", "audio/wav": "wav", "audio/flac": "flac"}[mime]
	if ending == "" {
		ending = "webm"
	}
	w, err := inv.CreateArtifact(capabilities.ArtifactSpec{Name: what + at.UTC().
		Format("-20060102-150405.") + ending, MIME: mime, Field: bytesField})
	if err != nil {
		return capabilities.Output{}, err
	}
	defer w.Abort()
	if err := write(w); err != nil {
		return capabilities.Output{}, err
	}
	kept, err := w.Commit()
	if err != nil {
		return capabilities.Output{}, err
	}
	out.Artifacts = []capabilities.Artifact{kept}
	return out, nil
}

func tooLarge(most int) error {
	return capabilities.Errorf(capabilities.CodeResultTooLarge, "The capture is larger than %d MiB.", most>>20).
		WithHint("Record a shorter time, or choose a format that takes less room.")
}
