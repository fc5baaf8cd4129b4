//go:build !unix

package desktop

import "errors"

// canFreeze: a program can be stopped and let run on.
const canFreeze = false

func freeze(int) error { return errors.ErrUnsupported }

func thaw(int) error { return errors.ErrUnsupported }

// beginning is not known here: what was started is closed by its window only.
func beginning(int) string { return "" }
