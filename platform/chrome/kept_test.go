package chrome

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A program is asked for its version once, and again when its file is another. An answer
// that did not come, or cannot be read, is not believed.
func TestVersionIsKept(t *testing.T) {
	cache, program := t.TempDir(), filepath.Join(t.TempDir(), "chrome")
	write := func(text string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(program, at, at); err != nil {
			t.Fatal(err)
		}
	}
	asked := 0
	says := "156.0.1.2"
	want := func(version string, times int) {
		t.Helper()
		if got := versionKept(cache, program, func() string { asked++; return says }); got != version || asked != times {
			t.Errorf("%q, asked %d times; want %q, %d", got, asked, version, times)
		}
	}
	at := time.Unix(1_700_000_000, 0)
	write("one", at)
	want("156.0.1.2", 1)
	says = "157.0.1.2"
	want("156.0.1.2", 1)
	write("two", at.Add(time.Second)) // as long, at another time
	want("157.0.1.2", 2)
	write("three", at.Add(time.Second)) // another length, at the same time
	says = ""
	want("", 3)
	want("", 4) // it did not answer
	says = "158.0.1.2"
	want("158.0.1.2", 5)
	if err := os.WriteFile(filepath.Join(cache, "handrail", "browser-version"), []byte("not ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("158.0.1.2", 6)
	want("158.0.1.2", 6)
	if got := versionKept("", program, func() string { asked++; return says }); got != says || asked != 7 {
		t.Errorf("without a cache: %q, asked %d times", got, asked)
	}
}
