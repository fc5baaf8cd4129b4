package camera

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/handrail-dev/handrail/platform"
)

// host makes /sys and /dev of a machine with those devices: a name and an index each.
func host(t *testing.T, devices ...[2]string) string {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, d := range devices {
		name := "video" + string(rune('0'+i))
		dir := filepath.Join(root, "sys/class/video4linux", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{filepath.Join(dir, "name"): d[0], filepath.Join(dir, "index"): d[1], filepath.Join(root, "dev", name): ""} {
			if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

func TestList(t *testing.T) {
	b := New(Options{root: host(t, [2]string{"Integrated Camera: Integrated C", "0"}, [2]string{"Integrated Camera: Integrated C", "1"}, [2]string{"HD Webcam", "0"}, [2]string{"HD Webcam", "0"})})
	l := b.Look(t.Context(), platform.SensorCamera)
	if l.Missing != nil || !l.Listed || len(l.Devices) != 3 {
		t.Fatalf("%+v", l)
	}
	for i, want := range []platform.SensorDevice{
		{ID: "integrated-camera-integrated-c", Facing: platform.FacingUser, Default: true}, {ID: "hd-webcam"}, {ID: "hd-webcam-2"},
	} {
		if d := l.Devices[i]; d.ID != want.ID || d.Facing != want.Facing || d.Default != want.Default || d.Kind != platform.SensorCamera {
			t.Errorf("%+v, want %+v", d, want)
		}
	}
	if l := New(Options{root: host(t)}).Look(t.Context(), platform.SensorCamera); !l.Listed || len(l.Devices) != 0 {
		t.Errorf("%+v", l)
	}
}

// A file that is no camera is an error of the kernel's, not a picture.
func TestNoCamera(t *testing.T) {
	b := New(Options{root: host(t, [2]string{"Broken", "0"})})
	if _, err := b.Photo(t.Context(), platform.PhotoOrder{MIME: "image/jpeg"}); !errors.Is(err, platform.ErrSensorLost) {
		t.Error(err)
	}
	if _, err := b.Photo(t.Context(), platform.PhotoOrder{Device: "other"}); !errors.Is(err, platform.ErrNoSensor) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Photo(ctx, platform.PhotoOrder{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	os.Remove(filepath.Join(b.o.root, "dev/video0"))
	if _, err := b.Photo(t.Context(), platform.PhotoOrder{}); !errors.Is(err, platform.ErrNoSensor) {
		t.Error(err)
	}
}
