package board

import (
	"context"
	"errors"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
)

// news is one look at the gateway.
type news struct {
	approvals []api.Approval
	calls     []api.Call
	stop      api.Stop
	err       error
}

func lookAround(ctx context.Context, g Gateway) (n news) {
	if n.approvals, n.err = g.Approvals(ctx); n.err != nil {
		return n
	}
	if n.calls, n.err = g.Calls(ctx, 50); n.err != nil {
		return n
	}
	n.stop, n.err = g.Stopped(ctx)
	return n
}

func publicText(err error) string {
	var coded *capabilities.Error
	if errors.As(err, &coded) {
		return coded.PublicMessage()
	}
	return err.Error()
}

// do asks the gateway and says how it went.
func (d *deed) do(ctx context.Context, g Gateway, w Words) string {
	var err error
	done := ""
	if len(d.together) > 0 {
		return d.doTogether(ctx, g, w)
	}
	switch d.what {
	case "allow":
		done = "allowed " + d.approval.ID + " once"
		_, err = g.Answer(ctx, d.approval.ID, client.Answer{Allow: true, Acknowledged: d.acknowledges, Kind: "call"})
	case "lease":
		done = "allowed " + string(d.approval.Tool) + " for five minutes"
		_, err = g.Answer(ctx, d.approval.ID, client.Answer{Allow: true, Acknowledged: d.acknowledges, Kind: "lease", For: 5 * time.Minute})
	case "family":
		done = "allowed all " + w.Family(string(d.approval.Tool)) + " tools for five minutes"
		_, err = g.Answer(ctx, d.approval.ID,
			client.Answer{Allow: true, Acknowledged: d.acknowledges, Kind: "lease", Family: true, For: 5 * time.Minute})
	case "deny":
		done = "denied " + d.approval.ID
		_, err = g.Answer(ctx, d.approval.ID, client.Answer{})
	case "stop":
		var h api.Halted
		if h, err = g.Stop(ctx, ""); err == nil {
			done = "everything is stopped: " + w.Count(h.Calls, "call") + " ended, " + w.Count(h.Grants, "grant") + " revoked"
		}
	case "resume":
		done = "resumed: calls may run again"
		_, err = g.Resume(ctx, "")
	}
	if err != nil {
		return publicText(err)
	}
	return done
}

// doTogether sends one answer to all questions of a task.
func (d *deed) doTogether(ctx context.Context, g Gateway, w Words) string {
	a, done := client.Answer{}, "denied "
	switch d.what {
	case "allow":
		a, done = client.Answer{Allow: true, Acknowledged: d.acknowledges, Kind: "call"}, "allowed once: "
	case "lease", "family":
		a, done = client.Answer{
			Allow: true, Acknowledged: d.acknowledges, Kind: "lease", Family: d.what == "family", For: 5 * time.Minute,
		}, "allowed for five minutes: "
	}
	answered, err := g.AnswerTogether(ctx, d.together, a)
	done += w.Count(len(answered), "question")
	if err != nil {
		return done + "; one was not answered: " + publicText(err)
	}
	return done
}

// followEvents looks around after every event, and again when the gateway comes
// back.
func followEvents(ctx context.Context, g Gateway, look chan struct{}, send func(news)) {
	soon := func() error {
		select {
		case look <- struct{}{}:
		default: // one is due already, and will see this, too
		}
		return nil
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-look:
			}
			send(lookAround(ctx, g))
			select { // many events in a row are one look
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
	}()
	for ctx.Err() == nil {
		_ = g.Events(ctx, 0, soon, func(client.Event) error { return soon() }) // whatever ended it, the next look says what is wrong
		_ = soon()
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}
