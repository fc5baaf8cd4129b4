package policy

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

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
