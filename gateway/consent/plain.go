package consent

import (
	"fmt"

	"github.com/handrail-dev/handrail/capabilities"
)

// maxPlain is how much of one argument a person is shown, in bytes.
const maxPlain = 300

// Plain returns s so that it reads as what it is, by capabilities.Escape; what is too long is
// cut with a note, and made valid UTF-8 first. It never grows past a few times maxPlain.
func Plain(s string) string {
	if len(s) <= maxPlain {
		return capabilities.Escape(s)
	}
	head := capabilities.Clip(s, maxPlain)
	return capabilities.Escape(head) + fmt.Sprintf(" … (%d bytes more)", len(s)-len(head))
}
