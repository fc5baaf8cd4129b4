package agent

import (
	"slices"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/capabilities"
)

// SoleUser returns the only principal that ever called one of these tools on this node before
// it started, as its logs have it. false: there were several, or none, or the logs do not
// reach back to their beginning.
func (a *Agent) SoleUser(tools ...capabilities.ToolID) (sole capabilities.PrincipalID, known bool) {
	names, err := journal.Dirs(a.opts.Dir)
	if err != nil {
		return "", false
	}
	for _, name := range names {
		log, err := journal.Read(journal.Dir(a.opts.Dir, name), name)
		if err != nil || log.First > 1 {
			return "", false
		}
		for i := range log.Records {
			r := &log.Records[i]
			called := r.Kind == journal.KindStarted || r.Kind == journal.KindHeld // KindHeld: written by earlier versions
			if !called || !r.Time().Before(a.made) || !slices.Contains(tools, r.Tool) {
				continue
			}
			if r.Principal == "" || known && r.Principal != sole {
				return "", false
			}
			sole, known = r.Principal, true
		}
	}
	return sole, known
}
