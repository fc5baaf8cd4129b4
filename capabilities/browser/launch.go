package browser

import (
	"github.com/handrail-dev/handrail/capabilities"
	"slices"
)

// way says in which browser a lane works: the node's own with a fresh context
// (the zero value, visible), one with a profile that lasts, or the person's.
type way struct {
	headless bool
	profile  string
	home     string // the profile's folder
	attach   bool
}

// launch carries out tyrum.browser.launch.
func launch(c *call) (capabilities.Output, error) {
	var args struct {
		Headless *bool  `json:"headless"`
		Profile  string `json:"profile"`
		Attach   bool   `json:"attach"`
		State    string `json:"storage_state"`
	}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if (args.Profile != "" || args.State != "" || args.Attach) && !c.mayPersist() {
		return capabilities.Output{}, errNoPersist
	}
	l := c.lane
	l.mu.Lock()
	want, before := l.way, l.way
	l.mu.Unlock()
	if args.Headless != nil {
		want.headless = *args.Headless
	}
	if args.Profile != "" {
		want.profile, want.home, want.attach = args.Profile, "", false
	}
	if args.Attach {
		want = way{attach: true}
	}
	if err := c.h.allowed(want, args.Profile, args.State); err != nil {
		return capabilities.Output{}, err
	}
	if want.profile != "" {
		home, err := c.h.kept(profiles, c.inv.Principal, want.profile)
		if err != nil {
			return capabilities.Output{}, err
		}
		want.home = home
	}
	var state *storageState
	if args.State != "" {
		path, err := c.h.kept(states, c.inv.Principal, args.State)
		if err == nil {
			state, err = loadState(path, args.State)
		}
		if err != nil {
			return capabilities.Output{}, err
		}
	}
	if want != before {
		gone := l.reset() // another browser, another process
		select {
		case <-gone:
		case <-c.ctx.Done():
			return capabilities.Output{}, c.ctx.Err()
		}
		l.mu.Lock()
		l.way = want
		l.mu.Unlock()
	}
	chrome, err := l.ready(c.ctx)
	if err == nil && state != nil {
		c.h.windows(l) // it may come from one
		err = c.restore(chrome, state)
	}
	if err == nil {
		c.tab, err = l.current(c.ctx, true)
	}
	if err != nil {
		if want != before {
			l.mu.Lock()
			l.way = way{headless: true} // so that the next call works
			l.mu.Unlock()
		}
		return capabilities.Output{}, err
	}
	out := capabilities.Output{
		Result: struct {
			Headless bool   `json:"headless"`
			Browser  string `json:"browser"`
			Version  string `json:"version,omitempty"`
			Profile  string `json:"profile,omitempty"`
			Attached bool   `json:"attached,omitempty"`
		}{chrome.Headless, "chromium", chrome.Version, want.profile, want.attach},
		Effect: capabilities.EffectConfirmed, Evidence: "the browser answers",
	}
	if state != nil {
		out.Evidence = "the browser answers and holds the stored state"
	}
	return out, nil
}

// allowed says why the owner's settings or the arguments leave no such way.
func (h *Handler) allowed(w way, profile, state string) error {
	switch {
	case w.attach && (profile != "" || state != ""):
		return capabilities.Errorf(capabilities.CodeInvalidArguments,
			"attach goes without profile and storage_state: the person's browser has its own.").
			WithHint("Leave the others out.")
	case w.attach && h.attach == nil:
		return capabilities.Errorf(capabilities.CodeDeniedByNode, "The node's owner does not let calls attach to a running Chrome.").
			WithAction(capabilities.Action{Key: capabilities.ActionAllowAttach}, "Launch without attach, or have the owner allow it.")
	case w.attach && h.rules.Limited():
		return capabilities.Errorf(capabilities.CodeIsolationUnavailable,
			"The owner's domain lists cannot be held in a person's Chrome, so there is no attaching here.").
			WithHint("Launch without attach.")
	case (w.profile != "" || state != "") && h.o.StateDir == "":
		return capabilities.Errorf(capabilities.CodeNotSupported, "This node keeps no profiles and no storage states.").
			WithHint("Launch without profile and storage_state.")
	case profile != "" && !stateName.MatchString(profile), state != "" && !stateName.MatchString(state):
		return errStateName
	}
	return nil
}

// mayPersist reports whether this call may keep what outlives its lane, or take up
// what another one kept: policy can withhold that key alone.
func (c *call) mayPersist() bool { return slices.Contains(c.inv.Grants, "ui.session.persist_state") }

var errNoPersist = capabilities.Errorf(capabilities.CodeDeniedByPolicy, "Policy withholds ui.session.persist_state from this call.").
	WithHint("Leave out profile, attach and storage states.")

// closeBrowser carries out tyrum.browser.close: the lane's context goes with all
// it held; Chrome itself stays for the other lanes, or ends soon after.
func closeBrowser(c *call) (capabilities.Output, error) {
	var args struct {
		Save string `json:"save_storage_state"`
	}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	l := c.lane
	if args.Save != "" && !c.mayPersist() {
		return capabilities.Output{}, errNoPersist
	}
	if args.Save != "" {
		if err := c.saveState(args.Save); err != nil {
			return capabilities.Output{}, err // and nothing is closed
		}
	}
	l.mu.Lock()
	had, profile := l.chrome != nil, l.way.profile
	l.retired = true
	l.mu.Unlock()
	gone := l.end()
	c.h.forgetLane(l)
	select {
	case <-gone: // a profile is kept by now
	case <-c.ctx.Done():
		return capabilities.Output{}, c.ctx.Err()
	}
	out := capabilities.Output{
		Result: struct{}{}, Effect: capabilities.EffectConfirmed, Evidence: "the lane's tabs, cookies and refs are gone",
	}
	switch {
	case !had:
		out.Evidence = "no browser was open in this lane"
	case args.Save != "":
		out.Evidence = "the storage state is kept; the lane's tabs, cookies and refs are gone"
	case profile != "":
		out.Evidence = "the profile is kept; its browser has ended"
	}
	return out, nil
}
