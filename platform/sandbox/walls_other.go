//go:build !darwin && (!linux || (!amd64 && !arm64))

package sandbox

import (
	"errors"
	"os"
	"syscall"
)

var errNoWalls = errors.New("walls around programs are written for Linux on amd64 and arm64")

func attributes() *syscall.SysProcAttr { return nil }

func (host) stands(Wall) (by, fix string, err error) {
	return "", "Run such programs on a device with Linux.", errNoWalls
}

func keepFromProgram(int) {}

func raise(*order, *fence) (*keeper, error) { return nil, errNoWalls }

type fence struct{}

func newFence(int) (*fence, error) { return nil, errNoWalls }

type keeper struct{}

func (*keeper) run(teller) {}

func (*keeper) watch() int { select {} }

func (*keeper) wait(program *os.Process) int { return -1 }

func (*keeper) end(<-chan struct{}) {}

func part() error { return errNoWalls }
