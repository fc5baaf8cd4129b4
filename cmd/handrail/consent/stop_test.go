package consent

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/front"
)

// 'handrail resume' waits for hands that were revoked, and not for those that are still lent.
func TestHandsThatAreOver(t *testing.T) {
	until := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for name, c := range map[string]struct {
		code  capabilities.Code
		about capabilities.Presence
		want  time.Duration
	}{
		"revoked":         {capabilities.CodeHandsElsewhere, capabilities.Presence{Node: "n1", Until: until, Seconds: 12}, 12 * time.Second},
		"a call runs":     {capabilities.CodeHandsElsewhere, capabilities.Presence{Node: "n1"}, time.Second},
		"lent":            {capabilities.CodeHandsElsewhere, capabilities.Presence{Node: "n1", Until: until, Seconds: 300}, 0},
		"another refusal": {capabilities.CodeForbidden, capabilities.Presence{Passkey: true}, 0},
	} {
		answer := httptest.NewRecorder()
		front.WriteError(answer, capabilities.Errorf(c.code, "no").WithDetails(c.about))
		if got := handsOver(client.DecodeError(answer.Result())); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
