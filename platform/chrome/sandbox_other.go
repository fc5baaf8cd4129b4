//go:build !linux

package chrome

import "github.com/handrail-dev/handrail/platform"

// Chrome's sandbox needs nothing special on these systems.
func localNamespaces(*platform.User, string) (why, fix string) { return "", "" }

func localAccount(platform.User) bool { return true }

func smallShm() bool { return false }
