package store

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestAddressHidesItsPassword(t *testing.T) {
	for _, u := range []URL{
		"postgres://u:geheim@h/d", "postgres://u@h/d?password=geheim", "postgres://u@h/d?sslpassword=geheim", "postgres://u:geheim@h/\x7f",
	} {
		text, err := json.Marshal(map[string]any{"at": u})
		if err != nil {
			t.Fatal(err)
		}
		for _, said := range []string{fmt.Sprint(u), fmt.Sprintf("%s %v %+v %#v %q", u, u, u, u, u), string(text), u.LogValue().String()} {
			if strings.Contains(said, "geheim") {
				t.Errorf("said %s", said)
			}
		}
		if bare := u.bare(); strings.Contains(string(bare), "geheim") {
			t.Errorf("written down: %q", string(bare))
		}
	}
	if !URL("postgres://u:geheim@h/d").Password() || URL("postgres://u@h/d?passfile=x").Password() {
		t.Error("an address does not know its password")
	}
}

// A folder knows where its store lies, and is given no second one beside it.
func TestFolderKnowsItsStore(t *testing.T) {
	dir, u := t.TempDir(), URL("postgres://u@db.example/d")
	in := func(given URL) Options {
		t.Helper()
		o, err := In(dir, given, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if o := in(""); o.Path != filepath.Join(dir, FileName) || o.URL != "" {
		t.Errorf("a new folder: %+v", o)
	}
	o := in(u)
	if o.URL != u || o.Existing || o.Path != "" {
		t.Errorf("a new folder with an address: %+v", o)
	}
	o.URL = "postgres://u:geheim@db.example/d"
	if err := o.Settled(dir); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, placeName)); err != nil || string(text) != string(u)+"\n" {
		t.Errorf("written down: %q, %v", text, err)
	}
	if o := in(""); o.URL != u || !o.Existing {
		t.Errorf("the next start: %+v", o)
	}
	// A move that ended before its last step.
	file := filepath.Join(dir, FileName)
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := in(""); o.URL != u {
		t.Errorf("after a move: %+v", o)
	}
	if text, err := os.ReadFile(filepath.Join(dir, movedName)); err != nil || string(text) != "old" {
		t.Errorf("put aside: %q, %v", text, err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, FileName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := In(other, u, Options{}); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("a store beside a store: %v", err)
	}
}
