package boot

// ID returns what names this run of the system, and "" where nothing does: on Windows, say, where
// the time of the start moves with the clock.
func ID() string { return id() }
