package console

import (
	"fmt"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// formField is one field of what a provider asks, as its page needs it.
type formField struct {
	api.FormField
	ID string
}

// FormFields are the fields of what a provider asks.
func (q question) FormFields() []formField {
	var all []formField
	for i, f := range q.Form.Fields {
		all = append(all, formField{f, fmt.Sprintf("f-%s-%d", q.ID, i)})
	}
	return all
}

// Label is the field by the words that a person knows it by.
func (f formField) Label() string { return orElse(f.Title, f.Name) }

// Key is the name of its control.
func (f formField) Key() string { return "v:" + f.Name }

// Type is that of its control.
func (f formField) Type() string {
	switch {
	case f.Kind == "integer" || f.Kind == "number":
		return "number"
	case f.Format == "email":
		return "email"
	case f.Format == "uri":
		return "url"
	case f.Format == "date":
		return "date"
	}
	return "text"
}

// Step is how far two numbers are apart at least.
func (f formField) Step() string {
	if f.Kind == "integer" {
		return "1"
	}
	return "any"
}

// Chosen reports whether the program proposes a value.
func (f formField) Chosen(value string) bool {
	switch d := f.Default.(type) {
	case string:
		return d == value
	case bool:
		return fmt.Sprint(d) == value
	case []any:
		return slices.Contains(d, any(value))
	}
	return false
}

// Proposed is what the program proposes for a text or a number.
func (f formField) Proposed() string {
	switch d := f.Default.(type) {
	case string:
		return d
	case float64:
		return formNumber(d)
	}
	return ""
}

// Bounds says in words what the field takes.
func (f formField) Bounds() string {
	unit := map[string]string{"text": " characters", "choices": " choices"}[f.Kind]
	switch {
	case f.Least != nil && f.Most != nil:
		return formNumber(*f.Least) + " to " + formNumber(*f.Most) + unit
	case f.Least != nil:
		return "at least " + formNumber(*f.Least) + unit
	case f.Most != nil:
		return "at most " + formNumber(*f.Most) + unit
	}
	return ""
}

func formNumber(n float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.6f", n), "0"), ".")
}

// Under is one choice by the words that a person knows it by.
func (f formField) Under(c api.FormChoice) string { return orElse(c.Title, c.Value) }

// formFields is what a person filled in, as the REST surface takes it: texts, which the gateway
// reads as the form's fields have them.
func (v *visit) formFields() (api.AnswerApproval, error) {
	f := v.r.PostForm
	in := api.AnswerApproval{Answer: f.Get("answer")}
	switch f.Get("answer") {
	case "deny", "dismiss":
		return in, nil
	case "allow":
	default:
		return in, capabilities.Errorf(capabilities.CodeInvalidRequest, "the form names no answer")
	}
	in.Content = map[string]any{}
	for key, values := range f {
		name, is := strings.CutPrefix(key, "v:")
		if !is || len(values) == 0 {
			continue
		}
		if f.Get("several:"+name) == "1" {
			in.Content[name] = values
			continue
		}
		in.Content[name] = values[0]
	}
	return in, nil
}
