package catalog

import "fmt"

// Layer is a tool's place in the five layers of composition (S3, section 3). It is data: no
// phase of a call asks for it. The zero value is LayerBuiltIn.
type Layer uint8

// The layers.
const (
	LayerBuiltIn  Layer = iota // L0a: compiled in (S3-12)
	LayerRemote                // L0b: one call of a provider (S3-13)
	LayerMacro                 // L1: a fixed chain of tools, without a model (S3-14)
	LayerSkill                 // L2: instructions that a model reads (S3-15)
	LayerSubAgent              // L3: a nested agent that returns a summary (S3-16)
)

var layerNames = [...]string{"L0a", "L0b", "L1", "L2", "L3"}

// String returns the layer's name, such as "L0b".
func (l Layer) String() string {
	if int(l) < len(layerNames) {
		return layerNames[l]
	}
	return fmt.Sprintf("Layer(%d)", uint8(l))
}

// ParseLayer reads what String returns.
func ParseLayer(s string) (Layer, error) {
	for i, name := range layerNames {
		if s == name {
			return Layer(i), nil
		}
	}
	return 0, fmt.Errorf("%.16q is no layer: L0a, L0b, L1, L2 or L3", s)
}

// MarshalText returns what String returns; an error for what is no layer.
func (l Layer) MarshalText() ([]byte, error) {
	if int(l) >= len(layerNames) {
		return nil, fmt.Errorf("%d is no layer", uint8(l))
	}
	return []byte(layerNames[l]), nil
}

// UnmarshalText reads what MarshalText returns.
func (l *Layer) UnmarshalText(text []byte) (err error) {
	*l, err = ParseLayer(string(text))
	return err
}
