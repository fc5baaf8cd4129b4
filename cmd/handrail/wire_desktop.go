package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/media"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/platform"
	session "github.com/handrail-dev/handrail/platform/desktop"
	"github.com/handrail-dev/handrail/platform/notify"
	"github.com/handrail-dev/handrail/platform/ocr"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

// desktopConfig is the desktop section of node.json.
type desktopConfig struct {
	// Enabled offers the person's desktop; where there is none to open, readiness
	// says so.
	Enabled bool `json:"enabled"`
	// QuietTime is how long the person's mouse and keyboard must have been at rest
	// before calls may use them.
	QuietTime duration `json:"quiet_time"`
	// HotKey is the chord by which the person stops everything; "off" for none.
	HotKey string `json:"hot_key"`
	// YesKeys and NoKeys are the chords by which the person answers a question that the
	// device shows while an agent has its mouse and keyboard; yes_keys "off" for none.
	YesKeys string `json:"yes_keys"`
	NoKeys  string `json:"no_keys"`
	// LaunchAllow, unless empty, are the only applications that calls may start.
	LaunchAllow []string `json:"launch_allow"`
	// Notices has the session show what calls use, while they use it.
	Notices bool `json:"notices"`
	// Live lets people at the gateway watch the screen and take over, if policy does.
	Live bool `json:"live"`
	// LivePort is the UDP and TCP port that they come in by; 0: one that is free.
	LivePort int `json:"live_port,omitempty"`
}

func defaultDesktop() desktopConfig {
	return desktopConfig{
		Enabled: true, QuietTime: duration(desktop.DefaultQuietTime), HotKey: desktop.DefaultHotKey, YesKeys: desktop.DefaultYes,
		NoKeys: desktop.DefaultNo, LaunchAllow: []string{}, Notices: true, Live: true,
	}
}

// duration is written as "3s".
type duration time.Duration

// MarshalJSON returns it as text.
func (d duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads it from text.
func (d *duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("a duration is text such as \"3s\": %w", err)
	}
	v, err := time.ParseDuration(text)
	*d = duration(v)
	return err
}

// desktopFlags are the owner's flags of the desktop family.
type desktopFlags struct {
	use    *string
	quiet  *time.Duration
	hotKey *string
	yes    *string
	no     *string
	launch *[]string
}

func addDesktopFlags(cmd *cobra.Command) desktopFlags {
	return desktopFlags{
		use:    cmd.Flags().String("desktop", "", "on or off: offer this session's desktop (default: as node.json says, which is on)"),
		quiet:  cmd.Flags().Duration("desktop-quiet-time", 0, "how long your own mouse and keyboard must rest before calls may use them"),
		hotKey: cmd.Flags().String("desktop-hot-key", "", "chord that stops everything, such as "+desktop.DefaultHotKey+"; off for none"),
		yes: cmd.Flags().String("desktop-yes-keys",
			"", "chord that allows a question which the device shows, such as "+desktop.DefaultYes+"; off for none"),
		no:     cmd.Flags().String("desktop-no-keys", "", "chord that denies it, such as "+desktop.DefaultNo),
		launch: cmd.Flags().StringSlice("desktop-allow-app", nil, "start only this application; repeatable"),
	}
}

// over returns the configuration with the flags laid over it.
func (f desktopFlags) over(c desktopConfig) (desktopConfig, error) {
	switch *f.use {
	case "":
	case "on", "off":
		c.Enabled = *f.use == "on"
	default:
		return c, terminal.UsageError("--desktop is on or off")
	}
	if *f.quiet != 0 {
		c.QuietTime = duration(*f.quiet)
	}
	if *f.hotKey != "" {
		c.HotKey = *f.hotKey
	}
	if *f.yes != "" {
		c.YesKeys = *f.yes
	}
	if *f.no != "" {
		c.NoKeys = *f.no
	}
	c.LaunchAllow = append(append([]string(nil), c.LaunchAllow...), *f.launch...)
	return c, nil
}

// openDesktop makes the desktop family and the live view of the same desktop and of the
// sensors; none if the owner does not offer it. It opens nothing yet.
func openDesktop(c desktopConfig, sensors []platform.Sensors, stop func(reason string), box *sandbox.Sandbox,
	log *slog.Logger) ([]capabilities.Handler, error) {
	if !c.Enabled {
		return nil, nil
	}
	opener := localDesktop(log)
	o := desktop.Options{
		Opener: opener, QuietTime: time.Duration(c.QuietTime), HotKey: c.HotKey, Yes: c.YesKeys, No: c.NoKeys, Stop: stop,
		LaunchAllow: c.LaunchAllow, Reader: ocr.New("", box), Control: c.Live, Log: log,
	}
	all := []capabilities.Handler{}
	if c.Live {
		l, err := media.New(media.Options{Opener: opener, Sensors: sensors, Port: c.LivePort, Log: log})
		if err != nil {
			return nil, err
		}
		o.Acting = l.Acting
		all = append(all, l) // the live view ends before the desktop that it looks at
	}
	h, err := desktop.New(o)
	if err != nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "node.json: %v", err)
	}
	return append(all, h), nil
}

// localNotices shows notices in the session of this process, if the owner wants them.
func localNotices(c desktopConfig, log *slog.Logger) platform.Notifier {
	if !c.Notices {
		return nil
	}
	return notify.New(notify.Options{Log: log})
}

// hotKey is the stop keys in words; empty where there are none.
func (c desktopConfig) hotKey() string {
	if !c.Enabled || c.HotKey == "off" {
		return ""
	}
	return c.HotKey
}

// answers returns agent what hears the person's answers by keys, and what they are; none
// where the owner wants none.
func (c desktopConfig) answers(hs []capabilities.Handler) (hear func(context.Context, func(bool)) error, yes, no string) {
	if !c.Enabled || c.YesKeys == "off" {
		return nil, "", ""
	}
	for _, h := range hs {
		if d, ok := h.(*desktop.Handler); ok {
			return d.HearAnswers, cmp.Or(c.YesKeys, desktop.DefaultYes), cmp.Or(c.NoKeys, desktop.DefaultNo)
		}
	}
	return nil, "", ""
}

// localDesktop opens the desktop of the session that this process belongs to.
func localDesktop(log *slog.Logger) platform.DesktopOpener {
	return session.New(session.Options{Log: log})
}
