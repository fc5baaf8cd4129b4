package e2e

func childMode() bool { return false }
