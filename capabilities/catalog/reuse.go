package catalog

import "slices"

// stillKeys are the keys under which a call reads nothing that lives: its answer of a moment ago
// would be its answer now (S1-42). A key that is not here says nothing of the kind.
var stillKeys = []string{"data.read.tool_cache", "execution.timeout.extended"}

// Reuses reports whether the recorded result of a call may stand for the same call made
// again, for Idempotency.WindowMS.
func (d *Descriptor) Reuses() bool {
	return d.Defaults.CacheEligible && d.Idempotency.Mode == IdempotencyCached && d.moves() == ""
}

// moves says why a result can stand for no other call, "" if nothing is in the way: it must
// have no effect, and its keys nothing live, no input and no secret.
func (d *Descriptor) moves() string {
	for _, key := range d.Manifest.Keys() {
		if !slices.Contains(stillKeys, key) {
			return "the key " + key
		}
	}
	switch {
	case d.SideEffects != EffectsNone:
		return "its side effects"
	case d.Delivery != nil || len(d.Evidence.Secret) > 0:
		return "the secrets that it takes"
	case d.TakesSteps():
		return "its steps"
	case d.Exclusive || d.Attached:
		return "its hold on the node"
	case d.Limits.MaxArtifactBytes > 0:
		return "its artifacts"
	}
	return ""
}

// Replays reports whether a recorded call may be run again for a person who asks for it: it leaves
// nothing behind, holds no secret, and takes no steps.
func (d *Descriptor) Replays() bool {
	return d.SideEffects == EffectsNone && d.Idempotency.Mode != IdempotencyGuard && d.Delivery == nil && len(d.Evidence.Secret) == 0 &&
		!d.TakesSteps()
}

// validateReuse holds what the descriptor says about reuse against what its keys allow.
func (d *Descriptor) validateReuse() error {
	reuses := d.Idempotency.Mode == IdempotencyCached
	switch why := d.moves(); {
	case d.Defaults.CacheEligible != reuses:
		return refuse(d, "cache_eligible and idempotency return_cached_result go together")
	case reuses && why != "":
		return refuse(d, "no result of it can be used again: %s", why)
	case reuses && (d.Idempotency.WindowMS <= 0 || d.Idempotency.WindowMS > maxWindow):
		return refuse(d, "idempotency return_cached_result needs a window of 1 to %d ms", maxWindow)
	}
	return nil
}

// maxWindow is as long as results are kept.
const maxWindow = 3_600_000
