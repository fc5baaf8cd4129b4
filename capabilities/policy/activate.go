package policy

import (
	"crypto/sha256"
	"encoding/hex"

	cedar "github.com/cedar-policy/cedar-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// ActivatePolicy is the action by which a policy says who may replace it. Whoever
// may manage the gateway's policy may, unless a forbid names this action.
const ActivatePolicy = "policy.activate"

// ActivationTool is the tool ID that activations are recorded under; it is no tool
// that anybody could call.
const ActivationTool capabilities.ToolID = "tool.policy.activate"

// ActivationProfile is what every activation shares: one privileged key.
func ActivationProfile() *Profile {
	keys := []string{"privileged.admin.mutate_policy"}
	sum := sha256.Sum256([]byte(ActivationTool + " 1.0.0"))
	return &Profile{
		Tool: ActivationTool, Version: "1.0.0", ManifestHash: "sha256:" + hex.EncodeToString(sum[:]), Keys: keys, ID: ProfileID(keys),
		Risk: DeriveRisk(keys), Isolation: DeriveIsolation(keys), Consent: catalog.ConsentCall, Privileged: true, Asks: true,
	}
}

// MayActivate judges an activation that a person has confirmed: allow unless a
// forbid that names ActivatePolicy applies, or fails.
func (e *Engine) MayActivate(r Request) Decision {
	r.Tool, r.Required = ActivationTool, ""
	env := e.about(&r, cedar.NewEntityUID(typeAction, ActivatePolicy), false)
	p := ActivationProfile()
	env.tool = &tool{profile: func() *Profile { return p }, keys: stringSet(p.Keys)}
	env.fields = env.context()
	o := e.evaluate(e.activate, env, true)
	d := Decision{Effect: Allow, Determining: []string{}, Errors: o.errors, Reason: "A person confirmed it, and no policy forbids it.", Snapshot: e.snapshot}
	if len(o.forbids) > 0 {
		d.Effect, d.Code, d.Determining, d.Reason = Deny, capabilities.CodeDeniedByPolicy, merge(o.forbids, nil), "The policy in force forbids replacing it."
	}
	return d
}
