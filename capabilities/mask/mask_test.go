package mask_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities/mask"
)

// Personal data is masked, and a text that only looks like some is not (S1-17).
func TestText(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"Write to ann.o'neil+x@mail.example.co.uk, please.", "Write to [email], please."},
		{"<bob@example.com>", "<[email]>"},
		{"card 4111 1111 1111 1111 ends", "card [card] ends"},
		{"from 12 4111 1111 1111 1111", "from 12 [card]"},
		{"5500-0000-0000-0004", "[card]"},
		{"order 4111111111111112", "order 4111111111111112"}, // its check digit is wrong
		{"DE89 3704 0044 0532 0130 00", "[account]"},
		{"gb82west12345698765432.", "[account]."},
		{"DE88370400440532013000", "DE88370400440532013000"},
		{"SSN 078-05-1120", "SSN [id]"},
		{"000-12-3456", "000-12-3456"},
		{"NI number AB 12 34 56 C", "NI number [id]"},
		{"DNI 12345678Z, NIE X1234567L", "DNI [id], NIE [id]"},
		{"DNI 12345678A", "DNI 12345678A"},
		{"2 55 08 14 168 025 38", "[id]"},
		{"IdNr 86 095 742 719", "IdNr [id]"},
		{"+49 30 901820 and 0049-30-901820", "[phone] and [phone]"},
		{"call (030) 901820-12 or 415-555-2671", "call [phone] or [phone]"},
		{"020 7946 0958", "[phone]"},
		// controls
		{"2026-11-28 16:45:18 and 2026-11-28T16:45:18Z", "2026-11-28 16:45:18 and 2026-11-28T16:45:18Z"},
		{"192.168.100.200 and 10.0.0.1:8080", "192.168.100.200 and 10.0.0.1:8080"},
		{"v1.2.3-4567, 0.123456789, 1,234,567", "v1.2.3-4567, 0.123456789, 1,234,567"},
		{"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
		{"packet 1234567 of 7654321", "packet 1234567 of 7654321"},
		{"me@localhost", "me@localhost"},
		{"Ann Smith lives here", "Ann Smith lives here"}, // a name, in no field that says so
	} {
		got, counts := mask.Text(c.in)
		if got != c.want || (len(counts) > 0) != (got != c.in) {
			t.Errorf("%q became %q %v, not %q", c.in, got, counts, c.want)
		}
	}
}

// Values of JSON stay of their type, and names are masked where a field says so.
func TestJSON(t *testing.T) {
	in := `{"people":[{"name":"Ann Smith","mail":"ann@example.com","age":41},{"name":"","card":4111111111111111}],"bob@example.com":1,"eve@example.com":2,"ok":true,"none":null,"a<b":"a<b"}`
	out, counts, err := mask.JSON([]byte(in), [][]string{{"people", "*", "name"}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"people":[{"name":"[name]","mail":"[email]","age":41},{"name":"","card":0}],"[email]":1,"[email] 2":2,"ok":true,"none":null,"a<b":"a<b"}`
	if string(out) != want || !maps.Equal(counts, mask.Counts{mask.Name: 1, mask.Email: 3, mask.Card: 1}) {
		t.Errorf("%s %v", out, counts)
	}
	for _, bad := range []string{"", "{", `{"a":1}x`, "nul"} {
		if out, _, err := mask.JSON([]byte(bad), nil); err == nil || out != nil {
			t.Errorf("%q became %s", bad, out)
		}
	}
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	w := mask.NewWriter(&out)
	for _, part := range []string{"ann@exa", "mple.com\n411111111111", "1111\nplain"} {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil || out.String() != "[email]\n[card]\nplain" || w.Counts()[mask.Email] != 1 {
		t.Errorf("%q %v %v", out.String(), w.Counts(), err)
	}
	w = mask.NewWriter(&out)
	if _, err := w.Write([]byte("\xff\n")); !errors.Is(err, mask.ErrText) {
		t.Error(err)
	}
	w = mask.NewWriter(&out)
	if _, err := w.Write(make([]byte, mask.MaxLine+1)); !errors.Is(err, mask.ErrLine) {
		t.Error(err)
	}
	for mime, text := range map[string]bool{"text/plain; charset=utf-8": true, "application/json": true, "image/svg+xml": true, "image/png": false, "": false, "application/pdf": false} {
		if mask.Texts(mime) != text {
			t.Errorf("%q: %v", mime, !text)
		}
	}
}

// Masking what is masked changes nothing, a text is masked alike in one piece and in two, and no
// text gets longer than its parts can make it.
func FuzzText(f *testing.F) {
	for _, s := range []string{"ann@example.com", "4111 1111 1111 1111", "DE89370400440532013000", "+49 30 901820\n078-05-1120", "a@b@c.de", "(030) 1234567 12345678Z", "00491234567 4111111111111111", "86 095 742 719x"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, cut int) {
		if !utf8.ValidString(s) || len(s) > 4096 {
			return
		}
		once, counts := mask.Text(s)
		if again, more := mask.Text(once); again != once || len(more) > 0 {
			t.Errorf("%q became %q, then %q", s, once, again)
		}
		if !utf8.ValidString(once) || (once == s) != (len(counts) == 0) {
			t.Errorf("%q became %q, %v", s, once, counts)
		}
		cut = min(max(cut, 0), len(s))
		var out strings.Builder
		w := mask.NewWriter(&out)
		_, err := w.Write([]byte(s[:cut]))
		_, more := w.Write([]byte(s[cut:]))
		if err := errors.Join(err, more, w.Close()); err != nil || out.String() != once || !maps.Equal(w.Counts(), counts) {
			t.Errorf("%q in two became %q, %v", s, out.String(), err)
		}
		quoted, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		masked, _, err := mask.JSON(quoted, nil)
		var back string
		if err != nil || json.Unmarshal(masked, &back) != nil || back != once {
			t.Errorf("%s became %s, %v", quoted, masked, err)
		}
	})
}
