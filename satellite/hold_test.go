package satellite

import (
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// An identity is one process's at a time, and the next one's once that ended.
func TestAnIdentityIsOneProcesss(t *testing.T) {
	dir := t.TempDir()
	first, err := hold(dir, "voice")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hold(dir, "voice"); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("a second one: %v", err)
	}
	other, err := hold(dir, "image")
	if err != nil {
		t.Errorf("another satellite: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := hold(dir, "voice")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = again.Close(), other.Close()
}
