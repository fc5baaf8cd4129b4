//go:build !linux

package main

// spread leaves the cores to the system.
func spread(_, _ []*child) (together func() error, ok bool, err error) { return nil, false, nil }
