package capabilities

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Each kind of character that deceived somebody somewhere, and those that must stay.
func TestHidden(t *testing.T) {
	for r, name := range map[rune]string{
		0: "NUL", '\n': "newline", '\t': "tab", '\r': "carriage return", 0x1b: "escape", 0x7f: "delete", 0x9b: "C1 control sequence introducer",
		0xad: "soft hyphen", 0x34f: "combining grapheme joiner", 0x61c: "Arabic letter mark", 0x115f: "Hangul choseong filler", 0x180e: "Mongolian vowel separator",
		0x200b: "zero-width space", 0x200d: "zero-width joiner", 0x200f: "right-to-left mark", 0x2028: "line separator", 0x2029: "paragraph separator",
		0x202e: "right-to-left override", 0x2066: "left-to-right isolate", 0x2069: "pop directional isolate", 0x2060: "word joiner", 0x3164: "Hangul filler",
		0xfe0f: "variation selector 16", 0xfeff: "byte order mark", 0xffa0: "halfwidth Hangul filler", 0xfff9: "interlinear annotation anchor", 0xe000: "private use",
		0xe0041: "tag letter", 0xe0100: "variation selector 17", 0xfffe: "not a character", 0x10ffff: "the last code point", 0x378: "not assigned",
	} {
		if !Hidden(r) {
			t.Errorf("%U (%s) is shown as it is", r, name)
		}
		if s := "a" + string(r) + "b"; Printable(s) != "ab" || strings.ContainsRune(Escape(s), r) {
			t.Errorf("%U (%s): %q, %q", r, name, Printable(s), Escape(s))
		}
	}
	for _, s := range []string{" ~", "äß", "日本語", "\u3000", "\u00a0", "e\u0301", "🙂", "∶", "\uFFFD", "शुभ"} {
		if Escape(s) != s {
			t.Errorf("%q becomes %q", s, Escape(s))
		}
	}
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "plain text": "plain text", "photo\u202egnp.exe": `photo\u{202e}gnp.exe`, "a\nb": `a\u{a}b`, "a\x00\x9fb": `a\u{0}\x9fb`, "\uFFFD": "\uFFFD", "\xff": `\xff`,
		"x\U000e0041": `x\u{e0041}`,
	} {
		if got := Escape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := EscapeBut("a\nb\tc", map[rune]string{'\n': "⏎"}); got != `a⏎b\u{9}c` {
		t.Errorf("%q", got)
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "Study": "Study", "St\u200budy": "Study", "a\u00a0b\u3000c": "a b c", "a\nb": "ab", "\xffa": "a", "e\u0301": "e\u0301", "❤\ufe0f": "❤",
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		in   string
		most int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abc", 2, "ab"}, {"abc", 0, ""}, {"abc", -1, ""}, {"aé", 2, "a"}, {"aé", 3, "aé"}, {"🙂x", 4, "🙂"}, {"🙂x", 3, ""},
		{"\x80\x80\x80\x80\x80\x80", 5, "\uFFFD"}, {"a\xff", 2, "a"}, {"a\xffb", 9, "a\uFFFDb"}, {"\x80", 1, ""},
	} {
		if got := Clip(c.in, c.most); got != c.want {
			t.Errorf("Clip(%q, %d) is %q, want %q", c.in, c.most, got, c.want)
		}
	}
	for _, c := range []struct {
		in   string
		most int
		want string
	}{{"", 1, ""}, {"äöü", 3, "äöü"}, {"äöüx", 3, "äö…"}, {"ab", 1, "…"}, {"\xff\xff\xff", 2, "\xff…"}} {
		if got := Brief(c.in, c.most); got != c.want {
			t.Errorf("Brief(%q, %d) is %q, want %q", c.in, c.most, got, c.want)
		}
	}
	for _, c := range []struct {
		in   string
		most int
		want string
	}{{"", 0, ""}, {"", 1, ""}, {"a", 0, ""}, {"a", -1, ""}, {"äöü", 3, "äöü"}, {"äöüx", 3, "äöü"}, {"🙂x", 1, "🙂"}, {"\xff\xffa", 2, "\xff\xff"}} {
		if got := First(c.in, c.most); got != c.want {
			t.Errorf("First(%q, %d) is %q, want %q", c.in, c.most, got, c.want)
		}
	}
}

// textHolds checks the rules of every text.
func textHolds(t interface {
	Errorf(string, ...any)
}, s string, most int) {
	clean, shown, short, brief := Printable(s), Escape(s), Clip(s, most), Brief(s, most+1)
	if !utf8.ValidString(clean) || strings.ContainsFunc(clean, func(r rune) bool { return Hidden(r) || !unicode.IsPrint(r) }) || Printable(clean) != clean {
		t.Errorf("Printable(%q) is %q", s, clean)
	}
	if !utf8.ValidString(shown) || strings.ContainsFunc(shown, Hidden) || Escape(shown) != shown {
		t.Errorf("Escape(%q) is %q", s, shown)
	}
	if clean == s && shown != s {
		t.Errorf("%q is printable, and escaped to %q", s, shown)
	}
	if len(short) > most || !utf8.ValidString(short) || Clip(short, most) != short {
		t.Errorf("Clip(%q, %d) is %q", s, most, short)
	}
	if utf8.ValidString(s) && (!strings.HasPrefix(s, short) || len(s) <= most && short != s || len(s) > most && len(short) <= most-utf8.UTFMax) {
		t.Errorf("Clip(%q, %d) is %q", s, most, short)
	}
	if first := First(s, most); !strings.HasPrefix(s, first) || utf8.RuneCountInString(first) != min(max(most, 0), utf8.RuneCountInString(s)) {
		t.Errorf("First(%q, %d) is %q", s, most, first)
	}
	head, cut := strings.CutSuffix(brief, "…")
	if utf8.RuneCountInString(brief) > most+1 || brief != s && (!cut || !strings.HasPrefix(s, head)) || utf8.ValidString(s) && !utf8.ValidString(brief) {
		t.Errorf("Brief(%q, %d) is %q", s, most+1, brief)
	}
}

func TestTextHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("ab \n\u200b\u202e\ufe0f\u3164é🙂\uFFFD"))),
			rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) })).Draw(t, "text")
		textHolds(t, s, rapid.IntRange(0, 20).Draw(t, "most"))
	})
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "plain", "photo\u202egnp.exe", "a\x00\x9fb", "❤\ufe0f", "\x80\x80\x80\x80\x80", "日本語\u3000", "x\U000e0041"} {
		f.Add(s, 4)
	}
	f.Fuzz(func(t *testing.T, s string, most int) { textHolds(t, s, int(uint(most)%4096)) })
}
