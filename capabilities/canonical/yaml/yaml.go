package yaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	lib "go.yaml.in/yaml/v3"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Bounds of a document.
const (
	MaxBytes  = 64 << 10
	maxDepth  = 32
	maxValues = 10_000
)

// JSON returns a YAML document as canonical JSON. JSON is YAML, so it takes that, too. The
// error is CodeInvalidRequest and names the line, never a value.
func JSON(text []byte) (json.RawMessage, error) {
	v, err := decode(text)
	if err == nil {
		var out json.RawMessage
		if out, err = canonical.Marshal(v); err == nil {
			// Canonical refuses of it what it refuses of JSON: names that differ in letter case alone.
			out, err = canonical.Parse(out, canonical.Limits{})
		}
		if err == nil {
			return out, nil
		}
		err = errors.New(capabilities.AsError(err).PublicMessage())
	}
	return nil,
		capabilities.Errorf(capabilities.CodeInvalidRequest, "the file is no YAML that is read here: %s", capabilities.Printable(err.Error())).
			WithHint("Write one document without anchors, aliases and tags.")
}

func decode(text []byte) (any, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("it has more than %d bytes", MaxBytes)
	}
	d := lib.NewDecoder(bytes.NewReader(text))
	var doc lib.Node
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it is empty")
		}
		return nil, errors.New(capabilities.Clip(err.Error(), 200))
	}
	if err := d.Decode(new(lib.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document")
	}
	if len(doc.Content) != 1 {
		return nil, errors.New("it is empty")
	}
	r := reader{}
	return r.value(doc.Content[0], 0)
}

// reader counts the values of one document.
type reader struct{ values int }

func (r *reader) value(n *lib.Node, depth int) (any, error) {
	fail := func(why string) error { return fmt.Errorf("line %d: %s", n.Line, why) }
	r.values++
	switch {
	case r.values > maxValues:
		return nil, fail(fmt.Sprintf("it has more than %d values", maxValues))
	case depth > maxDepth:
		return nil, fail(fmt.Sprintf("it is nested deeper than %d", maxDepth))
	case n.Kind == lib.AliasNode || n.Anchor != "":
		return nil, fail("anchors and aliases are not read")
	case n.Style&lib.TaggedStyle != 0:
		return nil, fail("tags are not read")
	}
	switch n.Kind {
	case lib.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			v, err := r.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case lib.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			name, err := r.value(key, depth+1)
			if err != nil {
				return nil, err
			}
			text, ok := name.(string)
			switch _, twice := m[text]; {
			case !ok || key.Kind != lib.ScalarNode || key.Tag != "!!str":
				return nil, fmt.Errorf("line %d: a name is a text: put it in quotes", key.Line)
			case twice:
				return nil, fmt.Errorf("line %d: the name stands there twice", key.Line)
			}
			if m[text], err = r.value(n.Content[i+1], depth+1); err != nil {
				return nil, err
			}
		}
		return m, nil
	case lib.ScalarNode:
		return scalar(n)
	}
	return nil, fail("that is no value")
}

// scalar reads one value. A date is the text that it is written as.
func scalar(n *lib.Node) (any, error) {
	switch n.Tag {
	case "!!str", "!!timestamp":
		return n.Value, nil
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		err := n.Decode(&b)
		return b, err
	case "!!int", "!!float":
		var f float64
		if err := n.Decode(&f); err != nil || math.IsNaN(f) || math.IsInf(f, 0) || n.Tag == "!!int" && math.Abs(f) >= 1<<53 {
			return nil, fmt.Errorf("line %d: that is no number that JSON has", n.Line)
		}
		return f, nil
	}
	return nil, fmt.Errorf("line %d: values of the kind %s are not read", n.Line, capabilities.Clip(n.Tag, 32))
}
