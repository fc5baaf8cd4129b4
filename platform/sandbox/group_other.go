//go:build !linux

package sandbox

import "errors"

type group struct{}

func newGroup() *group { return nil }

func (*group) folders() []string { return nil }

func (*group) hold(int) {}

func (*group) bound(Limits) error { return errors.ErrUnsupported }

func (*group) remove() {}

func groups() (by string, err error) { return "", errors.New("this system has no cgroups") }
