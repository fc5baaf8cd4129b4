package wire

import (
	"context"
	"testing"

	"github.com/handrail-dev/handrail/test/desk"
)

// within and bare are those of x11test, which imports this package.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), desk.Within)
	t.Cleanup(cancel)
	return ctx
}

func bare(t testing.TB, size string, args ...string) *desk.Desk {
	return desk.StartX(t, desk.Options{Size: size, NoWM: true, NoBus: true, Args: args})
}
