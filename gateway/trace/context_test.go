package trace

import "testing"

func TestParse(t *testing.T) {
	const (
		id   = "4bf92f3577b34da6a3ce929d0e0e4736"
		span = "00f067aa0ba902b7"
	)
	for text, sampled := range map[string]bool{
		"00-" + id + "-" + span + "-01":          true,
		"00-" + id + "-" + span + "-00":          false,
		"00-" + id + "-" + span + "-03":          true, // bits that are not known yet
		"cc-" + id + "-" + span + "-01":          true,
		"cc-" + id + "-" + span + "-01-whatever": true,
	} {
		c := Parse(text)
		if !c.Exists() || c.Sampled != sampled {
			t.Errorf("%s: %+v", text, c)
		}
		if got := c.String(); got[3:52] != text[3:52] {
			t.Errorf("%s became %s", text, got)
		}
	}
	for _, text := range []string{
		"", "00", id, "00-" + id + "-" + span, "00-" + id + "-" + span + "-1", "00-" + id + "-" + span + "-01-more", "00-" + id + "-" + span + "-01 ",
		"ff-" + id + "-" + span + "-01", "00-00000000000000000000000000000000-" + span + "-01", "00-" + id + "-0000000000000000-01",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-" + span + "-01", "cc-" + id + "-" + span + "-01x", "00_" + id + "-" + span + "-01",
		"00-" + id + "-" + span + "-0g", "0\xff-" + id + "-" + span + "-01",
	} {
		if c := Parse(text); c.Exists() || c != (Context{}) {
			t.Errorf("%q was read as %+v", text, c)
		}
	}
}

func TestBelow(t *testing.T) {
	caller := Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")
	if p := Below(caller); p.Trace != caller.Trace || p.Above != caller.Span || p.Span == caller.Span || p.Sampled {
		t.Errorf("below a caller: %+v", p)
	}
	first, second := Below(Context{}), Below(Context{})
	if !first.Sampled || first.Above != (SpanID{}) || first.Trace == second.Trace || first.Span == second.Span {
		t.Errorf("below none: %+v, %+v", first, second)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Add("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-x")
	f.Fuzz(func(t *testing.T, text string) {
		c := Parse(text)
		if !c.Exists() {
			if c != (Context{}) {
				t.Fatalf("%q: an error with the value %+v", text, c)
			}
			return
		}
		if again := Parse(c.String()); again != c {
			t.Fatalf("%q: %+v became %+v", text, c, again)
		}
	})
}
