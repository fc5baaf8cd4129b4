package dispatch

import (
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// encode returns what a draft carries. A body too large to be recorded goes on as it is and
// fails the commit.
func encode(b packet.Body) any {
	body, err := ledger.Encode(b)
	if err != nil {
		return b
	}
	return body
}
