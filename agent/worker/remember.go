package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/agent/worker/memory"
	"github.com/handrail-dev/handrail/agent/worker/router"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/fact"
)

// Bounds of what is remembered.
const (
	MaxFound  = 8   // facts that a turn is given because of its message
	MaxListed = 20  // facts that a turn is given that asks for all
	maxLines  = 200 // of the conversation that post-hooks see
)

// Fact is one thing that is remembered.
type Fact struct {
	ID          string           `json:"fact_id"`
	Text        string           `json:"text"`
	Sensitivity fact.Sensitivity `json:"sensitivity"`
}

// Memory is what a gateway keeps for this worker's principal. Nobody but the engine uses it, before
// a turn and after it (S2-12, S2-13): no tool reads or writes it.
type Memory interface {
	// Find returns the facts with words of a text, the best first; for "", the newest.
	Find(ctx context.Context, text string, limit int) ([]Fact, error)
	// Keep remembers a text of the person; agreed says that they were asked.
	// It expires then, if that is not zero.
	Keep(ctx context.Context, key memory.Key, text, source string, agreed bool, expires time.Time) (Fact, error)
	Forget(ctx context.Context, id string) error
}

// Outcomes of a wish.
const (
	NotedKept      = "kept"
	NotedForgotten = "forgotten"
	NotedDeclined  = "declined" // the person said no, or nobody could be asked
	NotedRefused   = "refused"  // it is kept by nobody's wish
	NotedUnknown   = "unknown"  // nothing that is remembered fits
)

// Noted is what came of one wish.
type Noted struct {
	Status  string    `json:"status"`
	Fact    string    `json:"fact_id,omitempty"`
	Text    string    `json:"text,omitempty"`
	Why     string    `json:"why,omitempty"`
	Expires time.Time `json:"expires_at,omitzero"` // of one that is kept until then
}

// prefetch finds what is remembered that may matter to a message (S2-12).
func (e *Engine) prefetch(ctx context.Context, found router.Found) ([]Fact, error) {
	if e.opts.Memory == nil {
		return nil, nil
	}
	facts, err := e.opts.Memory.Find(ctx, found.Text, MaxFound)
	if err == nil && len(facts) == 0 && found.Intent == intent.MemoryRead {
		facts, err = e.opts.Memory.Find(ctx, "", MaxListed)
	}
	return facts, err
}

// say adds a turn to the conversation. A later step of a message points at no step before it: "read
// the page and remember it" has no fact of the person's.
func (e *Engine) say(found router.Found, x *execution, answer string) {
	message := found.Text
	if found.Step > 1 {
		e.lines = append(e.lines, memory.Line{Who: memory.Person})
	}
	for _, m := range x.turn.Messages[1:] {
		e.lines = append(e.lines, memory.Line{Who: memory.Data, Text: string(m.Result.Output)})
	}
	if answer != "" {
		e.lines = append(e.lines, memory.Line{Who: memory.Agent, Text: answer})
	}
	e.lines = append(e.lines, memory.Line{Who: memory.Person, Text: message})
	e.lines = e.lines[max(0, len(e.lines)-maxLines):]
	e.talk = append(e.talk, Said{true, message})
	if answer != "" {
		e.talk = append(e.talk, Said{false, answer})
	}
	size := 0
	for i := len(e.talk) - 1; i >= 0; i-- {
		if size += len(e.talk[i].Text); size > maxBefore {
			e.talk = e.talk[i+1:]
			break
		}
	}
}

// remember is the post-hook that writes the wishes of the person in this turn, and nothing that
// anybody else said (S2-37, S2-38). It asks about a private fact, and about what the answer
// proposes to remember if the person said it (S2-40).
func (e *Engine) remember(ctx context.Context) ([]Noted, error) {
	if e.opts.Memory == nil {
		return nil, nil
	}
	var all []Noted
	for _, w := range memory.Asked(e.lines) {
		noted, err := e.grant(ctx, w, false)
		if err != nil {
			return all, err
		}
		all = append(all, noted)
	}
	if text := memory.Proposed(e.lines); text != "" && len(all) == 0 {
		noted, err := e.grant(ctx, memory.Wish{Text: text}, true)
		if err != nil {
			return all, err
		}
		all = append(all, noted)
	}
	if len(all) > 0 {
		e.tell(StageMemory, all)
	}
	return all, nil
}

// grant carries out a wish; asks says that it is the answer's, so that the person decides.
func (e *Engine) grant(ctx context.Context, w memory.Wish, asks bool) (Noted, error) {
	if w.Forget {
		return e.forget(ctx, w.Text)
	}
	judged, agreed, proposed := fact.Judge(w.Text), false, asks
	private := judged.Sensitivity == fact.High
	why := "the answer proposed it, and nobody can be asked here whether to keep it"
	if private {
		why, asks = "it is private, and nobody can be asked here whether to keep it", true
	}
	switch {
	case judged.Credential:
		return Noted{Status: NotedRefused, Why: "a password, a key or a number to pay by is not remembered"}, nil
	case asks && e.opts.Agree == nil:
		return Noted{Status: NotedDeclined, Text: w.Text, Why: why}, nil
	case asks:
		var err error
		if agreed, err = e.opts.Agree(ctx, w.Text, private); err != nil {
			return Noted{}, err
		}
		if !agreed {
			return Noted{Status: NotedDeclined, Text: w.Text, Why: "you did not want it kept"}, nil
		}
	}
	key, expires := memory.KeyOf(w.Text), memory.Until(w.Text, e.opts.Now().Local())
	if !expires.IsZero() {
		key.Attribute += ", for a time" // what holds after that stays
	}
	kept, err := e.opts.Memory.Keep(ctx, key, w.Text, e.said(proposed), agreed, expires)
	if c := capabilities.CodeOf(err); c == capabilities.CodeForbidden || c == capabilities.CodeAcknowledgementRequired {
		return Noted{Status: NotedRefused, Why: err.Error()}, nil
	}
	if err != nil {
		return Noted{}, fmt.Errorf("what you asked to remember: %w", err)
	}
	e.last = kept.ID
	return Noted{Status: NotedKept, Fact: kept.ID, Text: kept.Text, Expires: expires}, nil
}

func (e *Engine) forget(ctx context.Context, text string) (Noted, error) {
	which := Fact{ID: e.last}
	if text != "" {
		found, err := e.opts.Memory.Find(ctx, text, 1)
		if err != nil {
			return Noted{}, err
		}
		if len(found) == 0 {
			return Noted{Status: NotedUnknown, Text: text, Why: "nothing that is remembered has these words"}, nil
		}
		which = found[0]
	}
	if which.ID == "" {
		return Noted{Status: NotedUnknown, Why: "nothing was kept in this conversation"}, nil
	}
	if err := e.opts.Memory.Forget(ctx, which.ID); err != nil && capabilities.CodeOf(err) != capabilities.CodeNotFound {
		return Noted{}, err
	}
	e.last = ""
	return Noted{Status: NotedForgotten, Fact: which.ID, Text: which.Text}, nil
}

func writes(all []Noted) (n int) {
	for _, noted := range all {
		if noted.Status == NotedKept || noted.Status == NotedForgotten {
			n++
		}
	}
	return n
}

func idsOf(facts []Fact) []string {
	ids := make([]string, 0, len(facts))
	for _, f := range facts {
		ids = append(ids, f.ID)
	}
	return ids
}
