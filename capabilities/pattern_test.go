package capabilities

import "testing"

func TestPattern(t *testing.T) {
	digits := Pattern(`^\d+$`)
	if !digits().MatchString("12") || digits().MatchString("a") {
		t.Error("another expression than the one that was asked for")
	}
	if a, b := digits(), digits(); a != b {
		t.Error("compiled twice")
	}
	Pattern(`(`) // costs nothing and fails when it is used
	defer func() {
		if recover() == nil {
			t.Error("no expression, and no panic")
		}
	}()
	Pattern(`(`)()
}
