package rest

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/registry"
)

// Bounds of the keys of the controls that one call is made by, and of the tools of a turn.
const (
	maxShown  = 8
	maxOpened = 1000
)

func (s *Server) call(c *visit, in api.MakeCall) (made api.CallMade, err error) {
	if in.Tool == "" {
		return made, capabilities.Errorf(capabilities.CodeInvalidRequest, "tool is required")
	}
	if len(in.Tool) > 128 {
		return made, capabilities.Errorf(capabilities.CodeUnknownTool, "a tool ID has at most 128 characters")
	}
	if in.RequestID != "" {
		if err := capabilities.ValidateName("request_id", string(in.RequestID), 128); err != nil {
			return made, err
		}
	}
	if len(in.Shown) > maxShown {
		return made, capabilities.Errorf(capabilities.CodeInvalidRequest, "shown has at most %d keys", maxShown)
	}
	if len(in.Opened) > maxOpened {
		return made, capabilities.Errorf(capabilities.CodeInvalidRequest, "opened has at most %d tools", maxOpened)
	}
	if in.Lane == "" {
		in.Lane = c.who.Lane
	}
	if in.Job != "" {
		in.Lane = capabilities.LaneID(in.Job)
	}
	if err := s.opts.Lanes.Enter(c.r.Context(), c.who, in.Lane); err != nil {
		return made, err
	}
	if len(in.Args) == 0 {
		in.Args = json.RawMessage(`{}`)
	}
	ctx := c.r.Context()
	if in.Job != "" {
		made.Result, err = s.callInside(ctx, c, &in)
		return made, err
	}
	connection := ctx
	if in.RequestID != "" {
		// A caller who can ask again for the result has not cancelled by losing the connection.
		ctx = context.WithoutCancel(ctx)
	}
	ctx, release := s.held.hold(ctx, c.who.TokenID, s.opts.Tokens.Valid)
	defer release()
	r := dispatch.Request{
		Caller: front.Caller(c.who, in.Lane), Tool: in.Tool, Args: in.Args, RequestID: in.RequestID, Surface: "rest", Token: c.who.TokenID,
		Gone: connection.Done(), Shown: in.Shown, Opened: in.Opened,
	}
	r.Came, r.Trace = front.Came(c.r)
	if in.Covered {
		r.Checked = func(by dispatch.Coverage) {
			p := front.ViewPermission(&r, by)
			made.Permission = &p
		}
	}
	made.Result = viewMade(s.opts.Dispatcher.Call(ctx, r))
	return made, nil
}

// callInside makes a call of a sub-agent's worker (S3-16).
func (s *Server) callInside(ctx context.Context, c *visit, in *api.MakeCall) (capabilities.Result, error) {
	if s.opts.SubAgents == nil || in.RequestID != "" || len(in.Shown) > 0 || in.Covered {
		return capabilities.Result{}, capabilities.Errorf(capabilities.CodeInvalidRequest,
			"a call inside a job has no request_id, shown and covered")
	}
	ctx, release := s.held.hold(ctx, c.who.TokenID, s.opts.Tokens.Valid)
	defer release()
	result, err := s.opts.SubAgents.Call(ctx, c.who.Principal, in.Job, in.Claim, registry.Nested{
		Tool: in.Tool, Args: in.Args, Opened: in.Opened,
	})
	if err != nil {
		return result, err
	}
	return viewMade(result), nil
}

// viewMade is a result as its caller gets it.
func viewMade(r capabilities.Result) capabilities.Result {
	r.Output = fill(r.Output, r.Blobs)
	return front.ViewResult(r)
}

// fill puts captured bytes back where the contract has them: base64 under the
// blob's field. The output is spliced, not parsed: it may be large.
func fill(output json.RawMessage, blobs []capabilities.Blob) json.RawMessage {
	end := len(output) - 1
	if len(blobs) == 0 || end < 1 || output[0] != '{' || output[end] != '}' {
		return output
	}
	size := len(output)
	for i := range blobs {
		size += base64.StdEncoding.EncodedLen(len(blobs[i].Bytes)) + len(blobs[i].Field) + 8
	}
	full := make([]byte, 0, size)
	full = append(full, output[:end]...)
	for i := range blobs {
		if len(full) > 1 {
			full = append(full, ',')
		}
		name, _ := json.Marshal(blobs[i].Field)
		full = append(full, name...)
		full = append(full, ':', '"')
		full = base64.StdEncoding.AppendEncode(full, blobs[i].Bytes)
		full = append(full, '"')
	}
	return append(full, '}')
}

func (s *Server) tools(c *visit, _ none) (api.ToolList, error) {
	list, asks, err := s.toolsOf(c)
	if err != nil {
		return api.ToolList{}, err
	}
	var tags []string
	if text := c.param("tag"); text != "" {
		tags = strings.Split(text, ",")
	}
	effects := catalog.SideEffects(c.param("side_effects"))
	switch effects {
	case "", catalog.EffectsNone, catalog.EffectsLocal, catalog.EffectsExternal:
	default:
		return api.ToolList{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "side_effects must be none, local or external")
	}
	out := api.ToolList{Tools: make([]api.Tool, 0, len(list))}
	for _, d := range list {
		if !d.Is(tags, effects) {
			continue
		}
		out.Tools = append(out.Tools, s.toolView(d, asks(d.Tool)))
	}
	return out, nil
}

// tool is one of the tools of toolsOf, by its ID (S4-16).
func (s *Server) tool(c *visit, _ none) (api.Tool, error) {
	list, asks, err := s.toolsOf(c)
	if err != nil {
		return api.Tool{}, err
	}
	id := capabilities.ToolID(c.r.PathValue("tool"))
	i := slices.IndexFunc(list, func(d *catalog.Descriptor) bool { return d.Tool == id })
	if i < 0 {
		return api.Tool{}, capabilities.Errorf(capabilities.CodeUnknownTool, "%.128q is no tool that you may use now", id)
	}
	v := s.toolView(list[i], asks(id))
	if lane, err := s.laneAsked(c); err == nil {
		verdict, granted := s.opts.Dispatcher.Possible(c.r.Context(), front.Caller(c.who, lane), id)
		if verdict.Effect != policy.Deny {
			surface := front.Surface(v.Manifest, granted)
			v.Surface = &surface
		}
	}
	return v, nil
}

// validateTool says whether arguments fit one of the tools that the caller may use now (S4-17). A
// secret's alias is not resolved, and policy is not asked.
func (s *Server) validateTool(c *visit, in api.ValidateArgs) (api.Validation, error) {
	if in.Lane == "" {
		in.Lane = c.who.Lane
	}
	if err := s.opts.Lanes.Enter(c.r.Context(), c.who, in.Lane); err != nil {
		return api.Validation{}, err
	}
	id := capabilities.ToolID(c.r.PathValue("tool"))
	if !slices.ContainsFunc(s.opts.Dispatcher.Visible(c.r.Context(), front.Caller(c.who, in.Lane)),
		func(d *catalog.Descriptor) bool { return d.Tool == id }) {
		return api.Validation{}, capabilities.Errorf(capabilities.CodeUnknownTool, "%.128q is no tool that you may use now", id)
	}
	if len(in.Args) == 0 {
		in.Args = json.RawMessage(`{}`)
	}
	found, err := s.opts.Tools.Validate(id, in.Args)
	if err != nil {
		return api.Validation{}, err
	}
	v := api.Validation{Tool: id, Valid: found.Valid, Violations: make([]api.Violation, 0, len(found.Violations))}
	for _, bad := range found.Violations {
		v.Violations = append(v.Violations, api.Violation{Path: bad.Path, Message: bad.Message})
	}
	return v, nil
}

// toolsOf is the tools that a visitor may use now, or all there are, and whether a person
// is asked about the visitor's calls of one.
func (s *Server) toolsOf(c *visit) (list []*catalog.Descriptor, asks func(capabilities.ToolID) bool, err error) {
	all, err := c.flag("all")
	if err != nil {
		return nil, nil, err
	}
	if all {
		if err := c.who.Require(principal.ActReadAllTools); err != nil {
			return nil, nil, err
		}
		return s.opts.Tools.All(), func(capabilities.ToolID) bool { return false }, nil
	}
	lane, err := s.laneAsked(c)
	if err != nil {
		return nil, nil, err
	}
	caller := front.Caller(c.who, lane)
	asks = func(tool capabilities.ToolID) bool { return s.opts.Dispatcher.Asks(c.r.Context(), caller, tool) }
	return s.opts.Dispatcher.Visible(c.r.Context(), caller), asks, nil
}

// laneAsked is the lane that a visitor asks about.
func (s *Server) laneAsked(c *visit) (capabilities.LaneID, error) {
	lane := capabilities.LaneID(c.param("lane"))
	if lane == "" {
		lane = c.who.Lane
	}
	return lane, s.opts.Lanes.Enter(c.r.Context(), c.who, lane)
}

// toolView is a tool as the registry defines it.
func (s *Server) toolView(d *catalog.Descriptor, asks bool) api.Tool {
	def, _ := s.opts.Tools.Def(d.Tool)
	return front.ViewTool(d, def.Risk, asks)
}

// callView is a call folded from its packets, and what the folding needs of them.
type callView struct {
	api.Call

	evidence map[string]any // of the arguments
	did      catalog.Did

	approval, task string // what a pending call waits for
}

const (
	maxCalls  = 200
	maxSearch = 200 // bytes
	maxCallID = 128
	// maxLookBack is how many packets one filtered request looks through: what is
	// rare in a long ledger must not cost a scan of all of it.
	maxLookBack = 50_000
)

// adminTools are those of admin work, which is calls, too, and many of them: a list has them where
// it is narrowed to their tool or text, and the ledger has them all.
var adminTools = []string{"tool.admin.", "tool.policy."}

func (s *Server) calls(c *visit, _ none) (api.CallList, error) {
	limit, err := c.number("limit", 50, maxCalls)
	if err != nil {
		return api.CallList{}, err
	}
	q := ledger.Query{
		Kind: "tool.call.", Newest: true,
		Lane: capabilities.LaneID(c.param("lane")), Tool: capabilities.ToolID(c.param("tool")),
		Principal: capabilities.PrincipalID(c.param("principal")), Node: capabilities.NodeID(c.param("node")), Text: c.param("q"),
		Parent: capabilities.CallID(c.param("parent")),
	}
	if q.Parent != "" {
		if err := capabilities.ValidateName("parent", string(q.Parent), maxCallID); err != nil {
			return api.CallList{}, err
		}
	}
	if q.Says, err = decided(c); err != nil {
		return api.CallList{}, err
	}
	if len(q.Says) > 0 {
		q.Kind = ledger.KindCallDecision
	}
	searches := q.Text != "" || len(q.Says) > 0
	if q.Tool == "" && !searches {
		q.Without = adminTools
	}
	q.Whole = q.Parent == "" && !searches // steps are listed below their call, and found by what they say
	if q.Before, err = c.number("before", 0, math.MaxInt64); err != nil {
		return api.CallList{}, err
	}
	state := c.param("state")
	if len(q.Text) > maxSearch || state != "" && !slices.Contains(api.Outcomes(), state) {
		return api.CallList{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "q has at most %d bytes, and state is one of %s", maxSearch,
			strings.Join(api.Outcomes(), ", "))
	}
	if !c.who.May(principal.ActReadAllCalls) {
		q.Principal = c.who.Principal
	}
	if tip, _ := s.opts.Ledger.Tip(); q.Lane != "" || q.Tool != "" || q.Principal != "" || q.Node != "" || q.Parent != "" || searches ||
		state != "" {
		if q.Before > 0 {
			tip = min(tip, q.Before)
		}
		q.After = tip - min(tip, maxLookBack)
	}
	switch {
	case searches:
		return s.searched(c.r.Context(), q, state, int(limit))
	case state == "":
		return s.listed(c.r.Context(), q, int(limit))
	}
	out := api.CallList{Calls: []api.Call{}}
	for {
		page, err := s.listed(c.r.Context(), q, maxCalls)
		if err != nil {
			return api.CallList{}, err
		}
		for _, v := range page.Calls {
			if v.Outcome != state {
				continue
			}
			if out.Calls = append(out.Calls, v); len(out.Calls) == int(limit) {
				out.Before = v.FirstSeq
				return out, nil
			}
		}
		out.Before = page.Before
		if page.Before <= q.After+1 {
			return out, nil
		}
		q.Before = page.Before
	}
}

// decided returns what the decisions of the calls asked for say: their profile, their policy, the
// isolation that they needed and their runner (S1-55, S1-58). Bodies are canonical, so it stands
// there just so.
func decided(c *visit) (says []string, _ error) {
	for _, one := range [...]struct{ param, field string }{
		{"profile", "capability_profile_id"}, {"snapshot", "policy_snapshot_id"}, {"isolation", "isolation_class"},
		{"runner", "runner_fingerprint"},
	} {
		value := c.param(one.param)
		if value == "" {
			continue
		}
		if len(value) > maxCallID {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s has at most %d bytes", one.param, maxCallID)
		}
		text, err := canonical.Marshal(value)
		if err != nil {
			return nil, err
		}
		says = append(says, `"`+one.field+`":`+string(text))
	}
	return says, nil
}

// listed folds the newest calls of a query.
func (s *Server) listed(ctx context.Context, q ledger.Query, limit int) (api.CallList, error) {
	q.Limit = min(limit*5, 1000) // request, decision, dispatch, end, and some to spare
	packets, err := s.opts.Ledger.Packets(ctx, q)
	if err != nil {
		return api.CallList{}, err
	}
	full := len(packets) == q.Limit
	oldest := q.After + 1
	if full {
		oldest = packets[len(packets)-1].Seq
	}
	slices.Reverse(packets)
	calls := fold(packets)
	if q.Before > 0 {
		if err := s.followUp(ctx, calls); err != nil {
			return api.CallList{}, err
		}
	}
	folded := s.settled(ctx, calls)
	// The oldest may lack their beginning, and so have come before the window or be
	// listed with what continues it.
	folded = slices.DeleteFunc(folded, func(v *callView) bool { return v.StartedAt.IsZero() })
	slices.Reverse(folded)
	out := api.CallList{Calls: make([]api.Call, 0, len(folded))}
	for _, v := range folded[:min(len(folded), limit)] {
		out.Calls = append(out.Calls, v.Call)
	}
	switch n := len(out.Calls); {
	case n == limit && (n < len(folded) || full || q.After > 0):
		out.Before = out.Calls[n-1].FirstSeq
	case full || q.After > 0:
		out.Before = oldest
	}
	return out, nil
}

// followUp completes calls whose end an older page does not hold, because it came after the
// page's own packets: what ended is not listed as running.
func (s *Server) followUp(ctx context.Context, calls []*callView) error {
	for i, v := range calls {
		if v.State == "ended" || v.StartedAt.IsZero() {
			continue
		}
		all, err := s.opts.Ledger.Packets(ctx, ledger.Query{Call: v.ID, Kind: "tool.call."})
		if err != nil {
			return err
		}
		if whole := fold(all); len(whole) == 1 {
			calls[i] = whole[0]
		}
	}
	return nil
}

// searched returns the calls of which some packet has the texts, the newest such packet
// first. A call is listed once, also over several pages.
func (s *Server) searched(ctx context.Context, q ledger.Query, state string, limit int) (api.CallList, error) {
	q.Limit = 1000
	found, err := s.opts.Ledger.Packets(ctx, q)
	if err != nil {
		return api.CallList{}, err
	}
	out, seen := api.CallList{Calls: []api.Call{}}, map[capabilities.CallID]bool{}
	if len(found) == q.Limit || q.After > 0 {
		out.Before = q.After + 1
	}
	for i := range found {
		p := &found[i]
		if seen[p.Call] {
			continue
		}
		seen[p.Call] = true
		if len(found) == q.Limit {
			out.Before = p.Seq
		}
		all, err := s.opts.Ledger.Packets(ctx, ledger.Query{Call: p.Call, Kind: "tool.call."})
		if err != nil {
			return api.CallList{}, err
		}
		earlier := q.Before > 0 && slices.ContainsFunc(all, func(p ledger.Packet) bool { return p.Seq >= q.Before && has(&p, q) })
		folded := s.settled(ctx, fold(all))
		if earlier || len(folded) != 1 || folded[0].StartedAt.IsZero() || state != "" && folded[0].Outcome != state {
			continue
		}
		if out.Calls = append(out.Calls, folded[0].Call); len(out.Calls) == limit {
			out.Before = p.Seq
			return out, nil
		}
	}
	return out, nil
}

// has reports what Text and Says of a query ask of one packet.
func has(p *ledger.Packet, q ledger.Query) bool {
	for _, text := range q.Says {
		if p.Kind != q.Kind || !strings.Contains(string(p.Body), text) {
			return false
		}
	}
	lower := func(s string) string {
		return strings.Map(func(r rune) rune {
			if 'A' <= r && r <= 'Z' {
				return r + 'a' - 'A'
			}
			return r
		}, s)
	}
	all := strings.Join([]string{string(p.Tool), string(p.Principal), string(p.Lane), string(p.Node), string(p.Call), string(p.Body)}, " ")
	return strings.Contains(lower(all), lower(q.Text))
}

// outcome says how far a call is, in one of api.Outcomes.
func (v *callView) outcome() string {
	switch {
	case v.State == "ended" && v.Status == capabilities.StatusOK:
		return "done"
	case v.State == "ended" && v.EndedBy != "":
		return "ended"
	case v.State == "ended" && v.Status == capabilities.StatusPending: // a script that came to a question
		return "over"
	case v.State == "ended" && v.Decision == "deny", v.Status == capabilities.StatusDenied:
		return "denied"
	case v.State == "ended":
		return "failed"
	case v.State == "dispatched":
		return "running"
	case v.State == "pending":
		return "waits"
	}
	return "asked"
}

// settled says of pending calls what became of what they wait for: the ledger has them
// end there, for the identical call goes on.
func (s *Server) settled(ctx context.Context, calls []*callView) []*callView {
	waiting := sync.OnceValues(func() (map[string]bool, error) { return s.waitingTasks(ctx) }) // once they are needed
	for _, v := range calls {
		if d, ok := s.opts.Tools.Get(v.Tool); ok {
			v.Phrase = d.Say(v.evidence, v.Outcome == "done", v.did)
		}
		switch {
		case v.State != "pending":
		case v.task != "":
			if tasks, err := waiting(); err == nil && !tasks[v.task] {
				v.Outcome = "over"
			}
		case v.approval != "":
			a, err := s.opts.Consent.Approval(v.approval)
			switch {
			case err == nil && a.State == consent.StatePending:
			case err == nil && (a.State == consent.StateDenied || a.State == consent.StateExpired):
				v.Outcome = "denied"
			default: // allowed, for whoever calls again; or so long ago that nobody knows
				v.Outcome = "over"
			}
		}
	}
	return calls
}

// waitingTasks returns the tasks that have not ended.
func (s *Server) waitingTasks(ctx context.Context) (map[string]bool, error) {
	all, err := s.opts.Tasks.Tasks(ctx, "")
	if err != nil {
		return nil, err
	}
	waiting := map[string]bool{}
	for i := range all {
		waiting[all[i].ID] = !all[i].State.Over()
	}
	return waiting, nil
}

// fold makes calls of packets that are in order; calls are in the order they began.
func fold(packets []ledger.Packet) []*callView {
	var order []*callView
	byID := make(map[capabilities.CallID]*callView)
	for i := range packets {
		p := &packets[i]
		v := byID[p.Call]
		if v == nil {
			v = &callView{Call: api.Call{ID: p.Call, State: "requested", FirstSeq: p.Seq}}
			byID[p.Call] = v
			order = append(order, v)
		}
		v.Tool, v.Principal, v.Lane, v.LastSeq = p.Tool, p.Principal, p.Lane, p.Seq
		if p.Node != "" {
			v.Node = p.Node
		}
		v.addPacket(p)
	}
	for _, v := range order {
		v.Outcome = v.outcome()
	}
	return order
}

// addPacket adds what a packet of the call says; what a body lacks stays empty.
func (v *callView) addPacket(p *ledger.Packet) {
	switch {
	case p.Kind == ledger.KindCallRequest:
		var body packet.Request
		_ = json.Unmarshal(p.Body, &body)
		v.StartedAt, v.Surface, v.evidence = p.Time(), body.Surface, body.Evidence
		v.Parent, v.Step = body.Parent, body.Step
	case p.Kind == ledger.KindCallDecision:
		var body packet.Decision
		_ = json.Unmarshal(p.Body, &body)
		v.Decision, v.Code, v.NodeLabel = body.Effect.String(), body.Code, ""
		if body.Routing != nil && body.Routing.Node != nil {
			v.NodeLabel = body.Routing.Node.Label
		}
		v.Envelope, v.Given, v.Degraded, v.Runner = front.ViewEnvelope(body.Summary()), body.Given, body.Degraded, body.Runner
	case p.Kind == ledger.KindCallDispatch:
		v.State = "dispatched"
	case p.Kind == ledger.KindCallPending:
		var body packet.End
		_ = json.Unmarshal(p.Body, &body)
		v.State, v.approval, v.task = "pending", body.Approval, body.Task
	case p.Kind.Terminal():
		var body packet.End
		_ = json.Unmarshal(p.Body, &body)
		v.State, v.Status, v.Code, v.DurationMS = "ended", body.Status, body.Code, body.DurationMS
		v.Effect, v.EndedBy, v.did = body.Effect, string(body.EndedBy), catalog.Did{}
		v.Given, v.Runners = cmp.Or(body.Isolation, v.Given), front.RunnersOf(p.Body)
		if body.Did != nil {
			v.did = catalog.Did(*body.Did)
		}
	}
}
