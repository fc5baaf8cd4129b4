//go:build linux

package console

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
)

// A person who signed in a while ago watches their own device once a passkey of theirs says so,
// with the person verified, and once: nothing is shown before, and the next time asks again.
func TestAnOldSessionWatchesWithAPasskey(t *testing.T) {
	w := startWatched(t, "800x608")
	w.screen.Xterm()
	w.asAdmin(true)
	owner := capabilities.PrincipalID("ann")
	_, err := w.Nodes.Change(t.Context(), w.node.ID, nodes.Edit{By: "site", Owner: &owner})
	must(t, err)
	must(t, w.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE token SET created_at = created_at - $1 WHERE parent <> ''`, 2*principal.FreshFor.Milliseconds())
		return err
	}))
	w.Restart()
	w.node.AwaitReady("tyrum.live.screen")
	pixels := func() string { return w.value(`document.getElementById("screen").videoWidth`) }
	const confirm = "#live [data-question] form[data-passkey] button"
	w.open(w.named() + "/console/live/" + string(w.node.ID))
	must(t, w.run(`document.getElementById("watch").click()`, nil))
	w.await(`document.querySelector("` + confirm + `") && !document.querySelector("#live [data-question] button[value=call]")`)
	if got := w.value(`document.querySelector("#live [data-question]").innerText.includes("a=fingerprint")`); got != "false" {
		t.Error("the question shows the viewer's connection before anybody asks for it")
	}
	// A press without the passkey, sent all the same, opens nothing.
	id := w.Consent.Approvals()[0].ID
	if got := w.fetch("/console/approvals/"+id, "answer=call"); got != "403" || pixels() != "0" {
		t.Errorf("without a passkey: %s, %s pixels wide", got, pixels())
	}
	w.await(`!("settling" in document.body.dataset)`)
	w.pushes(confirm)
	w.await(`document.getElementById("watch-state").textContent === "Live."`)
	w.await(`document.getElementById("screen").videoWidth === 800`)
	list, err := w.Ledger.Packets(t.Context(), ledger.Query{Kind: "gateway.approval.answered", Limit: 10})
	must(t, err)
	if len(list) != 1 || !strings.Contains(string(list[0].Body), `"via":"owner"`) || !strings.Contains(string(list[0].Body), `"known_by":"passkey"`) {
		t.Errorf("recorded: %+v", list)
	}
	must(t, w.run(`document.getElementById("watch").click()`, nil))
	w.await(`document.getElementById("watch-state").textContent === "You stopped watching."`)
	must(t, w.run(`document.getElementById("watch").click()`, nil))
	w.await(`document.querySelector("` + confirm + `")`)
	if n := len(w.Consent.Grants()); n != 0 {
		t.Errorf("%d grants are left of one yes", n)
	}
}
