package screen

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// ByEnvironment returns nil if a library that dials by the environment, and takes the
// format of most servers' pixels for granted, sees c's screen; else why not. It asks nobody
// whose the server is: so c, which has asked, must be at the same path.
func ByEnvironment(c *wire.Conn) error {
	if c.Name != os.Getenv("DISPLAY") {
		return errors.New("DISPLAY names another X server to other programs")
	}
	if !c.ByUsualPath() {
		return fmt.Errorf("the X server of %s is not reached by the usual path", c.Name)
	}
	f, err := formatOf(c)
	if err == nil && !f.same {
		err = fmt.Errorf("the X server of %s has pixels of an unusual format", c.Name)
	}
	return err
}

// RootLayout tells the whole of c's screen as one display, where a Screen cannot open and
// another library reads the pixels.
func RootLayout(c *wire.Conn) func(context.Context) (platform.Layout, error) {
	var mu sync.Mutex
	known := platform.Layout{Epoch: uint64(time.Now().UnixMicro())} // as New begins
	return func(ctx context.Context) (platform.Layout, error) {
		root, err := rootArea(ctx, c)
		if err != nil {
			return platform.Layout{}, err
		}
		mu.Lock()
		defer mu.Unlock()
		if len(known.Displays) == 0 || known.Displays[0].Bounds != root {
			one := asDisplay(root, 1)
			one.Primary = true
			known = platform.Layout{Epoch: known.Epoch + 1, Displays: []platform.Display{one}}
		}
		return known, nil
	}
}
