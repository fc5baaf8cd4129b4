package console

import (
	"net/http"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// shownSatellite is a satellite with what can be decided about it.
type shownSatellite struct {
	*visit
	api.Satellite
}

// Moods is how it is, in a word: by its heartbeats once it is let in.
func (s shownSatellite) Moods() struct{ Word, Mood string } {
	word, mood := s.State, map[string]string{"pending": "busy", "denied": "no", "revoked": "no"}[s.State]
	if s.State == "approved" {
		word, mood = s.Health, map[string]string{"ready": "good", "stale": "busy", "not_ready": "bad", "gone": "bad"}[s.Health]
		if word == "not_ready" {
			word = "not ready"
		}
	}
	return struct{ Word, Mood string }{word, mood}
}

// Seen is when its last heartbeat came.
func (s shownSatellite) Seen() time.Time {
	if s.SeenAt == nil {
		return time.Time{}
	}
	return *s.SeenAt
}

// Pending reports whether somebody has to decide about it.
func (s shownSatellite) Pending() bool { return s.State == "pending" }

// In reports whether it is let in.
func (s shownSatellite) In() bool { return s.State == "approved" }

// satellites are those that are in or wait; who was put out stands in the ledger.
func (v *visit) satellites() ([]shownSatellite, error) {
	var list api.SatelliteList
	if !v.Offers("GET /v1/satellites") {
		return nil, nil
	}
	if err := v.get(v1("satellites"), &list); err != nil {
		return nil, err
	}
	var all []shownSatellite
	for _, s := range list.Satellites {
		if s.State == "pending" || s.State == "approved" {
			all = append(all, shownSatellite{v, s})
		}
	}
	return all, nil
}

// changeSatellite lets a satellite in, turns it away, or puts it out.
func (c *Console) changeSatellite(v *visit) {
	action := v.r.PostForm.Get("do")
	var err error
	switch action {
	case "approve", "deny", "revoke":
		err = v.ask(http.MethodPost, v1("satellites", v.r.PathValue("satellite"), action), api.Reason{}, nil)
	default:
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "the form names no change")
	}
	if err != nil {
		v.showProviders(err)
		return
	}
	v.seeOther("/console/providers", "changed")
}
