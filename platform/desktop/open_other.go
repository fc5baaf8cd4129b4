//go:build !linux && !windows && !darwin

package desktop

import (
	"context"
	"runtime"

	"github.com/handrail-dev/handrail/platform"
)

func open(context.Context, Options) (*session, error) {
	return nil, &platform.MissingError{What: "This program cannot work a desktop of " + runtime.GOOS + " yet.", Fix: "Use a node on Linux."}
}

func newLockWatch(Options) *lockWatch {
	return &lockWatch{ask: func(context.Context) string { return "" }, end: func() {}}
}
