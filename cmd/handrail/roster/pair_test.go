package roster

import "testing"

// A code that no other machine can use is known by its addresses.
func TestOnlyHere(t *testing.T) {
	if onlyHere("hr1:paste") {
		t.Error("what cannot be read is said to be for this machine")
	}
}
