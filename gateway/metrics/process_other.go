//go:build !linux

package metrics

// Other systems tell their own tools.

func cpuSeconds() (float64, bool)      { return 0, false }
func virtual() (float64, bool)         { return 0, false }
func resident() (float64, bool)        { return 0, false }
func openDescriptors() (float64, bool) { return 0, false }
func began() (float64, bool)           { return 0, false }
