package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/capabilities/browser/media"
	"github.com/handrail-dev/handrail/capabilities/sensor"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/camera"
	"github.com/handrail-dev/handrail/platform/microphone"
)

// sensorConfig is what the command line says about camera and microphone. None of it is
// in node.json: made-up devices belong to a test's command, not to an installed node.
type sensorConfig struct {
	fake           bool
	cameraFile     string
	microphoneFile string
}

// sensorFlags are the flags of the sensors.
type sensorFlags struct {
	fake       *bool
	camera     *string
	microphone *string
}

func addSensorFlags(cmd *cobra.Command) sensorFlags {
	return sensorFlags{
		fake: cmd.Flags().Bool("fake-sensors", false,
			"for tests: a test pattern and beeps instead of this device's cameras and microphones; readiness and results say so"),
		camera:     cmd.Flags().String("fake-camera-file", "", "with --fake-sensors: Y4M or MJPEG file that plays as the camera"),
		microphone: cmd.Flags().String("fake-microphone-file", "", "with --fake-sensors: WAV file that plays as the microphone"),
	}
}

func (f sensorFlags) config() (sensorConfig, error) {
	c := sensorConfig{fake: *f.fake, cameraFile: *f.camera, microphoneFile: *f.microphone}
	if !c.fake && c != (sensorConfig{}) {
		return c, terminal.UsageError("--fake-camera-file and --fake-microphone-file go with --fake-sensors")
	}
	return c, nil
}

// openSensors makes the camera and microphone family. It opens nothing yet.
func openSensors(c sensorConfig, finder platform.BrowserFinder, launcher platform.Launcher, sandbox browser.Sandbox,
	log *slog.Logger) (capabilities.Handler, []platform.Sensors, error) {
	o := media.Options{Finder: finder, Launcher: launcher, Sandbox: sandbox, Log: log}
	if c.fake {
		log.Warn("sensors.fake", "hint", "cameras and microphones are made up: the node was started with --fake-sensors")
		o.Fake = &media.Fake{CameraFile: c.cameraFile, MicrophoneFile: c.microphoneFile}
		backend, err := media.New(o)
		if err != nil {
			return nil, nil, err
		}
		return sensorsOf([]platform.Sensors{backend}, log)
	}
	cameras, microphones := camera.New(camera.Options{Log: log}), microphone.New(microphone.Options{Log: log})
	o.Devices = func(ctx context.Context, kind platform.SensorKind) ([]platform.SensorDevice, bool) {
		if kind == platform.SensorCamera {
			return cameras.List()
		}
		return microphones.List(ctx)
	}
	backend, err := media.New(o)
	if err != nil {
		return nil, nil, err
	}
	return sensorsOf([]platform.Sensors{cameras, microphones, backend}, log)
}

// sensorsOf makes the family of backends, which the live view uses, too.
func sensorsOf(backends []platform.Sensors, log *slog.Logger) (capabilities.Handler, []platform.Sensors, error) {
	h, err := sensor.New(sensor.Options{Backends: backends, Log: log})
	return h, backends, err
}
