package mcp

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/consent"
)

// Consent is asked where policy names the person at the client as approver;
// gateway/consent implements it.
type Consent interface {
	Approval(id string) (consent.Approval, error)
	Answer(ctx context.Context, id string, a consent.Answer) (consent.Approval, error)
	// HandsUntil returns until when an agent holds mouse or keyboard of any node, as far
	// as is known; zero: none does.
	HandsUntil() time.Time
	// HandsThere returns those of every gateway of the site; an error: nobody knows.
	HandsThere(ctx context.Context) ([]consent.Hands, error)
}

const (
	askID       = "approval" // of the one input request that is ever made
	stateLife   = 10 * time.Minute
	maxState    = 512
	maxQuestion = 4 << 10
)

// answerSchema is what the person at the client fills in. Nothing is filled in
// for them but the no.
var answerSchema = json.RawMessage(
	`{"type":"object","properties":{"answer":{"type":"string","title":"Your answer","enum":["deny","allow"],"enumNames":["Deny","Allow this one call"],"default":"deny"}},"required":["answer"]}`)

// elicits reports whether the person at this client can be asked, now or in a moment
// (see handsOff).
func (v *view) elicits(req *sdk.CallToolRequest) bool {
	c := req.ClientCapabilities()
	return v.s.opts.Consent != nil && c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil) &&
		req.Params.RequestState == "" && v.soonOff() <= consent.CallGrace
}

// soonOff is how long an agent still holds mouse or keyboard of a device, as far as is
// known.
func (v *view) soonOff() time.Duration {
	until := v.s.opts.Consent.HandsUntil()
	if until.IsZero() {
		return 0
	}
	return until.Sub(v.s.opts.Now())
}

// handsOff reports whether no agent holds mouse or keyboard of a device: the client may
// stand there, and what is clicked in it may be the agent's. The moment after a call
// that was allowed once is waited out, so that one question can follow the other.
func (v *view) handsOff(ctx context.Context) bool {
	for {
		left := v.soonOff()
		if left <= 0 {
			hands, err := v.s.opts.Consent.HandsThere(ctx)
			return err == nil && len(hands) == 0
		}
		if left > consent.CallGrace {
			return false
		}
		wait := time.NewTimer(min(left, 100*time.Millisecond))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return false
		}
	}
}

// question returns the result that makes the client ask its person, or nil if this
// pending call is not theirs to answer.
func (v *view) question(ctx context.Context, req *sdk.CallToolRequest, d *catalog.Descriptor, r *capabilities.Result) *sdk.CallToolResult {
	id := r.Pending().Approval
	if r.Code != capabilities.CodeApprovalPending || id == "" {
		return nil
	}
	a, err := v.s.opts.Consent.Approval(id)
	if err != nil || !a.User || a.State != consent.StatePending || !v.handsOff(ctx) {
		return nil
	}
	return &sdk.CallToolResult{
		InputRequests: sdk.InputRequestMap{askID: &sdk.ElicitParams{Mode: "form", Message: questionText(&a), RequestedSchema: answerSchema}},
		RequestState:  v.sign(id, d, req.Params.Arguments, v.s.opts.Now().Add(stateLife)),
	}
}

// questionText is the approval for a person, the risk first. Text that came from the agent was made
// visible by gateway/consent.
func questionText(a *consent.Approval) string {
	var b strings.Builder
	where := a.NodeLabel
	if where == "" {
		where = "the gateway"
	}
	fmt.Fprintf(&b, "Risk %s: %s wants %s (%s) on %s.\n", a.Risk, consent.Plain(string(a.Principal)), a.Tool, consent.Plain(a.Title),
		consent.Plain(where))
	if len(a.Through) > 0 {
		fmt.Fprintf(&b, "Through: %s\n", strings.Join(a.Through, "; "))
	}
	for _, k := range slices.Sorted(maps.Keys(a.Arguments)) {
		fmt.Fprintf(&b, "%s: %v\n", k, a.Arguments[k])
	}
	for _, part := range []struct {
		name string
		list []string
	}{{"Hosts", a.Hosts}, {"Files", a.Paths}, {"Touches", a.Keys}, {"Because", append(slices.Clone(a.Why), a.Policies...)}} {
		if len(part.list) > 0 {
			fmt.Fprintf(&b, "%s: %s\n", part.name, strings.Join(part.list, ", "))
		}
	}
	text := b.String()
	if len(text) > maxQuestion {
		text = capabilities.Clip(text, maxQuestion) + " …\n"
	}
	return text + "Allowing is good for this one call with exactly these arguments."
}

// answered takes the person's answer that came with a repeated call. The state
// that came with it was made here, for this token, lane, tool and arguments.
func (v *view) answered(ctx context.Context, req *sdk.CallToolRequest, d *catalog.Descriptor) error {
	id, err := v.verify(req.Params.RequestState, d, req.Params.Arguments)
	if err != nil {
		return err
	}
	if !v.handsOff(ctx) {
		return capabilities.Errorf(capabilities.CodeForbidden,
			"an agent holds a device's mouse and keyboard, so nobody can be asked at this client")
	}
	said, ok := req.Params.InputResponses[askID].(*sdk.ElicitResult)
	if !ok || said == nil || said.Action == "cancel" {
		return nil // no answer is none: it waits on
	}
	word, _ := said.Content["answer"].(string)
	_, err = v.s.opts.Consent.Answer(ctx, id, consent.Answer{
		Allow: said.Action == "accept" && word == "allow", Kind: consent.KindCall, By: v.who.Principal, Via: consent.ViaMCP,
	})
	if capabilities.CodeOf(err) == capabilities.CodeConflict {
		return nil // somebody answered first: the call finds out what
	}
	return err
}

// sign makes the state that a client carries:
//
//	base64url( 8 bytes expiry in ms, BE | approval's ID | 32 bytes HMAC-SHA-256 )
//
// The MAC also covers token, principal, lane, tool and the digest of the arguments.
func (v *view) sign(id string, d *catalog.Descriptor, args json.RawMessage, until time.Time) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(until.UnixMilli()))
	b = append(b, id...)
	return base64.RawURLEncoding.EncodeToString(append(b, v.mac(b, d, args)...))
}

func (v *view) verify(state string, d *catalog.Descriptor, args json.RawMessage) (id string, err error) {
	bad := capabilities.Errorf(capabilities.CodeInvalidRequest,
		"the request state is not one that was given for this call, or its time is over").
		WithHint("Call again without it.")
	if v.s.opts.Consent == nil || len(state) > maxState {
		return "", bad
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(state)
	if err != nil || len(b) < 8+sha256.Size {
		return "", bad
	}
	body, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if !hmac.Equal(sum, v.mac(body, d, args)) || uint64(v.s.opts.Now().UnixMilli()) >= binary.BigEndian.Uint64(body) {
		return "", bad
	}
	return string(body[8:]), nil
}

func (v *view) mac(body []byte, d *catalog.Descriptor, args json.RawMessage) []byte {
	if len(args) == 0 {
		args = json.RawMessage(`{}`)
	}
	// Arguments that cannot be read have no answer either: the call is refused.
	clean, _ := canonical.Parse(args, canonical.Limits{})
	digest := sha256.Sum256(clean)
	h := hmac.New(sha256.New, v.s.stateKey[:])
	for _, part := range [][]byte{body, []byte(v.who.TokenID), []byte(v.who.Principal), []byte(v.caller.Lane), []byte(d.Tool), digest[:]} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return h.Sum(nil)
}
