package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/handrail-dev/handrail/test/site"
)

// TestTheProgramHasItsSize: the program as it is released, without symbols, has at most 80 MB
// (decision 137). A library that takes more than its use is worth shows here.
func TestTheProgramHasItsSize(t *testing.T) {
	const most = 80_000_000
	file := filepath.Join(t.TempDir(), "handrail")
	site.Program(t, file)
	found, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MB", float64(found.Size())/1e6)
	if found.Size() > most {
		t.Errorf("the program has %d bytes, %d more than it may", found.Size(), found.Size()-most)
	}
}
