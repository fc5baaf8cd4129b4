package drift

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Runner is what carries calls out: where, how confined, and by which program. The zero value is
// the gateway itself, which no quarantine is about.
type Runner struct {
	Host    capabilities.NodeID
	Class   capabilities.IsolationClass
	Walls   string // what the class lacks there; "": nothing
	Deeper  string // the walls beyond the class's
	Program string // the provider's record by its hash, or name and version where it is built in
	File    string // the hash of the program's file; "": the node starts none, or does not say
}

// Fingerprint addresses a runner by all that it is (S1-52): 16 hex digits; "" for the gateway.
func (r Runner) Fingerprint() string {
	if r.Host == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{
		string(r.Host), string(r.Class), r.Walls, r.Deeper, r.Program, r.File,
	}, "\x00")))
	return hex.EncodeToString(sum[:8])
}
