package dispatch

import (
	"context"
	"io"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/outcome"
)

const (
	// stalledAfter is how long an artifact may come no further (its node is away, say)
	// before it is given up.
	stalledAfter = 45 * time.Second
	// fetchAgain is how long after a cut the next attempt follows, if nothing changed.
	fetchAgain = 250 * time.Millisecond
	// maxFetching bounds the artifacts on their way at once.
	maxFetching = 16
	// inlineMost is up to what size an artifact also fills the field it stands for.
	inlineMost = capabilities.InlineBytes
)

// collect brings in what the answer names, before the call's end is recorded: a
// result names only what is there, whole and verified, or says why it is not. If the
// gateway ends first the call is left open, and the next process goes on with it.
func (d *Dispatcher) collect(ctx context.Context, c *openCall, e *opencalls.End, report func(capabilities.Progress)) {
	heads := e.Answer.Artifacts
	if e.Err != nil || e.Answer.Status != capabilities.StatusOK || len(heads) == 0 {
		return
	}
	total := uint64(0)
	for _, h := range heads {
		total += h.Size
	}
	var refused *capabilities.Error
	switch {
	case c.desc == nil: // conclude says so
		return
	case d.opts.Artifacts == nil || d.opts.Fetcher == nil:
		refused = &capabilities.Error{Code: capabilities.CodeArtifactUnavailable}
	case c.has(capabilities.KeyMasked) && !e.Answer.Masks: // the program of that node is older than the key
		refused = &capabilities.Error{Code: capabilities.CodeArtifactUnavailable}
	case total > uint64(c.desc.Limits.MaxArtifactBytes):
		refused = &capabilities.Error{Code: capabilities.CodeResultTooLarge}
	}
	done := uint64(0)
	for _, h := range heads {
		a := capabilities.Artifact{ID: capabilities.ArtifactIDOf(h.ID), Name: h.Name, MIME: h.MIME, Size: int64(h.Size), Field: h.Field}
		err := refused
		if err == nil {
			err = d.bring(ctx, c, h, func(got int64) {
				if report != nil {
					report(capabilities.Progress{Done: float64(done) + float64(got), Total: float64(total), Message: "receiving " + h.Name})
				}
			})
		}
		if err == errGatewayEnds {
			*e = opencalls.End{Err: &capabilities.Error{Code: capabilities.CodeUnknownOutcome}, LeaveOpen: true}
			return
		}
		if err != nil {
			a.Code = err.Code
			d.opts.Log.Warn("artifact.missing", "hop", capabilities.HopRecord, "call", c.id, "tool", c.tool, "node", c.node, "artifact", a.ID,
				"code", err.Code, "cause", err.Unwrap())
			d.forget(c, h)
		}
		e.Artifacts = append(e.Artifacts, a)
		done += h.Size
	}
	d.inline(c, e)
}

// errGatewayEnds is what bring returns when this process has to leave it to the next.
var errGatewayEnds = &capabilities.Error{Code: capabilities.CodeUnknownOutcome}

// bring fetches one artifact, over as many streams as it takes.
func (d *Dispatcher) bring(ctx context.Context, c *openCall, h wire.ArtifactHead, report func(int64)) *capabilities.Error {
	select {
	case d.fetching <- struct{}{}:
		defer func() { <-d.fetching }()
	case <-ctx.Done():
		return because(ctx, &capabilities.Error{Code: capabilities.CodeCancelled})
	case <-d.serving.Done():
		return errGatewayEnds
	}
	node := c.node
	in, err := d.opts.Artifacts.Receive(ctx, outcome.Kept{
		Artifact: capabilities.Artifact{ID: capabilities.ArtifactIDOf(h.ID), Name: h.Name, MIME: h.MIME, Size: int64(h.Size), Field: h.Field},
		Call:     c.id, Principal: c.principal, Lane: c.lane, Node: node, Tool: c.tool,
		Extended: c.has(capabilities.KeyRetained),
	})
	if err != nil {
		return notArrived(err)
	}
	leave := false
	defer func() { in.Close(!leave) }()
	fetchCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends, ended := make(chan struct{}), make(chan struct{})
	defer func() { close(ends); <-ended }() // nothing is reported, or read of in, any more
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-d.serving.Done():
				cancel()
				return
			case <-ends:
				return
			case <-tick.C:
				report(in.Received())
			}
		}
	}()
	last, moved := int64(-1), time.Now()
	for !in.Done() {
		changed := d.opts.Nodes.Changed()
		err := d.opts.Fetcher.Fetch(fetchCtx, node, c.id, h.ID, in)
		if in.Done() {
			break
		}
		select {
		case <-d.serving.Done():
			leave = true
			return errGatewayEnds
		default:
		}
		if ctx.Err() != nil {
			return because(ctx, &capabilities.Error{Code: capabilities.CodeCancelled})
		}
		if capabilities.CodeOf(err) != capabilities.CodeNodeDisconnected {
			return notArrived(err)
		}
		if now := in.Received(); now > last {
			last, moved = now, time.Now()
		}
		if time.Since(moved) > stalledAfter || opencalls.PutOut(nodeByID(d.opts.Nodes.Snapshot(), node)) {
			return notArrived(err)
		}
		again := time.NewTimer(fetchAgain)
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
		case <-d.serving.Done():
		}
		again.Stop()
	}
	return nil
}

// notArrived returns the code that stands where an artifact does not.
func notArrived(err error) *capabilities.Error {
	if capabilities.CodeOf(err) == capabilities.CodeArtifactSpace {
		return capabilities.AsError(err)
	}
	return capabilities.Wrap(capabilities.CodeArtifactUnavailable, err, "")
}

// forget spares the node to keep what nobody will fetch. It is not worth a wait.
func (d *Dispatcher) forget(c *openCall, h wire.ArtifactHead) {
	if d.opts.Fetcher == nil || !d.begin() {
		return
	}
	go func() {
		defer d.background.Done()
		ctx, cancel := context.WithTimeout(context.Background(), opencalls.AskWithin)
		defer cancel()
		d.opts.Fetcher.Forget(ctx, c.node, c.id, h.ID)
	}()
}

// inline fills the fields that small artifacts stand for, as the contract has them.
func (d *Dispatcher) inline(c *openCall, e *opencalls.End) {
	room := int64(c.desc.Limits.MaxBlobBytes)
	for _, b := range e.Blobs {
		room -= int64(len(b.Bytes))
	}
	for _, a := range e.Artifacts {
		if a.Field == "" || a.Code != "" || a.Size > min(inlineMost, room) {
			continue
		}
		content, err := d.opts.Artifacts.Open(outcome.Kept{Artifact: a, Call: c.id})
		if err != nil {
			continue
		}
		data := make([]byte, a.Size)
		_, err = io.ReadFull(content, data)
		_ = content.Close()
		if err != nil {
			d.opts.Log.Error("artifact.inline", "call", c.id, "artifact", a.ID, "err", err)
			continue
		}
		room -= a.Size
		e.Blobs = append(e.Blobs, capabilities.Blob{Field: a.Field, MIME: a.MIME, Bytes: data})
	}
}

// missing says which artifact of an answer is not there; nil if all are.
func missing(list []capabilities.Artifact) *capabilities.Error {
	for _, a := range list {
		if a.Code != "" {
			return &capabilities.Error{Code: a.Code}
		}
	}
	return nil
}

func artifactRecords(list []capabilities.Artifact, extended bool) []packet.Artifact {
	retention := ""
	if extended {
		retention = outcome.RetentionExtended
	}
	var out []packet.Artifact
	for _, a := range list {
		out = append(out, packet.Artifact{ID: a.ID, MIME: a.MIME, Size: a.Size, Code: a.Code, Retention: retention})
	}
	return out
}
