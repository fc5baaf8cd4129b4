package form

import (
	"encoding/json"
	"fmt"
	"math"
	"net/mail"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Bounds of a form.
const (
	MaxBytes    = 64 << 10 // of one as JSON, on the wire and as a server sends it
	MaxContent  = 16 << 10 // of what is filled in, as JSON
	maxFields   = 24
	maxChoices  = 100
	maxMessage  = 2 << 10 // bytes, as all that follow
	maxName     = 128
	maxTitle    = 200
	maxNote     = 600
	maxText     = 8 << 10 // what is filled in to one field
	defaultText = 2 << 10 // where the form does not say
)

// Kind is what a field holds. The zero value is none.
type Kind string

// The kinds.
const (
	Text    Kind = "text"
	Integer Kind = "integer"
	Number  Kind = "number"
	Boolean Kind = "boolean"
	Choice  Kind = "choice"  // one of Choices
	Choices Kind = "choices" // some of Choices
)

// Form is what is asked.
type Form struct {
	Message string  `json:"message"`
	Fields  []Field `json:"fields"`
}

// Field is one thing that is asked.
type Field struct {
	Name     string   `json:"name"` // as the program calls it; printable
	Title    string   `json:"title,omitempty"`
	Note     string   `json:"note,omitempty"`
	Kind     Kind     `json:"kind"`
	Format   string   `json:"format,omitempty"` // of Text: email, uri, date or date-time
	Required bool     `json:"required,omitempty"`
	Least    *float64 `json:"least,omitempty"` // of a number its value, of Text its characters, of Choices how many
	Most     *float64 `json:"most,omitempty"`
	Choices  []Option `json:"choices,omitempty"`
	Default  any      `json:"default,omitempty"` // fits the field
}

// Option is one of the values of a choice.
type Option struct {
	Value string `json:"value"`
	Title string `json:"title,omitempty"`
}

// Label is the field by the words that a person knows it by.
func (f *Field) Label() string {
	if f.Title != "" {
		return f.Title
	}
	return f.Name
}

// schema is what form elicitation admits of JSON Schema.
type schema struct {
	Type       string            `json:"type"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Title      string            `json:"title"`
	Note       string            `json:"description"`
	Format     string            `json:"format"`
	Minimum    *float64          `json:"minimum"`
	Maximum    *float64          `json:"maximum"`
	MinLength  *float64          `json:"minLength"`
	MaxLength  *float64          `json:"maxLength"`
	MinItems   *float64          `json:"minItems"`
	MaxItems   *float64          `json:"maxItems"`
	Enum       []any             `json:"enum"`
	EnumNames  []string          `json:"enumNames"`
	OneOf      []titled          `json:"oneOf"`
	AnyOf      []titled          `json:"anyOf"`
	Const      any               `json:"const"`
	Items      *schema           `json:"items"`
	Default    any               `json:"default"`
}

type titled struct {
	Const any    `json:"const"`
	Title string `json:"title"`
}

// Read makes a form of a server's message and requested schema, whose texts clean has freed of what
// may not leave. CodeNotSupported for what a person cannot be shown whole, and names it.
func Read(message string, requested []byte, clean func(string) string) (*Form, error) {
	f := &Form{Message: capabilities.Clip(clean(message), maxMessage)}
	if len(requested) == 0 {
		return f, f.check()
	}
	if len(requested) > MaxBytes {
		return nil, unfit("its schema has more than %d bytes", MaxBytes)
	}
	root, err := canonical.Decode(requested, canonical.Limits{MaxBytes: MaxBytes, MaxDepth: 8, MaxValues: 8192, Foreign: true})
	if err != nil {
		return nil, unfit("its schema cannot be read")
	}
	var s schema
	if err := json.Unmarshal(root.Append(nil), &s); err != nil || s.Type != "object" && s.Type != "" {
		return nil, unfit("its schema is no object of simple fields")
	}
	if len(s.Properties) > maxFields {
		return nil, unfit("it has more than %d fields", maxFields)
	}
	for name, p := range s.Properties {
		one, err := p.field(name, clean)
		if err != nil {
			return nil, err
		}
		one.Required = slices.Contains(s.Required, name)
		f.Fields = append(f.Fields, one)
	}
	// Required fields first, and each by its name: an object has no order.
	sort.Slice(f.Fields, func(i, j int) bool {
		a, b := f.Fields[i], f.Fields[j]
		if a.Required != b.Required {
			return a.Required
		}
		return a.Name < b.Name
	})
	return f, f.check()
}

func unfit(format string, args ...any) *capabilities.Error {
	return capabilities.Errorf(capabilities.CodeNotSupported, "the form cannot be shown: "+format, args...)
}

// field reads one property.
func (s *schema) field(name string, clean func(string) string) (Field, error) {
	f := Field{Name: name, Title: capabilities.Clip(clean(s.Title), maxTitle), Note: capabilities.Clip(clean(s.Note), maxNote)}
	options := func(s *schema, names []string) bool {
		for i, v := range s.Enum {
			text, ok := v.(string)
			if !ok {
				return false
			}
			o := Option{Value: text}
			if i < len(names) {
				o.Title = capabilities.Clip(clean(names[i]), maxTitle)
			}
			f.Choices = append(f.Choices, o)
		}
		for _, v := range append(s.OneOf, s.AnyOf...) {
			text, ok := v.Const.(string)
			if !ok {
				return false
			}
			f.Choices = append(f.Choices, Option{text, capabilities.Clip(clean(v.Title), maxTitle)})
		}
		return true
	}
	switch {
	case s.Type == "string" && len(s.Enum)+len(s.OneOf)+len(s.AnyOf) > 0:
		f.Kind = Choice
		if !options(s, s.EnumNames) {
			return f, unfit("the values of %.64q are no texts", name)
		}
	case s.Type == "string":
		f.Kind, f.Least, f.Most = Text, s.MinLength, s.MaxLength
		if slices.Contains(formats, s.Format) {
			f.Format = s.Format
		}
	case s.Type == "integer" || s.Type == "number":
		f.Kind, f.Least, f.Most = Kind(s.Type), s.Minimum, s.Maximum
	case s.Type == "boolean":
		f.Kind = Boolean
	case s.Type == "array" && s.Items != nil:
		f.Kind, f.Least, f.Most = Choices, s.MinItems, s.MaxItems
		if !options(s.Items, s.Items.EnumNames) {
			return f, unfit("the values of %.64q are no texts", name)
		}
	default:
		return f, unfit("%.64q is of a type that no form has", name)
	}
	if s.Default != nil {
		if v, err := f.fits(s.Default); err == nil {
			f.Default = v
		}
	}
	return f, nil
}

var formats = []string{"email", "uri", "date", "date-time"}

// Decode reads what Encode wrote, from a node: nothing of it is believed.
func Decode(data []byte) (*Form, error) {
	root, err := canonical.Decode(data, canonical.Limits{MaxBytes: MaxBytes, MaxDepth: 8, MaxValues: 16384})
	if err != nil {
		return nil, err
	}
	f := &Form{}
	if err := json.Unmarshal(root.Append(nil), f); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "the form is not well formed")
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return f, nil
}

// Encode returns the form as JSON, of at most MaxBytes.
func (f *Form) Encode() ([]byte, error) {
	data, err := canonical.Marshal(f)
	if err == nil && len(data) > MaxBytes {
		err = unfit("it has more than %d bytes", MaxBytes)
	}
	return data, err
}

// check is what every form is, wherever it came from.
func (f *Form) check() error {
	if len(f.Message) > maxMessage || capabilities.Printable(f.Message) != f.Message || len(f.Fields) > maxFields {
		return unfit("its message or the number of its fields is out of bounds")
	}
	for i := range f.Fields {
		one := &f.Fields[i]
		switch {
		case one.Name == "" || len(one.Name) > maxName || capabilities.Printable(one.Name) != one.Name:
			return unfit("a field's name has to be 1 to %d printable bytes", maxName)
		case slices.ContainsFunc(f.Fields[:i], func(o Field) bool { return o.Name == one.Name }):
			return unfit("it has two fields %.64q", one.Name)
		case len(one.Title) > maxTitle || len(one.Note) > maxNote || capabilities.Printable(one.Title) != one.Title ||
			capabilities.Printable(one.Note) != one.Note:
			return unfit("the words about %.64q are out of bounds", one.Name)
		case one.Format != "" && !slices.Contains(formats, one.Format):
			return unfit("%.64q is of an unknown format", one.Name)
		case bad(one.Least) || bad(one.Most) || one.Least != nil && one.Most != nil && *one.Least > *one.Most:
			return unfit("the bounds of %.64q admit nothing", one.Name)
		}
		switch one.Kind {
		case Text, Integer, Number, Boolean:
			if len(one.Choices) > 0 {
				return unfit("%.64q has choices and takes none", one.Name)
			}
		case Choice, Choices:
			if err := one.checkChoices(); err != nil {
				return err
			}
		default:
			return unfit("%.64q is of a type that no form has", one.Name)
		}
		if one.Default != nil {
			if _, err := one.fits(one.Default); err != nil {
				return unfit("the default of %.64q does not fit it", one.Name)
			}
		}
	}
	return nil
}

func bad(v *float64) bool { return v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) }

func (f *Field) checkChoices() error {
	if len(f.Choices) == 0 || len(f.Choices) > maxChoices {
		return unfit("%.64q has to have 1 to %d choices", f.Name, maxChoices)
	}
	for i, o := range f.Choices {
		switch {
		case len(o.Value) > maxTitle || len(o.Title) > maxTitle || capabilities.Printable(o.Value) != o.Value ||
			capabilities.Printable(o.Title) != o.Title:
			return unfit("the choices of %.64q are out of bounds", f.Name)
		case slices.ContainsFunc(f.Choices[:i], func(p Option) bool { return p.Value == o.Value }):
			return unfit("%.64q has a choice twice", f.Name)
		}
	}
	return nil
}

// Fill returns what a person filled in, as canonical JSON. values has JSON's types, or texts as a
// page's fields and a command line send them; a field that is empty and not required is left out.
// CodeInvalidArguments names every field that does not fit.
func (f *Form) Fill(values map[string]any) (json.RawMessage, error) {
	out := map[string]any{}
	var wrong []string
	for i := range f.Fields {
		one := &f.Fields[i]
		v, given := values[one.Name]
		if !given || v == nil || v == "" && (one.Kind != Text || !one.Required || one.Least != nil && *one.Least > 0) {
			if one.Required {
				wrong = append(wrong, one.Label()+": it has to be filled in")
			}
			continue
		}
		fit, err := one.fits(v)
		if err != nil {
			wrong = append(wrong, one.Label()+": "+err.Error())
			continue
		}
		out[one.Name] = fit
	}
	for name := range values {
		if !slices.ContainsFunc(f.Fields, func(o Field) bool { return o.Name == name }) {
			wrong = append(wrong, fmt.Sprintf("%.64q is no field of the form", name))
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "%s", strings.Join(wrong, "; "))
	}
	data, err := canonical.Marshal(out)
	if err == nil && len(data) > MaxContent {
		err = capabilities.Errorf(capabilities.CodeInvalidArguments, "what is filled in has more than %d bytes", MaxContent)
	}
	return data, err
}

// fits returns a value as the field has it.
func (f *Field) fits(v any) (any, error) {
	switch f.Kind {
	case Boolean:
		switch v := v.(type) {
		case bool:
			return v, nil
		case string:
			if b, err := strconv.ParseBool(v); err == nil {
				return b, nil
			}
		}
		return nil, fmt.Errorf("it has to be true or false")
	case Integer, Number:
		return f.number(v)
	case Text:
		return f.text(v)
	case Choice:
		text, ok := v.(string)
		if !ok || !f.offers(text) {
			return nil, fmt.Errorf("it has to be one of the choices")
		}
		return text, nil
	}
	return f.several(v)
}

func (f *Field) offers(value string) bool {
	return slices.ContainsFunc(f.Choices, func(o Option) bool { return o.Value == value })
}

// number fits v into an integer's or a number's field.
func (f *Field) number(v any) (any, error) {
	n, ok := v.(float64)
	if text, is := v.(string); is {
		var err error
		n, err = strconv.ParseFloat(strings.TrimSpace(text), 64)
		ok = err == nil
	}
	const exact = 1 << 53 // beyond it JSON's readers lose digits
	switch {
	case !ok || math.IsNaN(n) || math.IsInf(n, 0):
		return nil, fmt.Errorf("it has to be a number")
	case f.Kind == Integer && (n != math.Trunc(n) || math.Abs(n) > exact):
		return nil, fmt.Errorf("it has to be a whole number")
	case f.Least != nil && n < *f.Least:
		return nil, fmt.Errorf("it has to be at least %s", plainNumber(*f.Least))
	case f.Most != nil && n > *f.Most:
		return nil, fmt.Errorf("it has to be at most %s", plainNumber(*f.Most))
	}
	return n, nil
}

func plainNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// text fits v into a text's field.
func (f *Field) text(v any) (any, error) {
	text, ok := v.(string)
	most := float64(defaultText)
	if f.Most != nil {
		most = min(*f.Most, maxText)
	}
	length := float64(utf8.RuneCountInString(text))
	switch {
	case !ok || !utf8.ValidString(text) || len(text) > maxText:
		return nil, fmt.Errorf("it has to be a text of at most %d bytes", maxText)
	case length > most:
		return nil, fmt.Errorf("it has to have at most %s characters", plainNumber(most))
	case f.Least != nil && length < *f.Least:
		return nil, fmt.Errorf("it has to have at least %s characters", plainNumber(*f.Least))
	}
	var err error
	switch f.Format {
	case "email":
		var at *mail.Address
		if at, err = mail.ParseAddress(text); err == nil && at.Address != text {
			err = fmt.Errorf("more than an address")
		}
	case "uri":
		var at *url.URL
		if at, err = url.Parse(text); err == nil && !at.IsAbs() {
			err = fmt.Errorf("not absolute")
		}
	case "date":
		_, err = time.Parse(time.DateOnly, text)
	case "date-time":
		_, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return nil, fmt.Errorf("it has to be %s", formatWords[f.Format])
	}
	return text, nil
}

var formatWords = map[string]string{
	"email": "an email address", "uri": "an address such as https://example.com", "date": "a date such as 2026-11-27",
	"date-time": "a time such as 2026-11-27T10:00:00Z",
}

// several fits v, a list or one text, into a field that takes some of its choices.
func (f *Field) several(v any) (any, error) {
	list, ok := v.([]any)
	if text, is := v.(string); is {
		for part := range strings.SplitSeq(text, ",") {
			list = append(list, strings.TrimSpace(part))
		}
		ok = true
	}
	if texts, is := v.([]string); is {
		for _, part := range texts {
			list = append(list, part)
		}
		ok = true
	}
	if !ok {
		return nil, fmt.Errorf("it has to be some of the choices")
	}
	out := []any{}
	for _, one := range list {
		text, ok := one.(string)
		if !ok || !f.offers(text) || slices.Contains(out, any(text)) {
			return nil, fmt.Errorf("it has to be some of the choices, each once")
		}
		out = append(out, text)
	}
	switch n := float64(len(out)); {
	case f.Least != nil && n < *f.Least:
		return nil, fmt.Errorf("at least %s have to be chosen", plainNumber(*f.Least))
	case f.Most != nil && n > *f.Most:
		return nil, fmt.Errorf("at most %s may be chosen", plainNumber(*f.Most))
	}
	return out, nil
}
