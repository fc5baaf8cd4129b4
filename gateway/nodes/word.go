package nodes

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// A word is what one gateway of several asks another, over a stream of its own. The other answers
// it once.
//
//	asking gateway   → farAsk with Word, then uint32 BE length | JSON
//	answering one    → uint32 BE length | JSON of wordReply

// maxWord bounds a word and its answer: a picture is the longest.
const maxWord = 16 << 20

// ErrUnheard is of a word that had no answer: nobody knows whether it was heard.
var ErrUnheard = errors.New("nodes: the other gateway does not answer")

// Word answers what another gateway asks. Its error reaches the one that asked, as far as it is
// public.
type Word func(ctx context.Context, body []byte) (any, error)

type wordReply struct {
	Error *wordError      `json:"error,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
}

type wordError struct {
	Code    capabilities.Code   `json:"code"`
	Message string              `json:"message"`
	Hint    string              `json:"hint,omitempty"`
	Action  capabilities.Action `json:"action,omitzero"`
	Details any                 `json:"details,omitempty"`
}

// OnWord has f answer a word. It is for before Listen.
func (n *Nodes) OnWord(word string, f Word) { n.onWord(word, heeded{f: f}) }

// OnAlarm is OnWord for what is heeded whoever of the site says it, and while the store is away.
func (n *Nodes) OnAlarm(word string, f Word) { n.onWord(word, heeded{f: f, always: true}) }

// heeded is what answers a word.
type heeded struct {
	f      Word
	always bool // also a gateway that is put out is answered
}

func (n *Nodes) onWord(word string, h heeded) {
	n.listenMu.Lock()
	defer n.listenMu.Unlock()
	if n.words == nil {
		n.words = map[string]heeded{}
	}
	n.words[word] = h
}

func (n *Nodes) word(word string) heeded {
	n.listenMu.Lock()
	defer n.listenMu.Unlock()
	return n.words[word]
}

// reached returns where the other gateways are reached: as the store says, or said last.
func (n *Nodes) reached(ctx context.Context) (map[string]string, error) {
	all, err := n.opts.Store.Reached(ctx)
	n.listenMu.Lock()
	defer n.listenMu.Unlock()
	if err != nil {
		return n.known, err
	}
	delete(all, n.opts.Store.Member())
	n.known = all
	return all, nil
}

// askStore bounds how long the store is asked where the others are, before what it said last is
// good enough.
const askStore = 200 * time.Millisecond

// TellMembers says a word to all other gateways side by side, and returns how many heard it. It
// needs no store.
func (n *Nodes) TellMembers(ctx context.Context, word string, in any) (heard int) {
	if n.opts.Store.Member() == "" {
		return 0
	}
	asking, cancel := context.WithTimeout(ctx, askStore)
	all, _ := n.reached(asking)
	cancel()
	var telling sync.WaitGroup
	var count atomic.Int64
	for member, at := range all {
		telling.Go(func() {
			if err := n.askAt(ctx, at, word, in, nil); err != nil {
				n.log.Warn("peer.word", "word", word, "to", member, "err", err)
				return
			}
			count.Add(1)
		})
	}
	telling.Wait()
	return int(count.Load())
}

// AskMember asks another gateway, and reads its answer into out. It returns the error of that one,
// or ErrUnheard.
func (n *Nodes) AskMember(ctx context.Context, member, word string, in, out any) error {
	all, err := n.reached(ctx)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnheard, word, err)
	}
	return n.askAt(ctx, all[member], word, in, out)
}

func (n *Nodes) askAt(ctx context.Context, at, word string, in, out any) error {
	unheard := func(err error) error { return fmt.Errorf("%w: %s: %w", ErrUnheard, word, err) }
	n.listenMu.Lock()
	p := n.peers
	n.listenMu.Unlock()
	if p == nil || at == "" {
		return unheard(errors.New("it is not a gateway of now"))
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	conn, err := p.connect(ctx, at)
	if err != nil {
		return unheard(err)
	}
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return unheard(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = stream.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		stop()
		stream.CancelRead(wire.ResetDone)
		stream.CancelWrite(wire.ResetDone)
	}()
	if err := writeHead(stream, farAsk{Member: n.opts.Store.Member(), Word: word}); err != nil {
		return unheard(err)
	}
	if err := writeSized(stream, body); err != nil {
		return unheard(err)
	}
	text, err := readSized(stream)
	if err != nil {
		return unheard(err)
	}
	var reply wordReply
	if err := exact(text, &reply); err != nil {
		return unheard(err)
	}
	if e := reply.Error; e != nil {
		return &capabilities.Error{Code: e.Code, Message: e.Message, Hint: e.Hint, Action: e.Action, Details: e.Details}
	}
	if out == nil {
		return nil
	}
	return exact(reply.Body, out)
}

// exact reads JSON whose numbers stay as they are written.
func exact(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(v)
}

// answer answers another gateway's word.
func (p *peers) answer(life context.Context, from *quic.Stream, ask farAsk) {
	fail := func() {
		from.CancelRead(wire.ResetRefused)
		from.CancelWrite(wire.ResetRefused)
	}
	f := p.n.word(ask.Word).f
	body, err := readSized(from)
	if err != nil || f == nil {
		fail()
		return
	}
	_ = from.SetDeadline(time.Time{})
	var reply wordReply
	out, err := f(life, body)
	if err == nil {
		reply.Body, err = json.Marshal(out)
	}
	if err != nil {
		e := capabilities.AsError(err)
		reply = wordReply{Error: &wordError{e.Code, e.PublicMessage(), e.PublicHint(), e.PublicAction(), e.Details}}
		p.n.log.Debug("peer.word", "word", ask.Word, "from", ask.Member, "err", err)
	}
	text, err := json.Marshal(reply)
	_ = from.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err != nil || writeSized(from, text) != nil {
		fail()
		return
	}
	_ = from.Close()
	from.CancelRead(wire.ResetDone)
}

func writeSized(w io.Writer, body []byte) error {
	if len(body) > maxWord {
		return errors.New("nodes: a word is too long")
	}
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

func readSized(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxWord {
		return nil, errors.New("nodes: a word is too long")
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(body) != int(n) {
		err = io.ErrUnexpectedEOF
	}
	return body, err
}
