//go:build race && unix

package script

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/procguard"
)

// heard keeps the processes it starts.
type heard struct {
	platform.Launcher
	proc platform.Process
}

func (h *heard) Start(ctx context.Context, c platform.Command) (p platform.Process, err error) {
	h.proc, err = h.Launcher.Start(ctx, c)
	return h.proc, err
}

// The guest's own Go is watched once, with a script that is easy on the engine.
func TestGuestHasNoRaces(t *testing.T) {
	unwatched := guestPath
	defer func() { guestPath = unwatched }()
	guestPath = selfPath
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	h := &heard{Launcher: procguard.New(procguard.Options{})}
	r, err := Run(ctx, Options{
		Launcher: h, Tools: tools, Do: do,
		Code: "console.log(1); setTimeout(() => {}, 5); await page.navigate('u'); try { page.click('#x') } catch (e) { return e.code }",
	})
	if err != nil || string(r.Value) != `"element_not_found"` || r.Steps != 2 || len(r.Log) != 1 {
		t.Errorf("%s, %v", r.Value, err)
	}
	if out := h.proc.Output(); strings.Contains(out, "DATA RACE") {
		t.Error(out)
	}
}
