package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// Intent is what somebody wants done (S4-18).
type Intent struct {
	Text string          // in words; required, at most 4,096 bytes
	Tags []string        // only tools that carry all of these; optional
	Args json.RawMessage // arguments for the tool, with routing fields; none: none are looked at
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
	IntentSummary       string
	CandidateTools      []capabilities.ToolID // best first, at most 16
	SelectedTool        capabilities.ToolID
	Args                json.RawMessage // as given; valid for SelectedTool (S4-37); null if none were
	WhySelected         string
	ExpectedSideEffects catalog.SideEffects
	RollbackPlan        string
	// Confidence is the share of the best tool's score in that of the two best:
	// 0.5 is a tie, 1 is without a rival.
	Confidence float64
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
	maxFitted      = 256 // tools whose schemas are asked about the arguments
)

type selectRequest struct {
	IntentSummary string                `json:"intent_summary"`
	Tags          []string              `json:"tags,omitempty"`
	Candidates    []capabilities.ToolID `json:"candidates,omitempty"` // of those to choose from, the first 16
	Of            int                   `json:"of,omitempty"`         // how many there are to choose from
	Role          string                `json:"role,omitempty"`
	WithArgs      bool                  `json:"with_args"`
}

// selectResult names every field: what the arguments hold must not come with a struct.
type selectResult struct {
	IntentSummary       string                `json:"intent_summary"`
	CandidateTools      []capabilities.ToolID `json:"candidate_tools"`
	SelectedTool        capabilities.ToolID   `json:"selected_tool"`
	WhySelected         string                `json:"why_selected"`
	ExpectedSideEffects catalog.SideEffects   `json:"expected_side_effects"`
	RollbackPlan        string                `json:"rollback_plan"`
	Confidence          float64               `json:"confidence"`
	Args                map[string]any        `json:"args"` // the evidence allowlist only (S0-31)
	Error               capabilities.Code     `json:"error,omitempty"`
}

// Select chooses the tool whose words fit the intent best (S4-18): a count over ID, title,
// tags, description and names of arguments, rare words counting more, ties going to the
// smaller side effect and then to the ID. The same registry and intent lead to the same
// answer; no model is asked (S4-47). candidates limits the choice; nil is every tool a model
// may call. Request and result are recorded, in that order, also when nothing fits.
//
// Errors: CodeInvalidRequest for a bad intent; CodeUnknownTool for a candidate
// that is not registered (S4-40); CodeNotFound if no word fits;
// CodeInvalidArguments if the best tool needs other arguments than were given;
// CodeLedgerUnavailable if recording fails.
func (r *Registry) Select(ctx context.Context, rec Recorder, intent Intent, who Context,
	candidates []capabilities.ToolID) (ToolSelection, error) {
	t := r.Now()
	if intent.Text == "" || len(intent.Text) > maxIntentBytes {
		return ToolSelection{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "intent must be 1 to %d bytes of text", maxIntentBytes)
	}
	if len(intent.Tags) > maxCandidates {
		return ToolSelection{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "at most %d tags", maxCandidates)
	}
	for _, id := range candidates {
		if d, ok := t.byTool[id]; !ok || !d.ModelFacing {
			return ToolSelection{}, unknown(id)
		}
	}
	r.log.Info("tools.select.started", "principal", who.Principal, "lane", who.Lane)
	x := t.index()
	concepts := x.concepts(intent.Text)
	summary := x.summary(concepts)
	if err := record(ctx, rec, who, Record{Kind: KindSelectRequest, Body: selectRequest{
		IntentSummary: summary, Tags: x.known(intent.Tags), Role: who.Role, WithArgs: len(intent.Args) > 0,
		Of: len(candidates), Candidates: candidates[:min(len(candidates), maxCandidates)],
	}}); err != nil {
		return ToolSelection{}, err
	}

	sel, chosen, args, selErr := x.choose(concepts, intent, candidates)
	sel.IntentSummary = summary
	body := selectResult{
		IntentSummary: summary, CandidateTools: sel.CandidateTools, SelectedTool: sel.SelectedTool, WhySelected: sel.WhySelected,
		ExpectedSideEffects: sel.ExpectedSideEffects, RollbackPlan: sel.RollbackPlan, Confidence: sel.Confidence,
		Error: capabilities.CodeOf(selErr),
	}
	if chosen != nil && len(args.Canonical) > 0 {
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

// choose is pure: the same index, intent and candidates lead to the same selection.
func (x *index) choose(concepts []concept, intent Intent,
	candidates []capabilities.ToolID) (ToolSelection, *catalog.Descriptor, catalog.Args, error) {
	wanted := only(candidates)
	list := x.rank(concepts, func(d *catalog.Descriptor) bool {
		return wanted(d) && d.Is(intent.Tags, "")
	})
	if len(list) == 0 {
		return ToolSelection{}, nil, catalog.Args{}, capabilities.Errorf(capabilities.CodeNotFound, "no tool fits the words of the intent").
			WithHint("Say in English what is to be done, and to what: \"create an issue on GitHub\".")
	}
	sel := ToolSelection{Args: json.RawMessage("null"), Confidence: 1}
	var args catalog.Args
	if len(intent.Args) > 0 {
		sel.Args = intent.Args
		fits, split, err := fitting(list, intent.Args)
		if err != nil {
			return ToolSelection{}, nil, catalog.Args{}, err
		}
		list, args = fits, split
	}
	best := list[0]
	x.explain(&best, concepts)
	sel.SelectedTool, sel.WhySelected = best.d.Tool, best.why()
	sel.ExpectedSideEffects, sel.RollbackPlan = best.d.SideEffects, rollback(best.d)
	if len(list) > 1 {
		sel.Confidence = float64(best.score) / float64(best.score+list[1].score)
	}
	for _, m := range list[:min(len(list), maxCandidates)] {
		sel.CandidateTools = append(sel.CandidateTools, m.d.Tool)
	}
	return sel, best.d, args, nil
}

// fitting returns the matches that can take the arguments. Arguments that were given say what is
// meant: a tool that cannot take them is no candidate while another can. It looks at no more tools
// than it takes to name the candidates, and at no more than 256.
func fitting(list []match, raw json.RawMessage) (fits []match, best catalog.Args, err error) {
	var wrong []catalog.Violation
	for i, m := range list[:min(len(list), maxFitted)] {
		args, bad, err := m.d.SplitArgs(raw)
		switch {
		case err != nil:
			return nil, catalog.Args{}, err
		case bad == nil && len(fits) == 0:
			best = args
			fallthrough
		case bad == nil:
			fits = append(fits, m)
		case i == 0:
			wrong = bad
		}
		if len(fits) == maxCandidates {
			break
		}
	}
	if len(fits) == 0 {
		return nil, catalog.Args{}, capabilities.Errorf(capabilities.CodeInvalidArguments,
			"the intent fits %s, but its arguments do not: %s %s", list[0].d.Tool, wrong[0].Path, wrong[0].Message).
			WithDetails(map[string]any{"tool_id": list[0].d.Tool, "violations": wrong})
	}
	return fits, best, nil
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
	if len(m.hits) == 0 {
		return "Its name, tags or description fit the intent."
	}
	return fmt.Sprintf("Its name, tags or description hold: %s.", strings.Join(m.hits, ", "))
}
