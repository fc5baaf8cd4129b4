// Package admin carries out what changes rights or secrets: tokens, people, invitations, nodes'
// approval and allowlists, secret references, providers, satellites, drift, policy. Each piece of
// work has a descriptor that no model is shown, and is a call like any other: an envelope, a
// decision of the policy in force, a grant that is bound to that policy, packets, and only then the
// effect (S1-04, S1-61, S1-64).
//
// Promises: nothing is done before request, decision, grant and intent are durable in one commit;
// whoever asks confirms it by asking, and their word is used up in that commit; what policy forbids
// is recorded and not done; every call that began ends in the ledger, also after a crash; of what
// is asked the packets keep what the descriptor allows and never a value of a secret. Admin work
// goes on while the stop switch is on and where the disk is full: rights can be taken back then.
//
// It must never import a surface (gateway/front) or a room whose work it carries out: surfaces hand
// it the work.
package admin
