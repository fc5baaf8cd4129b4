package policy

import (
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
)

// Calls are the calls of one tool by one principal that began in the last minute, hour and day. A
// rule bounds them by looking at the context:
//
//	forbid (principal, action == Action::"tool.fs.read", resource) when { context.calls_last_hour >= 100 };
type Calls struct{ Minute, Hour, Day int64 }

// The fields of context that have them.
const (
	callsMinute = "calls_last_minute"
	callsHour   = "calls_last_hour"
	callsDay    = "calls_last_day"
)

func countsCalls(field string) bool {
	return field == callsMinute || field == callsHour || field == callsDay
}

// Counts reports whether a rule in force that can apply to a tool looks at how often it was called.
// Rules of keys apply to any tool.
func (e *Engine) Counts(tool capabilities.ToolID) bool {
	p := e.byAction[tool]
	return p != nil && (p.consults.calls || e.countsByKey)
}

// CountsAny is Counts of any tool.
func (e *Engine) CountsAny() bool {
	return slices.ContainsFunc(e.rules, func(r *rule) bool { return r.consults.calls })
}
