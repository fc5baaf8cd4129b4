package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// Intent is what somebody wants done (S4-18).
type Intent struct {
	Text string          // in words; required, at most 4,096 bytes
	Tags []string        // only tools that carry all of these; optional
	Args json.RawMessage // arguments for the tool, with routing fields; optional
}

// Context says for whom a tool is selected (S4-20). An approval token has no
// place here: selecting grants nothing.
type Context struct {
	Lane      capabilities.LaneID      // thread_id
	Principal capabilities.PrincipalID // required
	Role      string
}

// ToolSelection is the selector's answer (S4-34).
type ToolSelection struct {
	// IntentSummary is the words of the intent that the registry knows, and only
	// those: a password in the text never reaches the ledger through it.
	IntentSummary       string                `json:"intent_summary"`
	CandidateTools      []capabilities.ToolID `json:"candidate_tools"` // best first, at most 16
	SelectedTool        capabilities.ToolID   `json:"selected_tool"`
	Args                json.RawMessage       `json:"args"` // as given; valid for SelectedTool (S4-37)
	WhySelected         string                `json:"why_selected"`
	ExpectedSideEffects catalog.SideEffects   `json:"expected_side_effects"`
	RollbackPlan        string                `json:"rollback_plan"`
	// Confidence is the share of the best tool's score in that of the two best:
	// 0.5 is a tie, 1 is without a rival.
	Confidence float64 `json:"confidence"`
}

// The packet kinds of a selection (S4-21, S4-22).
const (
	KindSelectRequest = "tool.select.request"
	KindSelectResult  = "tool.select.result"
)

// Record is one packet of a selection. Its body holds no argument beyond the
// tool's evidence allowlist.
type Record struct {
	Kind      string
	Principal capabilities.PrincipalID
	Lane      capabilities.LaneID
	Tool      capabilities.ToolID // of a result; "" if none was selected
	Body      any                 // JSON object
}

// Recorder makes a packet durable before it returns. It is called twice per
// selection, from the caller's goroutine.
type Recorder interface {
	RecordSelection(ctx context.Context, r Record) error
}

const (
	maxIntentBytes = 4096
	maxCandidates  = 16
	maxGiven       = 256
)

type selectRequest struct {
	IntentSummary string                `json:"intent_summary"`
	Tags          []string              `json:"tags,omitempty"`
	Candidates    []capabilities.ToolID `json:"candidates,omitempty"` // as the caller limited them; at most 16 shown
	Role          string                `json:"role,omitempty"`
	WithArgs      bool                  `json:"with_args"`
}

type selectResult struct {
	ToolSelection
	Args  map[string]any    `json:"args"` // the evidence allowlist only (S0-31)
	Error capabilities.Code `json:"error,omitempty"`
}

// Select chooses the tool whose words fit the intent best (S4-18): a count over ID, tags, title and
// description, rare words counting more, ties going to the smaller side effect and then to the ID.
// The same registry and intent lead to the same answer; no model is asked (S4-47). candidates
// limits the choice; nil is every tool a model may call. Request and result are recorded, in that
// order, also when nothing fits.
//
// Errors: CodeInvalidRequest for a bad intent; CodeUnknownTool for a candidate
// that is not registered (S4-40); CodeNotFound if no word fits;
// CodeInvalidArguments if the best tool needs other arguments than were given;
// CodeLedgerUnavailable if recording fails.
func (r *Registry) Select(ctx context.Context, rec Recorder, intent Intent, who Context, candidates []capabilities.ToolID) (ToolSelection, error) {
	t := r.Now()
	if intent.Text == "" || len(intent.Text) > maxIntentBytes {
		return ToolSelection{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "intent must be 1 to %d bytes of text", maxIntentBytes)
	}
	if len(candidates) > maxGiven || len(intent.Tags) > maxCandidates {
		return ToolSelection{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "at most %d candidates and %d tags", maxGiven, maxCandidates)
	}
	pool, err := t.pool(candidates)
	if err != nil {
		return ToolSelection{}, err
	}
	r.log.Info("tools.select.started", "principal", who.Principal, "lane", who.Lane)
	words := tokens(intent.Text)
	summary := t.words.summary(words)
	if err := record(ctx, rec, who, Record{Kind: KindSelectRequest, Body: selectRequest{
		IntentSummary: summary, Tags: t.words.known(intent.Tags), Role: who.Role, WithArgs: len(intent.Args) > 0,
		Candidates: candidates[:min(len(candidates), maxCandidates)],
	}}); err != nil {
		return ToolSelection{}, err
	}

	sel, chosen, args, selErr := t.choose(pool, words, intent)
	sel.IntentSummary = summary
	body := selectResult{ToolSelection: sel, Error: capabilities.CodeOf(selErr)}
	if chosen != nil {
		body.Args = chosen.EvidenceArgs(args.Canonical)
	}
	if err := record(ctx, rec, who, Record{Kind: KindSelectResult, Tool: sel.SelectedTool, Body: body}); err != nil {
		return ToolSelection{}, err
	}
	r.log.Info("tools.select.completed", "principal", who.Principal, "lane", who.Lane,
		"tool", sel.SelectedTool, "confidence", sel.Confidence, "code", body.Error)
	if selErr != nil {
		return ToolSelection{}, selErr
	}
	return sel, nil
}

func record(ctx context.Context, rec Recorder, who Context, r Record) error {
	r.Principal, r.Lane = who.Principal, who.Lane
	if err := rec.RecordSelection(ctx, r); err != nil {
		return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	return nil
}

// pool is the tools to choose from.
func (t *View) pool(candidates []capabilities.ToolID) ([]*catalog.Descriptor, error) {
	if candidates == nil {
		return slices.DeleteFunc(slices.Clone(t.sorted), func(d *catalog.Descriptor) bool { return !d.ModelFacing }), nil
	}
	pool := make([]*catalog.Descriptor, 0, len(candidates))
	for _, id := range candidates {
		d, ok := t.byTool[id]
		if !ok || !d.ModelFacing {
			return nil, unknown(id)
		}
		if !slices.Contains(pool, d) {
			pool = append(pool, d)
		}
	}
	return pool, nil
}

// choose is pure: the same View, pool and intent lead to the same selection.
func (t *View) choose(pool []*catalog.Descriptor, words []string, intent Intent) (ToolSelection, *catalog.Descriptor, catalog.Args, error) {
	type rated struct {
		match
		args catalog.Args
		bad  []catalog.Violation
	}
	var list []rated
	for _, d := range pool {
		if slices.ContainsFunc(intent.Tags, func(tag string) bool { return !slices.Contains(d.Tags, tag) }) {
			continue
		}
		m := t.words.rate(d, words)
		if m.score == 0 {
			continue
		}
		args, bad, err := d.SplitArgs(intent.Args)
		if err != nil {
			return ToolSelection{}, nil, catalog.Args{}, err
		}
		list = append(list, rated{m, args, bad})
	}
	if len(list) == 0 {
		return ToolSelection{}, nil, catalog.Args{}, capabilities.Errorf(capabilities.CodeNotFound, "no tool fits the words of the intent")
	}
	sort.Slice(list, func(i, j int) bool { return list[i].match.compare(list[j].match) < 0 })
	// Arguments that were given say what is meant: a tool that cannot take them is
	// no candidate while another can.
	if len(intent.Args) > 0 && slices.ContainsFunc(list, func(r rated) bool { return r.bad == nil }) {
		list = slices.DeleteFunc(list, func(r rated) bool { return r.bad != nil })
	}
	best := list[0]
	if best.bad != nil {
		return ToolSelection{}, nil, catalog.Args{}, capabilities.Errorf(capabilities.CodeInvalidArguments,
			"the intent fits %s, but its arguments do not: %s %s", best.d.Tool, best.bad[0].Path, best.bad[0].Message).
			WithDetails(map[string]any{"tool_id": best.d.Tool, "violations": best.bad})
	}
	sel := ToolSelection{
		SelectedTool: best.d.Tool, Args: intent.Args, WhySelected: best.why(),
		ExpectedSideEffects: best.d.SideEffects, RollbackPlan: rollback(best.d), Confidence: 1,
	}
	if len(sel.Args) == 0 {
		sel.Args = json.RawMessage("{}")
	}
	if len(list) > 1 {
		sel.Confidence = float64(best.score) / float64(best.score+list[1].score)
	}
	for _, r := range list[:min(len(list), maxCandidates)] {
		sel.CandidateTools = append(sel.CandidateTools, r.d.Tool)
	}
	return sel, best.d, best.args, nil
}

// rollback says what undoing would take; nothing is ever undone by itself.
func rollback(d *catalog.Descriptor) string {
	switch {
	case d.SideEffects == catalog.EffectsNone:
		return "Nothing to roll back: it only reads."
	case !d.Annotations.Destructive:
		return "No automatic rollback; it changes the device only in ways that a further call can set right."
	default:
		return "No rollback: look at the effect in the result before going on."
	}
}

func (m match) why() string {
	return fmt.Sprintf("Its name, tags or description hold: %s.", strings.Join(m.hits, ", "))
}
