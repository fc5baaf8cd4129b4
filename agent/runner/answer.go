package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"

	"github.com/handrail-dev/handrail/agent/spool"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// answer makes the answer that leaves, with the bytes that its Blobs announce, and has the
// journal record it as the call's end.
func (s *started) answer(ctx context.Context, o output) (wire.Answer, [][]byte) {
	a := o.answer
	blobs := announce(&a, o.given.Blobs)
	if !s.fits(&a) {
		blobs = nil
	}
	if e := keepArtifacts(s.spool, &a, o.given.Artifacts); e != nil {
		s.log.Error("call.artifacts", "err", e)
		a, blobs = refusal(e), nil
		a.Effect, a.Isolation = o.given.Effect, s.ready.Isolation
	}
	s.finished(&a)
	s.log.InfoContext(ctx, "call.finished", "hop", capabilities.HopRun, "status", a.Status, "code", a.Code, "effect", a.Effect)
	return a, blobs
}

// announce has an answer say which bytes follow it, and returns them. Only a call that did
// what was asked has any.
func announce(a *wire.Answer, given []capabilities.Blob) [][]byte {
	if a.Status != capabilities.StatusOK {
		return nil
	}
	blobs := make([][]byte, 0, len(given))
	for _, b := range given {
		a.Blobs = append(a.Blobs, wire.BlobHead{Field: b.Field, MIME: b.MIME, Size: uint32(len(b.Bytes)), SHA256: sha256.Sum256(b.Bytes)})
		blobs = append(blobs, b.Bytes)
	}
	return blobs
}

// fits makes an error of an answer that its caller may not get as it is: too large, or
// not what the tool's schema promises.
func (s *started) fits(a *wire.Answer) bool {
	a.Clip()
	if len(a.Output) > s.tool.Limits.MaxResultBytes {
		a.Status, a.Code, a.Output, a.Blobs = capabilities.StatusError, capabilities.CodeResultTooLarge, nil, nil
	}
	if a.Status != capabilities.StatusOK {
		return false
	}
	if bad := s.tool.ValidateResult(a.Output); len(bad) > 0 {
		s.log.Error("call.result_invalid", "violations", bad)
		a.Status, a.Code = capabilities.StatusError, capabilities.CodeInternal
		a.Message = "The tool returned a result that does not fit its own schema."
		a.Output, a.Blobs = nil, nil
		return false
	}
	return true
}

// keepArtifacts keeps what an answer names in the spool and drops all else. Only a call that
// did what was asked leaves artifacts.
func keepArtifacts(kept *spool.Call, answer *wire.Answer, named []capabilities.Artifact) *capabilities.Error {
	if answer.Status != capabilities.StatusOK {
		named = nil
	}
	if kept == nil {
		if len(named) > 0 {
			return capabilities.Errorf(capabilities.CodeInternal, "the tool names a file that it did not commit")
		}
		return nil
	}
	if err := kept.Settle(named); err != nil {
		return capabilities.AsError(err)
	}
	for _, a := range named {
		sum, err := a.ID.Sum()
		if err != nil {
			return capabilities.AsError(err)
		}
		answer.Artifacts = append(answer.Artifacts, wire.ArtifactHead{ID: sum, Name: a.Name, MIME: a.MIME, Size: uint64(a.Size), Field: a.Field})
	}
	return nil
}

// answerOf makes the answer of what a handler returned. Why its context ended wins
// over the error that ending caused inside it.
func answerOf(ctx context.Context, out capabilities.Output, err error) wire.Answer {
	if err == nil {
		return success(out)
	}
	failure := capabilities.AsError(err)
	if ctx.Err() != nil {
		var cause *capabilities.Error
		if !errors.As(context.Cause(ctx), &cause) {
			// The gateway gives a reason with what it ends: this is the node's own end.
			cause = capabilities.Errorf(capabilities.CodeCancelled, "the node was shut down while the call ran").
				WithHint("Look at the device's state; call again when the node is back.")
		}
		// The handler's own words about its deadline are more telling than ours.
		if failure.Code != cause.Code {
			failure = cause
		}
	} else if failure.Code == capabilities.CodeInternal && !errors.Is(err, &capabilities.Error{Code: capabilities.CodeInternal}) {
		failure = capabilities.Wrap(capabilities.CodeExecutionFailed, err, "")
	}
	answer := refusal(failure)
	answer.Untrusted = out.Untrusted // strangers' words stand in errors, too
	if out.Effect != "" {
		answer.Effect, answer.Evidence = out.Effect, out.Evidence
	}
	return answer
}

// success is the answer of a call that did what was asked, without its bytes.
func success(out capabilities.Output) wire.Answer {
	body := []byte("{}")
	if out.Result != nil {
		var err error
		if body, err = encode(out.Result); err != nil {
			return refusal(capabilities.Wrap(capabilities.CodeInternal, err, "The tool's result cannot be encoded."))
		}
	}
	a := wire.Answer{
		Status: capabilities.StatusOK, Output: body, Effect: out.Effect, Evidence: out.Evidence, Untrusted: out.Untrusted, Hint: out.Hint,
		Action: out.Action,
	}
	if did := out.Did; did != nil && *did != (capabilities.Did{}) {
		a.Did = &wire.Did{Typed: uint32(max(did.Typed, 0)), App: did.App, Fields: uint32(max(did.Fields, 0))}
	}
	return a
}

// encode returns the JSON of a result as a model will read it: a "<" stays one
// character and does not become six.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// refusal is the answer that carries an error.
func refusal(e *capabilities.Error) wire.Answer {
	a := wire.Answer{Status: e.Code.Info().Status, Code: e.Code, Message: e.PublicMessage(), Hint: e.PublicHint(), Action: e.PublicAction()}
	if e.Details != nil {
		if d, err := canonical.Marshal(e.Details); err == nil {
			a.Details = d
		}
	}
	return a
}
