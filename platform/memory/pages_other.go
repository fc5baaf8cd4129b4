//go:build !linux

package memory

func unmapOwnPages() {}
