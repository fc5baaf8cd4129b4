//go:build unix

package script

import (
	"context"
	"io"
	"testing"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/procguard"
)

// lateReader reads of its processes only once they are gone.
type lateReader struct{ platform.Launcher }

type lateProcess struct{ platform.Process }

func (l lateReader) Start(ctx context.Context, c platform.Command) (platform.Process, error) {
	p, err := l.Launcher.Start(ctx, c)
	return lateProcess{p}, err
}

func (p lateProcess) Out() io.Reader { return p }

func (p lateProcess) Read(b []byte) (int, error) {
	<-p.Done()
	return p.Process.Out().Read(b)
}

// A script that finished is answered as finished, also where its process is gone before
// its last line is read.
func TestAFinishedScriptIsNotAnsweredAsFailed(t *testing.T) {
	r, err := Run(t.Context(), Options{Launcher: lateReader{procguard.New(procguard.Options{})}, Tools: tools, Do: do, Code: "console.log('x'); return 1 + 1"})
	if err != nil || string(r.Value) != "2" || len(r.Log) != 1 {
		t.Errorf("%s, %q, %v", r.Value, r.Log, err)
	}
}
