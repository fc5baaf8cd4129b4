package governance

import "testing"

// The same at the length that a gateway of a year has.
func TestFromNothingIsTheSameAtLength(t *testing.T) {
	if testing.Short() {
		t.Skip("it folds a million packets twice")
	}
	fromNothing(t, 1_000_000)
}
