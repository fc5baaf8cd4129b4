//go:build !linux && !darwin

package boot

func id() string { return "" }
