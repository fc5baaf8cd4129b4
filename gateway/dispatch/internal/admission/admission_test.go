package admission

import (
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// One principal must not be able to keep every other out.
func TestOnePrincipalHasItsShareOnly(t *testing.T) {
	p := New(8)
	var leave func()
	for i := range 8 / share {
		l, err := p.Enter("greedy")
		if err != nil {
			t.Fatalf("call %d was refused", i)
		}
		leave = l
	}
	if _, err := p.Enter("greedy"); err == nil {
		t.Fatal("more than its share")
	}
	modest, err := p.Enter("modest")
	if err != nil {
		t.Fatal("another principal was kept out")
	}
	leave()
	if _, err := p.Enter("greedy"); err != nil {
		t.Fatal("what ended was not given back")
	}
	modest()
	if _, kept := p.each["modest"]; kept {
		t.Fatal("a principal without calls is remembered")
	}
	if p.Taken() != 2 {
		t.Errorf("%d places taken", p.Taken())
	}
}

// However many principals there are, all of them together have so many places.
func TestAllPlaces(t *testing.T) {
	p := New(2)
	for _, who := range []capabilities.PrincipalID{"a", "b"} {
		if _, err := p.Enter(who); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Enter("c"); err == nil {
		t.Fatal("one more than there are places")
	}
}
