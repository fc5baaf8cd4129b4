//go:build linux

package wayland

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/platform"
)

// An encoded message is read back, one after another, also in pieces.
func TestMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type one struct {
			object uint32
			opcode uint16
			number uint32
			text   string
			bytes  []byte
			part   int
		}
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) one {
			return one{rapid.Uint32().Draw(t, "object"), rapid.Uint16().Draw(t, "opcode"), rapid.Uint32().Draw(t, "number"),
				strings.ReplaceAll(rapid.StringN(0, 50, 200).Draw(t, "text"), "\x00", ""), rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "bytes"),
				rapid.IntRange(-1<<23, 1<<23-1).Draw(t, "part")}
		}), 1, 5).Draw(t, "messages")
		var b []byte
		var fds []int
		var err error
		for _, o := range all {
			if b, fds, err = encode(b, fds, o.object, o.opcode, o.number, int32(-5), o.text, o.bytes, fixed(float64(o.part)/256), fd(7)); err != nil {
				t.Fatal(err)
			}
		}
		if len(fds) != len(all) {
			t.Fatalf("%d descriptors", len(fds))
		}
		rest := b
		for _, o := range all {
			if m, same, err := split(rest[:len(rest)-len(rest)%4-1]); len(rest) < 12 && (m != nil || err != nil || len(same) == 0) {
				t.Fatalf("a part of a message: %v %v", m, err)
			}
			var m *message
			if m, rest, err = split(rest); err != nil || m == nil {
				t.Fatal(err)
			}
			m.takeFD = func() int { return 9 }
			if m.object != o.object || m.opcode != o.opcode || m.uint() != o.number || m.int() != -5 || m.string() != o.text ||
				!bytes.Equal(m.array(), o.bytes) || m.fixed() != float64(o.part)/256 || m.fd() != 9 || m.bad || len(m.rest) != 0 {
				t.Fatalf("%+v is not read back", o)
			}
		}
		if len(rest) != 0 {
			t.Fatalf("%d bytes are left", len(rest))
		}
	})
	if _, _, err := encode(nil, nil, 1, 1, strings.Repeat("x", maxText+1)); err == nil {
		t.Error("a text was encoded that no compositor takes")
	}
	if _, _, err := encode(nil, nil, 1, 1, make([]byte, maxMessage)); err == nil {
		t.Error("a request was encoded that is longer than its size can say")
	}
}

// Nothing is read that is not there, and what is bad is said to be.
func FuzzSplit(f *testing.F) {
	good, _, _ := encode(nil, nil, 3, 1, uint32(4), "text", []byte{1, 2, 3}, int32(-1))
	f.Add(good)
	f.Add(good[:9])
	f.Add([]byte{1, 0, 0, 0, 0, 0, 4, 0})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 12, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		for {
			m, rest, err := split(b)
			if err != nil {
				if m != nil {
					t.Fatal("a message beside an error")
				}
				return
			}
			if m == nil {
				return
			}
			if len(rest) >= len(b) || headerSize+len(m.rest)+len(rest) != len(b) {
				t.Fatal("bytes are lost or read twice")
			}
			size := len(m.rest)
			m.uint()
			s, a := m.string(), m.array()
			m.fixed()
			if m.fd() != -1 || !m.bad {
				t.Fatal("a descriptor that did not come")
			}
			if len(s)+len(a) > size {
				t.Fatal("more than came")
			}
			b = rest
		}
	})
}

// Sway's tree, whatever it is, gives windows in an order without holes, or an error.
func FuzzTree(f *testing.F) {
	f.Add([]byte(`{"id":1,"type":"root","nodes":[{"id":3,"type":"output","nodes":[{"id":4,"type":"workspace","name":"1","focus":[6,5],` +
		`"nodes":[{"id":5,"type":"con","name":"a","pid":7,"app_id":"foot","visible":true,"border":"normal","rect":{"x":0,"y":25,"width":100,"height":75},` +
		`"window_rect":{"x":2,"y":0,"width":96,"height":73},"deco_rect":{"x":0,"y":0,"width":100,"height":25}}],` +
		`"floating_nodes":[{"id":6,"type":"floating_con","name":null,"pid":8,"window_properties":{"class":"X"},"visible":true}]}]}]}`))
	f.Add([]byte(`{"nodes":[{"nodes":[{}]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		views, err := parseTree(b)
		if err != nil && views != nil {
			t.Fatal("windows beside an error")
		}
		for i, v := range views {
			if v.PID == 0 || i > 0 && views[i-1].hidden && !v.hidden {
				t.Fatalf("window %d: %+v", i, v)
			}
		}
	})
}

// An answer of Sway's is bounded before it is read.
func FuzzSwayReply(f *testing.F) {
	var b bytes.Buffer
	_ = writeSway(&b, swayTree, "{}")
	f.Add(b.Bytes())
	f.Add([]byte("i3-ipc\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, payload, err := readSway(bytes.NewReader(b))
		if err != nil {
			if payload != nil {
				t.Fatal("an answer beside an error")
			}
			return
		}
		var again bytes.Buffer
		_ = writeSway(&again, kind, string(payload))
		if !bytes.Equal(again.Bytes(), b[:again.Len()]) {
			t.Fatal("not what was written")
		}
	})
}

// Every character that can be typed has a key after it was lent one, keys that are
// held keep theirs, and no two characters have the same.
func TestKeymapLends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newKeymap()
		held := map[uint32]bool{}
		chords := map[rune]uint32{}
		typed := rapid.Custom(func(t *rapid.T) rune {
			return rapid.OneOf(rapid.Rune(), rapid.Map(rapid.IntRange(0x4e00, 0x9fff), func(n int) rune { return rune(n) })).Filter(typable).Draw(t, "rune")
		})
		for range rapid.IntRange(1, 6).Draw(t, "texts") {
			text := rapid.SliceOfN(typed, 1, 200).Draw(t, "text")
			n, _ := k.lend(text, held)
			if n == 0 {
				t.Fatal("no room for a character")
			}
			places := map[stroke]rune{}
			for r, s := range k.extra {
				if places[s] != 0 || held[s.code] || !s.level3 || len(keysOf[s.code]) != 2 {
					t.Fatalf("the place %v of %q is another's", s, r)
				}
				places[s] = r
			}
			for _, r := range text[:n] {
				if _, ok := k.find(r); !ok {
					t.Fatalf("%q has no key", r)
				}
			}
			// One is held as part of a chord, or a key of the plain ones is.
			if code, _, ok := k.lendChord(text[0], held); ok {
				if code < firstChord || code > lastChord || held[code] && chords[text[0]] != code {
					t.Fatalf("the key %d of %q is another's", code, text[0])
				}
				held[code], chords[text[0]] = true, code
			} else if len(chords) <= lastChord-firstChord {
				t.Fatal("no key for a chord")
			}
			held[uint32(rapid.IntRange(16, 20).Draw(t, "held"))] = true
			for r, code := range chords {
				if k.chords[r] != code {
					t.Fatalf("the held key of %q became another", r)
				}
			}
		}
	})
	for _, name := range platform.KeyNames {
		if s, _, err := newKeymap().keyOf(name); err != nil || keysOf[s.code] == nil {
			t.Errorf("the key %s: %v", name, err)
		}
	}
	for _, r := range " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~\n\t\r" {
		if _, ok := newKeymap().find(r); !ok {
			t.Errorf("%q is on no key of a US keyboard", r)
		}
	}
}

// A map does not say in which order its characters are typed.
func TestKeymapHidesTheOrder(t *testing.T) {
	one, two := newKeymap(), newKeymap()
	one.lend([]rune("pässwörd é漢"), nil)
	two.lend([]rune("漢é ördpässw"), nil)
	if one.text() != two.text() {
		t.Error("the order of the characters shows")
	}
}

// Places of one way of counting are those of the other.
func TestPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scale := rapid.SampledFrom([]float64{1, 1.25, 1.5, 2, 3}).Draw(t, "scale")
		unit := rapid.IntRange(100, 2000).Draw(t, "units") * 4
		px := int(float64(unit) * scale)
		x := rapid.IntRange(-4000, 4000).Draw(t, "x")
		at := place{bounds: platform.Rect{X: x * 3, Y: 7, Width: px, Height: px}, logical: platform.Rect{X: x, Y: 2, Width: unit, Height: unit}}
		p := platform.Point{X: at.bounds.X + rapid.IntRange(0, px-1).Draw(t, "px"), Y: at.bounds.Y + rapid.IntRange(0, px-1).Draw(t, "py")}
		lx, ly, ok := logical([]place{at}, p)
		if !ok || lx <= float64(x) || lx >= float64(x+unit) || ly <= 2 || ly >= float64(2+unit) {
			t.Fatalf("%v is at %v, %v of %+v", p, lx, ly, at)
		}
		r := platform.Rect{X: x + 10, Y: 20, Width: unit / 2, Height: unit / 3}
		if back := units([]place{at}, physical([]place{at}, r)); back != r {
			t.Fatalf("%v came back as %v", r, back)
		}
	})
	if _, _, ok := logical(nil, platform.Point{}); ok {
		t.Error("a place without a display")
	}
}

// Every transform is undone exactly once for each pixel.
func TestUntransform(t *testing.T) {
	const width, height = 3, 5
	for transform := range 8 {
		var seen []int
		bw := width
		if transform&1 != 0 {
			bw = height
		}
		for y := range height {
			for x := range width {
				bx, by := untransform(x, y, width, height, transform)
				seen = append(seen, by*bw+bx)
			}
		}
		slices.Sort(seen)
		for i, v := range seen {
			if v != i {
				t.Fatalf("transform %d: %v", transform, seen)
			}
		}
	}
}

func TestStopKeys(t *testing.T) {
	for in, want := range map[string]string{"ctrl+alt+escape": "Ctrl+Mod1+Escape", "Control + Shift + q": "Ctrl+Shift+q", "meta+F12": "Mod4+F12", "pause": "Pause"} {
		if got, err := swayKeys(in); got != want || err != nil {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "ctrl+", "ctrl+nosuch", "ctrl+é", "a; exec evil"} {
		if got, err := swayKeys(in); err == nil {
			t.Errorf("%q: %q", in, got)
		}
	}
}
