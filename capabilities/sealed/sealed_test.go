package sealed

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
)

func key(t interface{ Fatal(...any) }) *Key {
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestOpensForItsCallOnly(t *testing.T) {
	base := Binding{Node: "n1", Call: "c1", Tool: "tool.a.b", Envelope: []byte("envelope"), Grants: []string{"k", "grant:1"}}
	value := []byte("correct horse")
	for name, change := range map[string]func(*Binding){
		"node":            func(b *Binding) { b.Node = "n2" },
		"call":            func(b *Binding) { b.Call = "c2" },
		"tool":            func(b *Binding) { b.Tool = "tool.a.c" },
		"decision":        func(b *Binding) { b.Envelope = []byte("envelopf") },
		"grant":           func(b *Binding) { b.Grants = []string{"k", "grant:2"} },
		"a grant less":    func(b *Binding) { b.Grants = []string{"k"} },
		"moved border":    func(b *Binding) { b.Node, b.Call = "n1c", "1" },
		"grants together": func(b *Binding) { b.Grants = []string{"kgrant:1"} },
	} {
		k := key(t)
		sealed, err := Seal(k.Public(), base, capabilities.NewSecret(bytes.Clone(value)))
		if err != nil {
			t.Fatal(err)
		}
		other := base
		change(&other)
		if s, err := k.Open(other, sealed); !errors.Is(err, &capabilities.Error{Code: capabilities.CodeTicketInvalid}) || !s.IsZero() {
			t.Errorf("another %s: opened, %v", name, err)
		}
		if s, err := k.Open(base, sealed); err == nil || !s.IsZero() {
			t.Errorf("another %s: the key opened a second time", name)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SliceOfN(rapid.Byte(), 1, 2000).Draw(t, "value")
		b := Binding{Node: capabilities.NodeID(rapid.String().Draw(t, "node")), Envelope: []byte(rapid.String().Draw(t, "envelope"))}
		k := key(t)
		sealed, err := Seal(k.Public(), b, capabilities.NewSecret(bytes.Clone(value)))
		if err != nil {
			t.Fatal(err)
		}
		if len(sealed) > MaxSize || (len(sealed)-KeySize-16)%block != 0 {
			t.Fatalf("%d bytes tell the length", len(sealed))
		}
		got, err := k.Open(b, sealed)
		if err != nil || !bytes.Equal(got.Reveal(), value) {
			t.Fatalf("%v", err)
		}
		if s, err := k.Open(b, sealed); err == nil || !s.IsZero() {
			t.Fatal("the key opened twice")
		}
	})
}

func TestBounds(t *testing.T) {
	k := key(t)
	for _, n := range []int{0, capabilities.MaxSecret + 1} {
		if _, err := Seal(k.Public(), Binding{}, capabilities.NewSecret(make([]byte, n))); err == nil {
			t.Errorf("%d bytes were sealed", n)
		}
	}
	full, err := Seal(k.Public(), Binding{}, capabilities.NewSecret([]byte(strings.Repeat("x", capabilities.MaxSecret))))
	if err != nil || len(full) > MaxSize {
		t.Fatalf("%d bytes, %v", len(full), err)
	}
	if _, err := Seal([]byte("short"), Binding{}, capabilities.NewSecret([]byte("x"))); err == nil {
		t.Error("sealed to what is no key")
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte{}, true)
	f.Add(bytes.Repeat([]byte{1}, 400), true)
	f.Add([]byte{0, 0, 0, 200, 1, 2, 3}, false)
	f.Fuzz(func(t *testing.T, data []byte, raw bool) {
		k := key(t)
		if !raw { // what an honest cipher carries, in a form of somebody's choice
			data = sealRaw(t, k.Public(), data)
		}
		if s, err := k.Open(Binding{}, data); err != nil && !s.IsZero() {
			t.Fatal("a value beside an error")
		}
	})
}
