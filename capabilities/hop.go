package capabilities

// Hop is one station of a call on its way, in the order of docs/architecture.md, "One call,
// hop by hop". The zero value is none.
type Hop int

// The hops.
const (
	HopFront   Hop = iota + 1 // a surface decodes, and knows who calls
	HopResolve                // the tool, and arguments that fit
	HopPlace                  // the node
	HopDecide                 // envelope and decision
	HopDedupe                 // start, join or replay
	HopPermit                 // a person's word, and the node's being free
	HopCommit                 // request, decision, intent
	HopSend                   // the ticket leaves
	HopGuard                  // the device judges
	HopRun                    // the handler runs there, and its answer comes
	HopRecord                 // how it ended
	HopAnswer                 // the caller has the result
)

var hopNames = [...]string{
	"", "front", "resolve", "place", "decide", "deduplicate", "permit", "commit", "send", "guard", "run", "record", "answer",
}

// String returns the hop's name, empty for none.
func (h Hop) String() string {
	if h < 0 || int(h) >= len(hopNames) {
		return ""
	}
	return hopNames[h]
}

// MarshalText returns the name.
func (h Hop) MarshalText() ([]byte, error) { return []byte(h.String()), nil }
