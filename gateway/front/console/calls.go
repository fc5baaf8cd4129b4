package console

import (
	"net/url"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// call is one call as the REST surface folds it from its packets.
type call struct {
	Call      capabilities.CallID      `json:"call_id"`
	Tool      capabilities.ToolID      `json:"tool_id"`
	Principal capabilities.PrincipalID `json:"principal"`
	Lane      capabilities.LaneID      `json:"lane"`
	Node      capabilities.NodeID      `json:"node_id"`
	Surface   string                   `json:"surface"`
	Started   time.Time                `json:"started_at"`
	Decision  string                   `json:"decision"`
	State     string                   `json:"state"`
	Status    capabilities.Status      `json:"status"`
	Code      capabilities.Code        `json:"code"`
	Effect    capabilities.Effect      `json:"effect"`
	Duration  float64                  `json:"duration_ms"`
	FirstSeq  uint64                   `json:"first_seq"`
}

// word says how far a call is.
func (c call) word() string {
	switch {
	case c.State == "ended" && c.Status == capabilities.StatusOK:
		return "done"
	case c.State == "ended" && c.Decision == "deny", c.Status == capabilities.StatusDenied:
		return "denied"
	case c.State == "ended":
		return "failed"
	case c.State == "dispatched":
		return "running"
	case c.State == "pending":
		return "waits"
	}
	return "asked"
}

// mood is the class of its word.
func (c call) mood() string {
	return map[string]string{"done": "good", "denied": "no", "failed": "bad", "running": "busy", "waits": "busy"}[c.word()]
}

func (v *visit) callsOf(q url.Values) ([]call, error) {
	var list struct {
		Calls []call `json:"calls"`
	}
	err := v.get(api("calls")+"?"+q.Encode(), &list)
	return list.Calls, err
}
