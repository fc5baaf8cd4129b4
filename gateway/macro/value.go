package macro

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// kind is what a Value is.
type kind uint8

const (
	kindLiteral kind = iota
	kindFrom         // a reference
	kindJoin         // texts, one behind the other
	kindObject
	kindList
)

// Value is a value of a file: as it is written, or made of references. An object whose only
// fields are "from" and perhaps "else" is a reference, one with "join" alone joins texts, and
// one with "value" alone is what stands there, as it is.
type Value struct {
	kind      kind
	literal   any
	path      []string // of a reference: the tokens of its JSON Pointer
	otherwise *Value   // what stands for a reference to what is not there; nil: that fails
	names     []string // of an object, sorted
	parts     []Value  // of an object, in the order of names; of a list or a join
}

// has reports whether v is an object of exactly such fields; more may be there.
func has(v canonical.Value, field string, more ...string) bool {
	_, there := v.Get(field)
	return there && !slices.ContainsFunc(v.Members, func(m canonical.Member) bool { return m.Key != field && !slices.Contains(more, m.Key) })
}

func readValue(v canonical.Value, at string, depth int) (Value, error) {
	if depth > maxNested {
		return Value{}, fmt.Errorf("%s: is nested deeper than %d", at, maxNested)
	}
	switch {
	case v.Kind == canonical.Array:
		return readList(v, at, depth, kindList)
	case v.Kind != canonical.Object:
		return Value{literal: v.Interface()}, nil
	case has(v, "value"):
		inner, _ := v.Get("value")
		return Value{literal: inner.Interface()}, nil
	case has(v, "join"):
		list, _ := v.Get("join")
		if list.Kind != canonical.Array {
			return Value{}, fmt.Errorf("%s/join: a list of texts and references", at)
		}
		return readList(list, at+"/join", depth, kindJoin)
	case has(v, "from", "else"):
		from, _ := v.Get("from")
		path, err := readPointer(from, at+"/from")
		if err != nil {
			return Value{}, err
		}
		out := Value{kind: kindFrom, path: path}
		if other, ok := v.Get("else"); ok {
			o, err := readValue(other, at+"/else", depth+1)
			if err != nil {
				return Value{}, err
			}
			out.otherwise = &o
		}
		return out, nil
	}
	return readObject(v, at, depth)
}

func readObject(v canonical.Value, at string, depth int) (Value, error) {
	out := Value{kind: kindObject}
	members := map[string]canonical.Value{}
	for _, m := range v.Members {
		members[m.Key] = m.Value
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		part, err := readValue(members[name], at+"/"+name, depth+1)
		if err != nil {
			return Value{}, err
		}
		out.names, out.parts = append(out.names, name), append(out.parts, part)
	}
	return out, nil
}

func readList(v canonical.Value, at string, depth int, k kind) (Value, error) {
	out := Value{kind: k}
	for i, item := range v.Items {
		part, err := readValue(item, at+"/"+strconv.Itoa(i), depth+1)
		if err != nil {
			return Value{}, err
		}
		out.parts = append(out.parts, part)
	}
	return out, nil
}

// readPointer reads a JSON Pointer (RFC 6901) into what a run knows.
func readPointer(v canonical.Value, at string) ([]string, error) {
	if v.Kind != canonical.String || !strings.HasPrefix(v.Str, "/") || len(v.Str) > 512 {
		return nil, fmt.Errorf("%s: a JSON Pointer, such as /args/url or /steps/page/output/title", at)
	}
	path := strings.Split(v.Str[1:], "/")
	for i, token := range path {
		path[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	}
	switch {
	case path[0] == "args" && len(path) > 1, path[0] == "item", path[0] == "index" && len(path) == 1:
	case path[0] == "steps" && len(path) > 2 && (path[2] == "output" || path[2] == "status" && len(path) == 3):
	default:
		return nil, fmt.Errorf("%s: begins with /args/NAME, /steps/ID/output, /steps/ID/status, /item or /index", at)
	}
	return path, nil
}

func pointer(path []string) string {
	var b strings.Builder
	for _, token := range path {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
	}
	return b.String()
}

// references visits every reference in v, those in what stands for others among them.
func (v *Value) references(visit func(path []string)) {
	if v.kind == kindFrom {
		visit(v.path)
		if v.otherwise != nil {
			v.otherwise.references(visit)
		}
	}
	for i := range v.parts {
		v.parts[i].references(visit)
	}
}

// fromArgs reports whether every reference in v is to arguments of the macro.
func (v *Value) fromArgs() bool {
	only := true
	v.references(func(path []string) { only = only && path[0] == "args" })
	return only
}

// world is what references of a run lead into: JSON values, and captured bytes.
type world map[string]any

// captured stands for bytes of a step's output; a reference makes base64 of it.
type captured []byte

// look follows a path.
func (w world) look(path []string) (any, bool) {
	var now any = map[string]any(w)
	for _, token := range path {
		switch v := now.(type) {
		case map[string]any:
			next, ok := v[token]
			if !ok {
				return nil, false
			}
			now = next
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != token {
				return nil, false
			}
			now = v[i]
		default:
			return nil, false
		}
	}
	return now, true
}

// sizeOf is about how many bytes a value takes once it is plain; it stops counting at most.
func sizeOf(v any, most int) int {
	switch v := v.(type) {
	case captured:
		return base64.StdEncoding.EncodedLen(len(v))
	case string:
		return len(v) + 2
	case map[string]any:
		n := 2
		for name, one := range v {
			if n += len(name) + 4 + sizeOf(one, most-n); n > most {
				break
			}
		}
		return n
	case []any:
		n := 2
		for _, one := range v {
			if n += 1 + sizeOf(one, most-n); n > most {
				break
			}
		}
		return n
	}
	return 8
}

// plain is v without captured bytes in it.
func plain(v any) any {
	switch v := v.(type) {
	case captured:
		return base64.StdEncoding.EncodeToString(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, one := range v {
			out[name] = plain(one)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = plain(one)
		}
		return out
	}
	return v
}

// eval makes the value: CodeInvalidArguments where a reference leads nowhere, CodeResultTooLarge
// where all together has more than 16 MiB.
func (v *Value) eval(w world) (any, error) {
	left := maxOutput
	return v.part(w, &left)
}

// part is eval for a part; left is how many bytes it may still take.
func (v *Value) part(w world, left *int) (any, error) {
	switch v.kind {
	case kindLiteral:
		return v.literal, nil
	case kindFrom:
		found, ok := w.look(v.path)
		if ok {
			if *left -= sizeOf(found, *left); *left < 0 {
				return nil, capabilities.Errorf(capabilities.CodeResultTooLarge, "what is made here has more than %d bytes", maxOutput)
			}
			return plain(found), nil
		}
		if v.otherwise != nil {
			return v.otherwise.part(w, left)
		}
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "%s is not there", pointer(v.path))
	case kindObject:
		out := make(map[string]any, len(v.parts))
		for i := range v.parts {
			part, err := v.parts[i].part(w, left)
			if err != nil {
				return nil, err
			}
			out[v.names[i]] = part
		}
		return out, nil
	case kindList:
		out := make([]any, 0, len(v.parts))
		for i := range v.parts {
			part, err := v.parts[i].part(w, left)
			if err != nil {
				return nil, err
			}
			out = append(out, part)
		}
		return out, nil
	}
	var all strings.Builder
	for i := range v.parts {
		part, err := v.parts[i].part(w, left)
		if err != nil {
			return nil, err
		}
		switch part := part.(type) {
		case string:
			all.WriteString(part)
		case float64:
			all.Write(canonical.AppendNumber(nil, part))
		case bool:
			all.WriteString(strconv.FormatBool(part))
		default:
			return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "what is joined is a text, a number or a truth value")
		}
	}
	return all.String(), nil
}
