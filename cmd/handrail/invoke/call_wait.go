package invoke

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// askEvery is how often a call that takes longer looks for what it waits for.
const askEvery = time.Second

// ShowQuestions writes to standard error what a call waits for as soon as a person has to answer,
// and the command that answers it, until stop is called: the call, or a step of it. It looks as
// asker, which may not be the caller: agents see no questions. A caller who may not look is told
// nothing.
func ShowQuestions(cmd *cobra.Command, caller, asker *remote.Gateway, o Options, tool string) (stop func()) {
	if terminal.FlagsOf(cmd).JSON || asker == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var who api.Caller
		since := time.Now()
		tick := time.NewTicker(askEvery)
		defer tick.Stop()
		told := map[string]bool{}
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if who.Principal == "" && caller.Get(ctx, remote.Path("whoami"), &who) != nil {
				return
			}
			all, err := asker.Approvals(ctx)
			if err != nil {
				return
			}
			for _, a := range all {
				lane := o.Lane
				if lane == "" {
					lane = string(who.Lane)
				}
				// Steps ask by themselves, after the call began, in its lane.
				step := string(a.Tool) != tool
				if step && a.Created.Before(since) {
					continue
				}
				if a.Principal != who.Principal || string(a.Lane) != lane || a.Waiting == 0 || told[a.ID] {
					continue
				}
				told[a.ID] = true
				if o.Answer == nil || caller == asker || !o.Answer(ctx, a) {
					sayQuestion(cmd, asker, a, caller == asker)
				}
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// sayQuestion names one question; own: the caller asks, who cannot answer it but as the owner
// of the device, in the console.
func sayQuestion(cmd *cobra.Command, asker *remote.Gateway, a api.Approval, own bool) {
	w := cmd.ErrOrStderr()
	data, err := datadir.Of(cmd)
	if err != nil {
		data = ""
	}
	clear := ""
	if terminal.Interactive(w) { // over the line that counts
		clear = "\r\033[K"
	}
	until := a.Expires.Local().Format(terminal.Clock)
	if own && a.Own != nil && a.Own.Owner {
		fmt.Fprintf(w,
			"%sWaiting for you, open until %s: the device is yours, so allow it in the console, %s/console/approvals/%s (sign in: %s).\n", clear,
			until, datadir.ForBrowser(asker.Base.String()), terminal.Plain(a.ID), data.Command("login"))
		return
	}
	if own {
		fmt.Fprintf(w, "%sWaiting for a person: question %s, open until %s. Nobody answers their own; another person does with 'handrail "+
			"approve %s' or in the console.\n", clear, terminal.Plain(a.ID), until, terminal.Plain(a.ID))
		return
	}
	fmt.Fprintf(w, "%sWaiting for your answer to question %s, open until %s: %s (or deny).\n", clear, terminal.Plain(a.ID), until,
		data.Command("approve", terminal.Plain(a.ID)))
}
