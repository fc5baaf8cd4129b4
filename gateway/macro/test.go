package macro

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Test is one thing that has to hold; of a list all have to.
type Test struct {
	at   []string
	how  string
	want any
	re   *regexp.Regexp // of matches
}

var hows = []string{"equals", "not_equals", "exists", "contains", "at_least", "at_most", "matches"}

func readTests(v canonical.Value, at string) ([]Test, error) {
	if v.Kind == canonical.Null {
		return nil, nil
	}
	items := v.Items
	if v.Kind == canonical.Object {
		items = []canonical.Value{v}
	}
	if len(items) == 0 || len(items) > maxTests {
		return nil, fmt.Errorf("%s: a test, or a list of at most %d of which all have to hold", at, maxTests)
	}
	var list []Test
	for i, item := range items {
		f, err := fields(item, fmt.Sprintf("%s/%d", at, i), append([]string{"at"}, hows...)...)
		if err != nil {
			return nil, err
		}
		var t Test
		if t.at, err = readPointer(f["at"], fmt.Sprintf("%s/%d/at", at, i)); err != nil {
			return nil, err
		}
		for _, how := range hows {
			if want, ok := f[how]; ok {
				t.how, t.want = how, want.Interface()
			}
		}
		if len(f) != 2 {
			return nil, fmt.Errorf("%s/%d: \"at\" and one of %s", at, i, strings.Join(hows, ", "))
		}
		if err := t.settle(); err != nil {
			return nil, fmt.Errorf("%s/%d/%s: %w", at, i, t.how, err)
		}
		list = append(list, t)
	}
	return list, nil
}

func (t *Test) settle() (err error) {
	_, number := t.want.(float64)
	text, isText := t.want.(string)
	_, truth := t.want.(bool)
	switch {
	case t.how == "exists" && !truth:
		return fmt.Errorf("true or false")
	case (t.how == "at_least" || t.how == "at_most") && !number:
		return fmt.Errorf("a number")
	case t.how == "matches" && (!isText || len(text) > 512):
		return fmt.Errorf("a regular expression of at most 512 bytes")
	case t.how == "matches":
		if t.re, err = regexp.Compile(text); err != nil {
			return fmt.Errorf("a regular expression: %w", err)
		}
	}
	return nil
}

// holds reports whether the test holds; what is not there holds for exists: false and
// not_equals alone.
func (t *Test) holds(w world) bool {
	got, there := w.look(t.at)
	got = plain(got)
	switch t.how {
	case "exists":
		return there == t.want.(bool)
	case "equals":
		return there && reflect.DeepEqual(got, t.want)
	case "not_equals":
		return !there || !reflect.DeepEqual(got, t.want)
	case "contains":
		switch got := got.(type) {
		case string:
			part, ok := t.want.(string)
			return ok && strings.Contains(got, part)
		case []any:
			return slices.ContainsFunc(got, func(one any) bool { return reflect.DeepEqual(one, t.want) })
		}
		return false
	case "matches":
		text, ok := got.(string)
		return ok && t.re.MatchString(text)
	}
	n, ok := got.(float64)
	bound := t.want.(float64)
	return ok && (t.how == "at_least" && n >= bound || t.how == "at_most" && n <= bound)
}

// String is the test as a person reads it, without values that a step returned.
func (t *Test) String() string {
	want, err := canonical.Marshal(t.want)
	if err != nil {
		want = []byte("?")
	}
	return pointer(t.at) + " " + strings.ReplaceAll(t.how, "_", " ") + " " + string(want)
}
