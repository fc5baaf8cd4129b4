package desktop

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

const pass = "correct horse"

//lint:ignore ST1008 what was returned stands before what was kept
func (b *table) deliver(args string) (capabilities.Output, error, chan struct{}) {
	b.t.Helper()
	cleared := make(chan struct{})
	out, err := b.h.Handle(b.t.Context(), capabilities.Invocation{
		Capability: "tyrum.desktop.clipboard-write", Lane: "l", Args: []byte(args),
		Secret: capabilities.NewSecret([]byte(pass)), Cleared: func() { close(cleared) },
	})
	return out, err, cleared
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		t.Fatal("waited in vain for " + what)
	}
}

// A secret is cleared until it is gone, and only then said to be.
func TestSecretIsClearedUntilItIsGone(t *testing.T) {
	b := newTable(t, Options{})
	// The fake clears nothing by itself, as a system whose timer failed.
	out, err, cleared := b.deliver(`{"concealed":true,"clear_after_ms":1}`)
	if err != nil || out.Effect != capabilities.EffectConfirmed {
		t.Fatalf("%+v %v", out, err)
	}
	await(t, "the clipboard to be cleared", cleared)
	if text, _, _, _ := b.d.Copied(); text != "" {
		t.Errorf("said to be cleared, and %q is there", text)
	}
}

// lateClipboard answers its first reader a second late.
type lateClipboard struct {
	platform.Clipboard
	reads atomic.Int32
	late  func() // called before it answers
}

func (c *lateClipboard) Read(ctx context.Context) (string, error) {
	if c.reads.Add(1) == 1 {
		time.Sleep(time.Second) // by the bubble's clock
		c.late()
	}
	return c.Clipboard.Read(ctx)
}

// A secret that is due before it is read back is read back first; if the system
// cleared it by then, no other program is said to have done so.
func TestSecretIsDueBeforeItIsReadBack(t *testing.T) {
	for _, test := range []struct {
		name   string
		late   func(b *table)
		effect capabilities.Effect
	}{
		{"the node clears it", func(*table) {}, capabilities.EffectConfirmed},
		{"the system does", func(b *table) { b.d.Elapse() }, capabilities.EffectUnverifiable},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTable(t, Options{})
				desk, err := b.d.Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				desk.Clipboard = &lateClipboard{Clipboard: desk.Clipboard, late: func() { test.late(b) }}
				out, err, cleared := b.deliver(`{"concealed":true,"clear_after_ms":1}`)
				if err != nil || out.Effect != test.effect {
					t.Errorf("%+v %v", out, err)
				}
				await(t, "the clipboard to be cleared", cleared)
				if text, _, _, _ := b.d.Copied(); text != "" {
					t.Errorf("said to be cleared, and %q is there", text)
				}
			})
		})
	}
}

// A copy that the person made meanwhile stays; the secret is gone then, too.
func TestThePersonsOwnCopyStays(t *testing.T) {
	b := newTable(t, Options{})
	_, err, cleared := b.deliver(`{"concealed":true,"clear_after_ms":1}`)
	if err != nil {
		t.Fatal(err)
	}
	b.d.Copy("shopping list")
	await(t, "the secret to be gone", cleared)
	if text, _, _, _ := b.d.Copied(); text != "shopping list" {
		t.Errorf("%q", text)
	}
}

// While it is there it is concealed and not said to be cleared; the end of the node
// clears it at once.
func TestSecretLiesThere(t *testing.T) {
	b := newTable(t, Options{})
	_, err, cleared := b.deliver(`{"concealed":true,"clear_after_ms":3600000}`)
	if err != nil {
		t.Fatal(err)
	}
	if text, ours, concealed, after := b.d.Copied(); text != pass || !ours || !concealed || after != time.Hour {
		t.Errorf("%v %v %v", ours, concealed, after)
	}
	select {
	case <-cleared:
		t.Error("said to be cleared, and it is there")
	default:
	}
	if err := b.h.Close(); err != nil {
		t.Fatal(err)
	}
	if text, _, _, _ := b.d.Copied(); text != "" {
		t.Error("the node ended and left it there")
	}
}

// Whether or not it could be written, it is said to be gone once it is.
func TestFailuresClear(t *testing.T) {
	for _, op := range []string{"open", "clipboard.write", "clipboard.read"} {
		b := newTable(t, Options{})
		b.d.Fail(op, errors.New("broken"))
		_, err, cleared := b.deliver(`{"concealed":true,"clear_after_ms":1}`)
		if err == nil {
			t.Errorf("%s: no error", op)
		}
		b.d.Fail(op, nil)
		await(t, op, cleared)
		if text, _, _, _ := b.d.Copied(); text != "" {
			t.Errorf("%s: it is there", op)
		}
	}
}
