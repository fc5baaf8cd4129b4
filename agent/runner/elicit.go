package runner

import (
	"context"
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/sealed"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// elicit is Invocation.Elicit: the gateway asks the person, and what they fill in comes sealed to a
// key of this one answer. The call's time stands still meanwhile.
func (s *started) elicit(ctx context.Context, asked json.RawMessage) (capabilities.Elicited, json.RawMessage, error) {
	key, err := sealed.NewKey()
	if err != nil {
		return "", nil, err
	}
	defer s.clock.Pause()()
	s.log.Info("call.elicits", "hop", capabilities.HopRun)
	got, err := s.sink.Elicit(ctx, wire.Elicit{Form: asked, Key: key.Public()})
	if err != nil || got.Action != capabilities.ElicitAccept {
		if err != nil {
			return "", nil, err
		}
		return got.Action, nil, nil
	}
	secret, err := key.Open(s.binding(), got.Sealed)
	if err != nil {
		return "", nil, err
	}
	defer secret.Wipe()
	return got.Action, json.RawMessage(append([]byte(nil), secret.Reveal()...)), nil
}

// binding is what the gateway seals to this call, and opens for no other.
func (s *started) binding() sealed.Binding {
	return sealed.Binding{Node: s.t.Node, Call: s.t.Call, Tool: s.t.Tool, Envelope: s.t.Envelope, Grants: s.t.Grants}
}
