package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/fact"
)

// Key says which fact a text is: one with the same key takes its place, so that "my editor is Vim"
// is replaced by "my editor is Helix".
type Key struct{ Subject, Attribute string }

var property = capabilities.Pattern(
	`^((?:my|our|the|mein|meine|unser|unsere|mon|ma|notre|mi|nuestro|nuestra) [\pL\d -]{2,60}?) (is called|is named|is|are|heisst|ist|sind|s'appelle|est|sont|se llama|es|son) \S`)

// KeyOf returns the key of a text.
func KeyOf(text string) Key {
	plain := strings.Join(strings.Fields(fact.Fold(text)), " ")
	if m := property().FindStringSubmatch(plain); m != nil {
		return Key{m[1], m[2]}
	}
	sum := sha256.Sum256([]byte(plain))
	return Key{"note", hex.EncodeToString(sum[:8])}
}
