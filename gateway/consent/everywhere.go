package consent

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Where several gateways serve at once, a question lies in the memory of the one that asked, whose
// call waits for it. The store says which one that is. The others look at it there, and bring an
// answer there: it is judged, recorded and counts where it was asked, as any other.

// Everywhere is what waits for a person at any gateway of the site. All methods are safe for
// concurrent use.
type Everywhere struct {
	*Consent
	ask AskMember
}

// AskMember asks another gateway by a word, and reads its answer into out. Its error has a code if
// that one answered so.
type AskMember func(ctx context.Context, member, word string, in, out any) error

// The words that gateways ask each other by.
const (
	wordList    = "approvals"
	wordOne     = "approval"
	wordTold    = "approval.told"
	wordPicture = "approval.picture"
	wordAnswer  = "approval.answer"
	wordExtend  = "approval.extend"
	wordHands   = "hands"
)

const (
	lookFor   = 2 * time.Second  // how long another gateway is waited for that is looked at
	answerFor = 15 * time.Second // that makes an answer durable
	handsFor  = 8 * time.Second  // one that is silent: it is put out within its lease and a moment
	handsLook = 200 * time.Millisecond
)

// Everywhere returns what waits here and elsewhere. ask is nil where this gateway serves alone.
func (c *Consent) Everywhere(ask AskMember) *Everywhere { return &Everywhere{c, ask} }

// one asks about one question. Answer and By are of answering and of extending.
type one struct {
	ID     string                   `json:"id"`
	Whole  bool                     `json:"whole,omitempty"`
	Answer *Answer                  `json:"answer,omitempty"`
	By     capabilities.PrincipalID `json:"by,omitempty"`
}

type toldThere struct {
	Told Told
	Open bool
}

type pictureThere struct {
	Data  []byte
	Spots []Spot
}

// Words returns what answers other gateways, by word.
func (c *Consent) Words() map[string]func(context.Context, []byte) (any, error) {
	about := func(f func(context.Context, one) (any, error)) func(context.Context, []byte) (any, error) {
		return func(ctx context.Context, body []byte) (any, error) {
			var in one
			if err := json.Unmarshal(body, &in); err != nil {
				return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "")
			}
			return f(ctx, in)
		}
	}
	return map[string]func(context.Context, []byte) (any, error){
		wordList:  about(func(context.Context, one) (any, error) { return c.Approvals(), nil }),
		wordHands: about(func(context.Context, one) (any, error) { return c.Hands(), nil }),
		wordOne:   about(func(_ context.Context, in one) (any, error) { return c.Approval(in.ID) }),
		wordTold: about(func(_ context.Context, in one) (any, error) {
			t, open := c.Told(in.ID, in.Whole)
			return toldThere{t, open}, nil
		}),
		wordPicture: about(func(_ context.Context, in one) (any, error) {
			data, spots, err := c.Picture(in.ID)
			return pictureThere{data, spots}, err
		}),
		wordAnswer: about(func(ctx context.Context, in one) (any, error) {
			if in.Answer == nil {
				return nil, &capabilities.Error{Code: capabilities.CodeInvalidRequest}
			}
			return c.Answer(ctx, in.ID, *in.Answer)
		}),
		wordExtend: about(func(ctx context.Context, in one) (any, error) { return c.Extend(ctx, in.ID, in.By) }),
	}
}

// Approvals returns what waits, oldest first. A gateway that does not answer has its
// questions left out: it answers in a moment, or is put out, which closes them.
func (e *Everywhere) Approvals() []Approval {
	all := e.Consent.Approvals()
	if e.ask == nil {
		return all
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookFor)
	defer cancel()
	members, err := e.asking(ctx)
	if err != nil {
		e.opts.Log.Warn("consent.elsewhere", "err", err)
		return all
	}
	there := make([][]Approval, len(members))
	var looking sync.WaitGroup
	for i, m := range members {
		looking.Go(func() {
			if err := e.ask(ctx, m, wordList, one{}, &there[i]); err != nil {
				e.opts.Log.Warn("consent.elsewhere", "member", m, "err", err)
			}
		})
	}
	looking.Wait()
	for i, list := range there {
		for j := range list {
			e.homes.put(list[j].ID, members[i])
		}
		all = append(all, list...)
	}
	sortOldest(all)
	return all
}

// asking returns the other gateways that wait for an answer.
func (e *Everywhere) asking(ctx context.Context) (members []string, err error) {
	rows, err := e.opts.Store.Read().QueryContext(ctx, `SELECT DISTINCT member FROM question WHERE member <> $1 AND expires_ms > $2`,
		e.opts.Store.Member(), e.opts.Now().UnixMilli())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var m string
		if err := rows.Scan(&m); err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	return members, rows.Err()
}

// home returns which other gateway asked a question; "" for this one, and where nobody knows.
func (e *Everywhere) home(ctx context.Context, id string) (string, error) {
	if e.ask == nil {
		return "", nil
	}
	if _, err := e.Consent.Approval(id); err == nil {
		return "", nil
	}
	if m := e.homes.of(id); m != "" {
		in, err := e.opts.Store.In(ctx, m)
		if err != nil || !in {
			return "", err
		}
		return m, nil
	}
	rows, err := e.opts.Store.Read().QueryContext(ctx, `SELECT member FROM question WHERE id = $1`, id)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var member string
	for rows.Next() {
		if err := rows.Scan(&member); err != nil {
			return "", err
		}
	}
	if member == e.opts.Store.Member() {
		member = ""
	}
	return member, rows.Err()
}

// there asks the gateway whose question it is; false: that is this one.
func (e *Everywhere) there(ctx context.Context, word string, in one, out any) (bool, error) {
	member, err := e.home(ctx, in.ID)
	if err != nil {
		return true, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	if member == "" {
		return false, nil
	}
	err = e.ask(ctx, member, word, in, out)
	if err == nil || capabilities.CodeOf(err) != capabilities.CodeInternal {
		return true, err
	}
	return true, &capabilities.Error{
		Code: capabilities.CodeOverloaded, Message: "The gateway that asked this question does not answer.",
		Hint: "Look at the question again in some seconds: it is answered, waits on, or was closed because that gateway ended.", Passing: true,
	}
}

// Approval is Consent's.
func (e *Everywhere) Approval(id string) (Approval, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookFor)
	defer cancel()
	var a Approval
	if elsewhere, err := e.there(ctx, wordOne, one{ID: id}, &a); elsewhere {
		return a, err
	}
	return e.Consent.Approval(id)
}

// Told is Consent's.
func (e *Everywhere) Told(id string, whole bool) (Told, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), lookFor)
	defer cancel()
	var t toldThere
	if elsewhere, err := e.there(ctx, wordTold, one{ID: id, Whole: whole}, &t); elsewhere {
		return t.Told, t.Open && err == nil
	}
	return e.Consent.Told(id, whole)
}

// Picture is Consent's.
func (e *Everywhere) Picture(id string) ([]byte, []Spot, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerFor)
	defer cancel()
	var p pictureThere
	if elsewhere, err := e.there(ctx, wordPicture, one{ID: id}, &p); elsewhere {
		return p.Data, p.Spots, err
	}
	return e.Consent.Picture(id)
}

// Answer is Consent's. An answer that the gateway which asked does not acknowledge may have
// counted; another one is told so there.
func (e *Everywhere) Answer(ctx context.Context, id string, a Answer) (Approval, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerFor)
	defer cancel()
	var out Approval
	if elsewhere, err := e.there(ctx, wordAnswer, one{ID: id, Answer: &a}, &out); elsewhere {
		return out, err
	}
	return e.Consent.Answer(ctx, id, a)
}

// Extend is Consent's.
func (e *Everywhere) Extend(ctx context.Context, id string, by capabilities.PrincipalID) (Approval, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerFor)
	defer cancel()
	var out Approval
	if elsewhere, err := e.there(ctx, wordExtend, one{ID: id, By: by}, &out); elsewhere {
		return out, err
	}
	return e.Consent.Extend(ctx, id, by)
}

// HandsThere returns where agents have their hands by calls of other gateways, too. One that was
// killed is waited for until it is put out of the site. An error: one of them does not say, so
// nobody knows.
func (e *Everywhere) HandsThere(ctx context.Context) ([]Hands, error) {
	all := e.Hands()
	if e.ask == nil {
		return all, nil
	}
	ctx, cancel := context.WithTimeout(ctx, handsFor)
	defer cancel()
	members, err := e.opts.Store.Members(ctx)
	if err != nil {
		return nil, err
	}
	members = slices.DeleteFunc(members, func(m string) bool { return m == e.opts.Store.Member() })
	there := make([][]Hands, len(members))
	failed := make([]error, len(members))
	var asking sync.WaitGroup
	for i, m := range members {
		asking.Go(func() { there[i], failed[i] = e.handsAt(ctx, m) })
	}
	asking.Wait()
	for i, err := range failed {
		if err != nil {
			return nil, err
		}
		all = append(all, there[i]...)
	}
	return lasting(all), nil
}

// handsAt asks a gateway for its hands until it answers. One that no longer serves has none.
func (e *Everywhere) handsAt(ctx context.Context, member string) (hands []Hands, err error) {
	for {
		looking, cancel := context.WithTimeout(ctx, lookFor)
		err = e.ask(looking, member, wordHands, one{}, &hands)
		cancel()
		if err == nil {
			return hands, nil
		}
		if members, err := e.opts.Store.Members(ctx); err == nil && !slices.Contains(members, member) {
			return nil, nil
		}
		select {
		case <-time.After(handsLook):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// homes are which gateways asked questions lately.
type homes struct {
	mu    sync.Mutex
	byID  map[string]string
	order []string
}

func (h *homes) of(id string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byID[id]
}

func (h *homes) put(id, member string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byID == nil {
		h.byID = map[string]string{}
	}
	if _, known := h.byID[id]; !known {
		if len(h.order) >= maxShelf {
			delete(h.byID, h.order[0])
			h.order = append(h.order[:0], h.order[1:]...)
		}
		h.order = append(h.order, id)
	}
	h.byID[id] = member
}

// QuestionTables are those that AgainQuestions is for.
var QuestionTables = []string{"question"}

// AgainQuestions hears that other gateways ask something, or have an answer.
func (c *Consent) AgainQuestions(ctx context.Context) error {
	rows, err := c.opts.Store.Read().QueryContext(ctx, `SELECT id, member FROM question WHERE member <> $1`, c.opts.Store.Member())
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, member string
		if err := rows.Scan(&id, &member); err != nil {
			return err
		}
		if member != "" {
			c.homes.put(id, member)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tellLocked()
	return nil
}
