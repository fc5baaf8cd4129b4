package agent

import (
	"context"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/agent/owner"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// ownerLook is how often a running node looks whether the owner's files changed.
const ownerLook = time.Second

// openOwner reads the owner's rules.
func openOwner(o Options) (*owner.Rules, error) {
	return owner.Open(owner.Options{Dir: o.Dir, Catalog: o.Catalog, Tools: o.toolbox(), Extra: o.OwnerRules, Roots: o.UploadRoots, Log: o.Log})
}

// openDesk makes what asks the person at this device. Their answers are in the
// node's log before the call is.
func (a *Agent) openDesk() (*owner.Desk, error) {
	return owner.NewDesk(owner.DeskOptions{Dir: a.opts.Dir, Show: a.opts.OnQuestion, Log: a.opts.Log, Record: func(e owner.Event) error {
		return a.journal.Answered(e.Call.Call, e.Call.Tool, e.Call.Lane, e.Call.Principal, e.Approved, e.By, e.For)
	}})
}

// shown returns what a person may see of a call's arguments.
func shown(find func(capabilities.ToolID) (*catalog.Descriptor, bool)) func(capabilities.ToolID, []byte) map[string]any {
	return func(tool capabilities.ToolID, args []byte) map[string]any {
		d, ok := find(tool)
		if !ok {
			return nil
		}
		return d.EvidenceArgs(args)
	}
}

// turned has the node's log say who stopped the device or let it go on. A stop
// takes back what the person had allowed on the device.
func (a *Agent) turned(stopped bool) {
	if _, on := a.stop.State(); on {
		a.stoppedBy = "device"
	} else if _, on := a.stop.Site(); on {
		a.stoppedBy = "gateway"
	}
	whose := a.stoppedBy
	if a.journal != nil {
		_ = a.journal.Turned(stopped, whose) // it has logged why not
	}
	if stopped && a.desk != nil {
		a.desk.Revoke()
	}
}

// heedRules takes over what the owner writes into the files of rules. A mistake
// leaves the rules as they are, and says so.
func (a *Agent) heedRules(ctx context.Context) error {
	a.noteRules()
	tick := time.NewTicker(ownerLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		changed, err := a.rules.Reload()
		if err != nil {
			a.opts.Log.Error("owner.rules.refused", "err", err, "hint", "the rules in force have not changed")
		}
		if changed {
			a.opts.Log.Warn("owner.rules.changed", "id", a.rules.ID())
			a.noteRules()
		}
	}
}

func (a *Agent) noteRules() { _ = a.journal.Ruled(a.rules.ID()) } // it has logged why not

// readiness is what the handlers say, and what the owner says about it: a
// capability that is never allowed is not offered.
func (a *Agent) readiness(ctx context.Context) []capabilities.Readiness {
	return a.owned(a.runner.Readiness(ctx))
}

// owned takes from what handlers say of themselves what the owner switched off.
func (a *Agent) owned(all []capabilities.Readiness) []capabilities.Readiness {
	for i := range all {
		r := &all[i]
		if !r.Ready() {
			continue
		}
		if m, why := a.rules.Setting(r.Capability.Tool()); m == owner.ModeNever {
			r.Reason, r.Fix = capabilities.ReasonOwnerDisabled, strings.ToUpper(why[:1])+why[1:]+"; it is in owner.json on the device."
		}
	}
	return all
}

func (a *Agent) refused(t *wire.Ticket, e *capabilities.Error) {
	if e.Code != capabilities.CodeApprovalPending { // that call comes again
		a.journal.Refused(t, e.Code)
		a.runs.began(t)
		a.runs.ended(t.Call, &wire.Answer{Status: capabilities.StatusDenied, Code: e.Code})
	}
}

// Read is what the owner's file says about a page's reading that file; nil: it may.
func (a *Agent) Read(path string) *capabilities.Error { return a.rules.Read(path) }

// Whole is what the owner's file says about giving a program that whole folder; nil: it may be.
func (a *Agent) Whole(folder string) *capabilities.Error { return a.rules.Whole(folder) }
