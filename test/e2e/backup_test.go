package e2e

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/fact"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/backup"
	"github.com/handrail-dev/handrail/gateway/knowledge"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/test/site"
)

// keep makes a backup of a folder of a gateway, sealed to a key.
func keepBackup(t *testing.T, dir string) (sealed []byte, opens backup.Key) {
	t.Helper()
	text, public, err := backup.NewKey()
	must(t, err)
	lock, err := backup.ByKeys(public)
	must(t, err)
	opens, err = backup.OfKeyFile(text)
	must(t, err)
	var w bytes.Buffer
	_, err = backup.Make(t.Context(), &w, backup.Options{Dir: dir, Lock: lock, Version: "test", Artifacts: true, Now: time.Now()})
	must(t, err)
	return w.Bytes(), opens
}

// unpacked returns the folder of a gateway that a backup becomes.
func unpacked(t *testing.T, sealed []byte, opens backup.Key) (dir string, generation uint64) {
	t.Helper()
	dir = privateDir(t)
	a, err := backup.Open(bytes.NewReader(sealed), opens)
	must(t, err)
	must(t, gateway.SchemaKnown(a))
	must(t, a.Unpack(t.Context(), dir))
	generation, err = gateway.Restored(t.Context(), dir, a.Manifest, nil)
	must(t, err)
	return dir, generation
}

// A site moves to another folder by a backup that was made while calls ran: its node is let in
// without pairing, the record verifies, what was granted is over. The copy that stayed behind hears
// of the move by that node, ends, and does not start again.
func TestASiteMovesByItsBackup(t *testing.T) {
	h, _, n := one(t)
	h.Grant("agent", n, string(site.ToolEcho))
	running, stop := context.WithCancel(ctx())
	var calls sync.WaitGroup
	var made sync.WaitGroup
	made.Add(3)
	for k := range 3 {
		calls.Go(func() {
			for i := 0; running.Err() == nil; i++ {
				if r := h.by("agent", capabilities.LaneID("l"+strconv.Itoa(k)), site.ToolEcho, text(strconv.Itoa(i)), ""); r.Status != capabilities.StatusOK {
					t.Errorf("a call beside the backup: %s %s", r.Code, r.Message)
					break
				}
				if i == 0 {
					made.Done()
				}
			}
		})
	}
	made.Wait() // calls run
	old := h.Dir
	sealed, opens := keepBackup(t, old)
	stop()
	calls.Wait()
	if _, err := os.Stat(filepath.Join(old, backup.SnapshotName)); err == nil {
		t.Error("the copy of the store stayed in the gateway's folder")
	}

	dir, first := unpacked(t, sealed, opens)
	_, second := unpacked(t, sealed, opens)
	if first == 0 || second <= first {
		t.Errorf("restored as generations %d and %d", first, second)
	}
	site0 := h.Site.Gateway.Site()
	h.Move(dir)
	newCaller(t, h.URL(), "").awaitHealth()
	if h.Site.Gateway.Site() != site0 {
		t.Errorf("site %s became %s", site0, h.Site.Gateway.Site())
	}
	n.AwaitReady()
	want(t, h.by("agent", "l0", site.ToolEcho, text("after"), ""), capabilities.StatusOK, "")
	if grants := h.Consent.Grants(); len(grants) != 0 {
		t.Errorf("grants of before the backup hold: %v", grants)
	}
	packets, err := h.Ledger.Packets(ctx(), ledger.Query{Kind: "gateway.site.restored"})
	must(t, err)
	if len(packets) != 1 {
		t.Errorf("%d packets say that the site was restored", len(packets))
	}

	// The old copy at the same address: the node tells it, and it ends.
	err = h.Stray(old)
	if capabilities.CodeOf(err) != capabilities.CodeSiteSuperseded || !strings.Contains(err.Error(), strconv.FormatUint(first, 10)) {
		t.Fatalf("the old copy ended with %v", err)
	}
	// And again: it does not start, node or no node.
	n.Stop()
	if err := h.Stray(old); capabilities.CodeOf(err) != capabilities.CodeSiteSuperseded {
		t.Errorf("the old copy started again: %v", err)
	}
	h.Move(dir)
	newCaller(t, h.URL(), "").awaitHealth()
	n.Start()
}

// A node remembers over restarts that it has met a later copy, and tells the older one.
func TestANodeRefusesAnOlderCopy(t *testing.T) {
	h, _, n := one(t)
	sealed, opens := keepBackup(t, h.Dir)
	older, _ := unpacked(t, sealed, opens)
	later, generation := unpacked(t, sealed, opens)
	h.Move(later)
	n.AwaitReady()
	n.Stop()
	// The node remembers it over restarts.
	data, err := os.ReadFile(filepath.Join(n.Dir, "identity.json"))
	must(t, err)
	if !strings.Contains(string(data), strconv.FormatUint(generation, 10)) {
		t.Fatalf("the node keeps no generation %d: %s", generation, data)
	}
	n.Start()
	err = h.Stray(older)
	if capabilities.CodeOf(err) != capabilities.CodeSiteSuperseded {
		t.Errorf("the older copy ended with %v", err)
	}
	n.Stop() // it waits long before it tries again where an older copy answered
	h.Move(later)
	n.Start()
}

// A fact that was forgotten is in no backup that is made later.
func TestForgottenFactsAreNotInLaterBackups(t *testing.T) {
	const words = "Xylophonist Quetzalcoatl lives at Elderberry Lane"
	h := start(t, site.Options{})
	f, err := h.Knowledge.Put(ctx(), knowledge.Fact{
		Principal: "agent", Subject: "neighbour", Attribute: "home", Text: words, Source: "test", Confidence: 1, Sensitivity: fact.Low, Agreed: true,
	})
	must(t, err)
	has := func() bool {
		sealed, opens := keepBackup(t, h.Dir)
		dir, _ := unpacked(t, sealed, opens)
		for _, name := range []string{"store.db", "store.db-wal"} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil && (bytes.Contains(data, []byte(words)) || bytes.Contains(bytes.ToLower(data), []byte("quetzalcoatl"))) {
				return true
			}
		}
		return false
	}
	if !has() {
		t.Fatal("a fact that is kept is not in the backup: this test sees nothing")
	}
	must(t, h.Knowledge.Forget(ctx(), "agent", f.ID))
	if has() {
		t.Error("a forgotten fact is in a later backup")
	}
}
