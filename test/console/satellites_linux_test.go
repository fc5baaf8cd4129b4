package console

import (
	"context"
	"log/slog"
	"testing"

	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/satellite"
)

// Satellites stand on the page of providers with their health, are let in there by their key, and
// are put out there.
func TestSatellitesAreLookedAt(t *testing.T) {
	d := startSite(t, func(o *gateway.Options) { o.Bus = "127.0.0.1:0" })
	dir := t.TempDir()
	i, err := d.Gateway.Bus.Invite(t.Context(), "root", "voice", false, 0)
	must(t, err)
	ended := make(chan error, 1)
	go func() {
		ended <- satellite.Run(t.Context(), satellite.Options{
			Name: "voice", Dir: dir, Paste: i.Paste, Log: slog.New(slog.DiscardHandler),
			Tools: []satellite.Tool{{Name: "tts", Description: "Speaks.", ReadOnly: true,
				Run: func(context.Context, satellite.Call) (satellite.Result, error) { return satellite.Result{}, nil }}},
		})
	}()
	d.Await("the satellite", func() bool { return len(d.Gateway.Bus.Views()) == 1 })
	d.enter(principal.RoleAdmin)
	d.goTo("/console/providers")
	d.says("Satellites", "voice on", "pending", "Let in voice", d.Gateway.Bus.Views()[0].Key)
	d.shots("satellites-pending")
	must(t, d.run(`document.querySelector("form[data-does='POST /v1/satellites/{satellite}/approve']").requestSubmit(); 1`, nil))
	d.Await("its tools", func() bool { _, err := d.Providers.Get("voice"); return err == nil })
	d.goTo("/console/providers")
	d.says("voice on", "ready", "tool.voice.tts", "draft", "Approve tools of “voice”")
	d.shots("satellites")
	must(t, d.run(`document.querySelector("form[data-does='POST /v1/satellites/{satellite}/revoke']").requestSubmit(); 1`, nil))
	if err := <-ended; err == nil {
		t.Error("it ended without a reason")
	}
	if s := d.Gateway.Bus.Views()[0].State; s != route.StateRevoked {
		t.Errorf("it is %s", s)
	}
}
