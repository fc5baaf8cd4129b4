package front

import (
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/turn"
)

// ViewTurn is a worker's turn.
func ViewTurn(t *turn.Turn) api.Turn {
	return api.Turn{ID: t.ID, Principal: t.Principal, Received: t.Received, First: t.First, Claim: t.Claim}
}
