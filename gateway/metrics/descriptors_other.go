//go:build !unix

package metrics

func maxDescriptors() (float64, bool) { return 0, false }
