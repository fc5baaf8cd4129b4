package withhold

import (
	"errors"
	"reflect"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// An open secret is durable before its delivery and gone with its lane. After a start its principal
// gets nothing of the screen until the lane ends or a person says so; others and what shows nothing
// of the screen go on. A delivery that cannot be written down is none.
func TestAStartClosesTheScreen(t *testing.T) {
	var kept []Open
	keep := func(open []Open) error { kept = open; return nil }
	var b Book
	b.Restore(nil, keep)
	for _, lane := range []capabilities.LaneID{"one", "two", "one"} {
		c := b.Enter(lane, everything, as("anna"))
		if err := c.Opens(); err != nil {
			t.Fatal(err)
		}
		c.Hold(capabilities.NewSecret([]byte("hunter22")))()
		c.Leave()
	}
	if want := []Open{{"anna", "one"}, {"anna", "two"}}; !reflect.DeepEqual(kept, want) {
		t.Fatalf("kept: %v", kept)
	}
	b.Done("two") // of what was pasted; its texts stay kept back, and so it stays open
	b.CloseLane("two")
	if want := []Open{{"anna", "one"}}; !reflect.DeepEqual(kept, want) {
		t.Fatalf("kept: %v", kept)
	}

	refused := func(b *Book, who capabilities.PrincipalID, shows bool) bool {
		c := b.Enter("another", func(capabilities.Place) bool { return shows }, as(who))
		defer c.Leave()
		err := c.RefusesAll()
		return err != nil && err.Code == capabilities.CodeSecretHeld
	}
	if refused(&b, "anna", true) {
		t.Error("refused although the value is known")
	}
	for name, end := range map[string]func(*Book, capabilities.LaneID){"a person's word": (*Book).Done, "its lane's end": (*Book).CloseLane} {
		var again Book
		again.Restore([]Open{{"anna", "one"}}, keep)
		if !refused(&again, "anna", true) || refused(&again, "anna", false) || refused(&again, "bob", true) {
			t.Errorf("%s: after a start", name)
		}
		end(&again, "another")
		if !refused(&again, "anna", true) {
			t.Errorf("%s: of another lane counts", name)
		}
		end(&again, "one")
		if refused(&again, "anna", true) || len(kept) != 0 {
			t.Errorf("%s does not count: %v", name, kept)
		}
	}
	b.Restore(nil, func([]Open) error { return errors.New("disk full") })
	if c := b.Enter("one", everything, as("anna")); c.Opens() == nil {
		t.Error("a delivery that is not written down")
	}
}
