//go:build !unix || darwin

package notify

import (
	"context"
	"fmt"

	"github.com/handrail-dev/handrail/platform"
)

// none is a session that shows no notices that we know how to put up.
type none struct{}

func open(Options) platform.Notifier { return none{} }

func (none) Show(context.Context, uint32, platform.Notice) (uint32, error) {
	return 0, fmt.Errorf("%w: there is no org.freedesktop.Notifications on this system", platform.ErrNoNotices)
}

// Ready says so without showing one.
func (n none) Ready(ctx context.Context) error {
	_, err := n.Show(ctx, 0, platform.Notice{})
	return err
}

func (none) Withdraw(context.Context, uint32) error { return nil }

func (none) Events() <-chan platform.NoticeEvent { return nil }

func (none) Close() error { return nil }
