package consent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities/policy"
)

// Bounds of what a person is shown of one call.
const (
	maxShownArgs  = 32
	maxShownItems = 16
	maxShownDepth = 3
)

// shown makes arguments safe to look at: control characters, and those that turn
// or hide text, become visible; hosts stand in punycode, so that one that looks
// like another does not; what is long, many or deep is cut with a note.
func shown(args map[string]any) map[string]any {
	if len(args) == 0 {
		return nil
	}
	out := make(map[string]any, min(len(args), maxShownArgs))
	for _, k := range slices.Sorted(maps.Keys(args)) {
		if len(out) == maxShownArgs {
			break
		}
		v := args[k]
		if s, ok := v.(string); ok && (k == "url" || strings.HasSuffix(k, "_url")) {
			v = plainURL(s)
		}
		out[Plain(k)] = shownValue(v, 0)
	}
	return out
}

func shownValue(v any, depth int) any {
	if depth > maxShownDepth {
		return "…"
	}
	switch v := v.(type) {
	case string:
		return Plain(v)
	case nil, bool, int, int64, float64:
		return v
	case []string:
		list := make([]any, len(v))
		for i, s := range v {
			list[i] = s
		}
		return shownValue(list, depth)
	case []any:
		out := make([]any, 0, min(len(v), maxShownItems+1))
		for i, item := range v {
			if i == maxShownItems {
				out = append(out, fmt.Sprintf("… (%d more)", len(v)-i))
				break
			}
			out = append(out, shownValue(item, depth+1))
		}
		return out
	case map[string]any:
		out := make(map[string]any, min(len(v), maxShownItems))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if len(out) < maxShownItems {
				out[Plain(k)] = shownValue(v[k], depth+1)
			}
		}
		return out
	}
	return Plain(fmt.Sprint(v))
}

func plainAll(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	out := make([]string, 0, min(len(list), maxShownItems+1))
	for i, s := range list {
		if i == maxShownItems {
			return append(out, fmt.Sprintf("… (%d more)", len(list)-i))
		}
		out = append(out, Plain(s))
	}
	return out
}

// plainURL returns an address as the browser will read it: the origin that it leads
// to, in punycode, and what follows. A user's name before the host, which likes
// to look like a host, is left out.
func plainURL(raw string) string {
	d := policy.ClassifyURL(raw)
	if d.Host == "" {
		return raw
	}
	_, rest, _ := strings.Cut(raw, ":")
	rest = strings.TrimLeft(rest, `/\`)
	at := strings.IndexAny(rest, `/\?#`)
	if at < 0 {
		return d.Origin
	}
	return d.Origin + rest[at:]
}

// Choice is one way to allow a call.
type Choice struct {
	Kind Kind
	// Seconds is how long it is good without a word about it, Most the longest.
	Seconds int64
	Most    int64
}

// choices returns the ways to allow up to the longest, the shortest first.
func choices(longest Kind) []Choice {
	seconds := func(d time.Duration) int64 { return int64(d / time.Second) }
	all := []Choice{
		{KindCall, seconds(onceLife), seconds(onceLife)},
		{KindLease, seconds(defaultLease), seconds(MaxLease)},
		{KindSession, seconds(sessionLife), seconds(sessionLife)},
		{KindAlways, seconds(alwaysLife), seconds(alwaysLife)},
	}
	return all[:max(1, ranks[longest])]
}

// Override is a rule that would make an answer unnecessary. Putting it into force
// is a change of policy, with everything that takes; nobody does it here.
type Override struct {
	Effect string // permit or forbid
	Cedar  string // the text of the rule
	// Note says what it cannot do; "" if nothing.
	Note string
}

// overrides returns the rules that would answer this question for good. They name
// principal, tool and node (S0-26) and nothing of the arguments.
func overrides(a *Ask) []Override {
	kind := "Agent"
	if a.Role != policy.RoleAgent {
		kind = "User"
	}
	for _, id := range []string{string(a.Principal), string(a.Tool), string(a.Node)} {
		if strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@") != "" {
			return nil // it would have to be escaped, and read by a person
		}
	}
	resource := `resource == Provider::"gateway"`
	if a.Node != "" {
		resource = fmt.Sprintf("resource == Node::%q", string(a.Node))
	}
	rule := func(effect string) string {
		return fmt.Sprintf("%s (\n  principal == %s::%q,\n  action == Action::%q,\n  %s\n);\n", effect, kind, string(a.Principal), string(a.Tool),
			resource)
	}
	forbid := Override{Effect: "forbid", Cedar: rule("forbid")}
	permit := Override{Effect: "permit", Cedar: rule("permit")}
	if a.Forbidden {
		permit.Note = "A rule that forbids this without a person asks for one; only changing that rule changes it."
	}
	if a.Always {
		permit.Note = "This tool always asks; this rule alone does not change that."
	}
	return []Override{permit, forbid}
}
