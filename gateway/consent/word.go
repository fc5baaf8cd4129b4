package consent

import (
	"encoding/hex"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// ViaStart is who starts the gateway over its data directory: they hold all that it keeps.
const ViaStart Via = "start"

// Word is the grant that somebody's own request for admin work is: for this one call, under that
// policy and for these arguments. It is made and used up in the commit that records the call, so
// the ledger alone keeps it.
func Word(by capabilities.PrincipalID, via Via, tool capabilities.ToolID, lane capabilities.LaneID, snapshot, manifest string,
	digest []byte, at time.Time) *Grant {
	return &Grant{
		ID: newID("g-"), Nonce: newID(""), Kind: KindCall, Principal: by, Tools: []string{string(tool)}, Lane: lane, Snapshot: snapshot,
		Manifest: manifest, MaxUses: 1, Used: 1, ArgsDigest: hex.EncodeToString(digest), Approver: by, Via: string(via), Created: at,
		Expires: at.Add(time.Minute),
	}
}
