package selector

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestSelectorsAreReadAsWritten(t *testing.T) {
	for text, want := range map[string]string{
		`window:"Text Editor" >> role:button && name:"Save"`: `window:"Text Editor" >> role:"button" && name:"Save"`,
		`role:button name:Save`:                              `role:"button" && name:"Save"`,
		`role:"push button" && name~:sav`:                    `role:"button" && name~:"sav"`,
		`name:~"Sav"`:                                        `name~:"Sav"`,
		`name~="Sav"`:                                        `name~:"Sav"`,
		`name='It\'s "so"'`:                                  `name:"It's \"so\""`,
		`"Save"`:                                             `name:"Save"`,
		`e12`:                                                `ref:"e12"`,
		`  e12  `:                                            `ref:"e12"`,
		`atspi::1.5/a/42`:                                    `ref:"atspi::1.5/a/42"`,
		`x11:0x1c00007`:                                      `ref:"x11:0x1c00007"`,
		`ref:"anything at all"`:                              `ref:"anything at all"`,
		`state:disabled`:                                     `state:"!enabled"`,
		`state:!checked`:                                     ``,
		`!state:checked`:                                     `!state:"checked"`,
		`!!role:button`:                                      `role:"button"`,
		`role:button || role:link && name:a`:                 `role:"button" || role:"link" && name:"a"`,
		`(role:button || role:link) && name:a`:               `(role:"button" || role:"link") && name:"a"`,
		`!(role:button || role:link)`:                        `!(role:"button" || role:"link")`,
		`role:checkbox && right-of:"Wrap lines"`:             `role:"checkbox" && right-of:(name:"Wrap lines")`,
		`role:checkbox right_of:e7 nth:2`:                    `role:"checkbox" && right-of:(ref:"e7") && nth:2`,
		`(role:button || role:link) near:(role:label name:A)`: `(role:"button" || role:"link") && near:(role:"label" && name:"A")`,
		`role:row && has:(name:"a" >> role:link) >> nth:-1`:   `role:"row" && has:(name:"a" >> role:"link") >> nth:-1`,
		`ocr:"Total sum"`:             `ocr:"Total sum"`,
		`name:"漢字 é😀"`:                `name:"漢字 é😀"`,
		`app:Mousepad>>role:Text Box`: ``,
		`NAME:x`:                      `name:"x"`,
	} {
		s, err := Parse(text)
		if want == "" {
			if err == nil {
				t.Errorf("%s is read as %s", text, s)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if s.String() != want {
			t.Errorf("%s is read as %s, want %s", text, s, want)
		}
	}
}

func TestWrongSelectorsSayWhere(t *testing.T) {
	for text, want := range map[string]string{
		``:                                "a term is missing",
		`   `:                             "a term is missing",
		`name:"Save`:                      "closing quote",
		`name:`:                           "needs a value",
		`name:""`:                         "empty",
		"name~:\"\u200f\u202e\"":          "empty",
		"name:\u200f":                     "needs a value",
		`Save`:                            `name:"Save"`,
		`role:buton`:                      "button",
		`state:chekced`:                   "checked",
		`nmae:"x"`:                        "name",
		`role:button >>`:                  "a term is missing",
		`>> role:button`:                  "a term is missing",
		`role:button && && name:a`:        "not expected",
		`(role:button`:                    `")" is missing`,
		`role:button)`:                    "not expected",
		`nth:0`:                           "1 is the first",
		`nth:x`:                           "1 is the first",
		`!nth:1`:                          "cannot stand",
		`(near:"a")`:                      "cannot stand",
		`role:button || near:"a"`:         "cannot stand",
		`near:"a" || role:button`:         "cannot stand beside ||",
		`nth:1 nth:2`:                     "twice",
		`ocr:"a" && role:button`:          "ocr stands alone",
		`role:button && ocr:"a"`:          `no term "ocr"`,
		`has:(role:button`:                `")" is missing`,
		strings.Repeat("(", 40) + "e1":    "nested",
		strings.Repeat("!", 40) + "e1":    "nested",
		strings.Repeat("name:a ", 70):     "more than 64",
		strings.Repeat("x", 3000):         "longer",
		"name:\"\xff\"":                   "UTF-8",
		`role:button & name:a`:            "not expected",
		strings.Repeat("has:(", 30) + "a": "nested",
	} {
		s, err := Parse(text)
		if err == nil {
			t.Errorf("%.40s is read as %s", text, s)
			continue
		}
		if e := capabilities.AsError(err); e.Code != capabilities.CodeInvalidArguments || !strings.Contains(e.PublicMessage(), want) || s != nil {
			t.Errorf("%.40s: %v, want it to say %q", text, err, want)
		}
	}
}

func TestSelectorObjects(t *testing.T) {
	for raw, want := range map[string]string{
		`"role:button"`:              `role:"button"`,
		`{"kind":"ref","ref":"e12"}`: `ref:"e12"`,
		`{"kind":"a11y","role":"push button","name":"Save","states":["enabled","unchecked"]}`: `role:"button" && name:"Save" && state:"enabled" && state:"!checked"`,
		`{"kind":"a11y"}`:               ``,
		`{"kind":"ocr","text":"Total"}`: `ocr:"Total"`,
	} {
		s, err := Decode(json.RawMessage(raw))
		if err != nil || s.String() != want {
			t.Errorf("%s: %v, %v; want %s", raw, s, err, want)
		}
	}
	s, err := Decode(json.RawMessage(`{"kind":"ocr","text":"x","case_insensitive":false,"bounds":{"x":1.5,"y":2,"width":3,"height":4.2}}`))
	if err != nil || s.OCR.Fold || s.OCR.Bounds.X != 1 || s.OCR.Bounds.Width != 4 || s.OCR.Bounds.Height != 5 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, raw := range []string{`{"kind":"a11y","role":"nothing"}`, `{"kind":"css"}`, `{"kind":"ref"}`, `{"kind":"ocr","text":" "}`, `12`, `null`, `""`} {
		if s, err := Decode(json.RawMessage(raw)); err == nil {
			t.Errorf("%s is read as %v", raw, s)
		}
	}
}

// A selector that a parser accepts it writes again so that it means the same; one that it refuses
// leaves nothing.
func FuzzSelector(f *testing.F) {
	for _, seed := range []string{
		`window:"Text Editor" >> role:button && name:"Save"`, `role:checkbox && right-of:(name~:"Wrap" >> nth:2) nth:-1`, `!(state:checked || "x")`,
		`e12`, `ocr:'a b'`, `has:(has:"x")`, `atspi::1.5/a/42 || ref:x`, `name:"\\\""`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			if s != nil || capabilities.CodeOf(err) != capabilities.CodeInvalidArguments {
				t.Fatalf("%v beside %v", s, err)
			}
			return
		}
		written := s.String()
		if len(written) > maxSelector {
			return // quotes may have made it too long to be read again
		}
		again, err := Parse(written)
		if err != nil {
			t.Fatalf("%q is written as %q, which is refused: %v", text, written, err)
		}
		if again.String() != written {
			t.Fatalf("%q is written as %q and then as %q", text, written, again)
		}
	})
}
