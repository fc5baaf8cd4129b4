package openapi

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/handrail-dev/handrail/capabilities"
)

// Bounds of a document.
const (
	MaxDocument = 16 << 20 // bytes of JSON
	maxYAML     = 8 << 20  // bytes of YAML, whose tree is larger
	maxValues   = 1 << 20  // aliases unfolded
	maxDepth    = 100
	maxRefs     = 32 // references that lead to references
)

func bad(format string, args ...any) *capabilities.Error {
	return capabilities.Errorf(capabilities.CodeInvalidRequest, "the document: "+format, args...)
}

// packed begins a document that Pack made.
const packed = "data:application/gzip;base64,"

// Pack returns a document as a JSON string that is smaller, for a record.
func Pack(doc []byte) (json.RawMessage, error) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(doc); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return json.Marshal(packed + base64.StdEncoding.EncodeToString(zipped.Bytes()))
}

// unpack returns the document of a record, as Pack made it or as it is.
func unpack(data []byte) ([]byte, error) {
	var text string
	if len(data) == 0 || data[0] != '"' || json.Unmarshal(data, &text) != nil {
		return data, nil
	}
	text, ok := strings.CutPrefix(text, packed)
	if !ok {
		return nil, bad("it is no OpenAPI document")
	}
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return nil, bad("it is packed in a way that cannot be read")
	}
	out, err := io.ReadAll(io.LimitReader(z, MaxDocument+1))
	if err != nil {
		return nil, bad("it is packed in a way that cannot be read")
	}
	return out, nil
}

// tree reads JSON or YAML, whose values become those of encoding/json. CodeInvalidRequest says
// what is wrong with it.
func tree(data []byte) (map[string]any, error) {
	data, err := unpack(data)
	if err != nil {
		return nil, err
	}
	data = bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\ufeff")), " \t\r\n")
	var v any
	if len(data) > 0 && data[0] == '{' {
		v, err = readJSON(data)
	} else {
		v, err = readYAML(data)
	}
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, bad("it is no OpenAPI document")
	}
	return m, nil
}

func readJSON(data []byte) (any, error) {
	if len(data) > MaxDocument {
		return nil, bad("it has more than %d bytes", MaxDocument)
	}
	if err := measure(data); err != nil {
		return nil, err
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, bad("it is no JSON that can be read")
	}
	return v, nil
}

// measure bounds JSON before anything is allocated for it.
func measure(data []byte) error {
	depth, values, quoted := 0, 1, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted:
			if c == '\\' {
				i++
			}
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
			values++
		case c == '}' || c == ']':
			depth--
		case c == ',' || c == ':':
			values++
		}
		if depth > maxDepth {
			return bad("it is nested deeper than %d", maxDepth)
		}
		if values > 2*maxValues { // a key counts as well
			return bad("it has more than %d values", maxValues)
		}
	}
	return nil
}

func readYAML(data []byte) (any, error) {
	if len(data) > maxYAML {
		return nil, bad("it has more than %d bytes; as JSON it may have %d", maxYAML, MaxDocument)
	}
	if marks := countMarks(data); marks > maxValues {
		return nil, bad("it has more than %d values; as JSON it may have %d bytes", maxValues, MaxDocument)
	}
	var node yaml.Node
	if err := yaml.Unmarshal(data, &node); err != nil {
		return nil, bad("it is neither JSON nor YAML that can be read")
	}
	r := yamlReader{left: maxValues}
	v, err := r.value(&node, 0)
	if err != nil {
		return nil, bad("%v", err)
	}
	return v, nil
}

// countMarks bounds the nodes of YAML before anything is allocated for them: each value stands
// behind one of these marks.
func countMarks(data []byte) int {
	marks := 0
	for i, c := range data {
		switch c {
		case ',', ':', '\n', '\r', '[', '{':
			marks++
		case '-', '?':
			if i+1 == len(data) || data[i+1] == ' ' || data[i+1] == '\t' {
				marks++
			}
		}
	}
	return marks
}

// yamlReader makes plain values of nodes. Aliases are unfolded, each at its full price.
type yamlReader struct{ left int }

func (r *yamlReader) value(n *yaml.Node, depth int) (any, error) {
	if r.left--; r.left < 0 {
		return nil, fmt.Errorf("it has more than %d values once its aliases are unfolded", maxValues)
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) != 1 {
			return nil, fmt.Errorf("it is empty")
		}
		return r.value(n.Content[0], depth+1)
	case yaml.AliasNode:
		return r.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		list := make([]any, 0, min(len(n.Content), r.left+1))
		for _, one := range n.Content {
			v, err := r.value(one, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		return r.mapping(n, depth)
	case yaml.ScalarNode:
		return scalar(n)
	}
	return nil, fmt.Errorf("it is empty")
}

func (r *yamlReader) mapping(n *yaml.Node, depth int) (any, error) {
	out := make(map[string]any, min(len(n.Content)/2, r.left+1))
	var merged []any
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		for hops := 0; key.Kind == yaml.AliasNode && hops < maxRefs; hops++ {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: a key is no text", key.Line)
		}
		v, err := r.value(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		if key.ShortTag() == "!!merge" {
			if list, ok := v.([]any); ok {
				merged = append(merged, list...)
			} else {
				merged = append(merged, v)
			}
			continue
		}
		if _, twice := out[key.Value]; twice {
			return nil, fmt.Errorf("line %d: a key stands twice", key.Line)
		}
		out[key.Value] = v
	}
	for _, m := range merged { // the earlier wins, and what stands here itself before all
		more, ok := m.(map[string]any)
		if r.left -= len(more); !ok || r.left < 0 {
			return nil, fmt.Errorf("line %d: what is merged is no mapping, or too much", n.Line)
		}
		for k, v := range more {
			if _, own := out[k]; !own {
				out[k] = v
			}
		}
	}
	return out, nil
}

func scalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		var v bool
		if n.Decode(&v) == nil {
			return v, nil
		}
	case "!!int", "!!float":
		var v float64
		if n.Decode(&v) == nil && v-v == 0 { // neither infinite nor no number
			return v, nil
		}
	}
	return n.Value, nil
}
