package satellite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
)

// Options of Run; required unless a default is named.
type Options struct {
	// Name is the service: its tools become tool.NAME.ACTION.
	Name  string
	Tools []Tool
	// Dir keeps the identity and what is known of past calls. One process at a time has it.
	Dir string
	// Paste is the code of 'handrail satellite add NAME', for the first start; default: it has
	// joined already.
	Paste string
	// Interchangeable says that any other satellite with the same tools serves a call as well.
	Interchangeable bool
	Version         string // of the satellite, for people; default: none
	// Check reports whether what stands behind the tools answers; default: it does.
	Check func(context.Context) error
	// Capacity is how many calls run at once; default 8. As many as eight times that wait.
	Capacity int
	Join     JoinOptions
	Log      *slog.Logger // default: discards
}

// Tool is one tool: what it says of itself, and what carries a call out.
type Tool struct {
	Name        string // becomes the action of tool.NAME.ACTION
	Title       string
	Description string
	Input       json.RawMessage // JSON Schema of the arguments; default: none are taken
	Output      json.RawMessage // of Result.Data; default: anything
	ReadOnly    bool            // it changes nothing
	Idempotent  bool
	Tags        []string
	// Keys are capability keys for what it touches, such as "network.egress.https".
	Keys    []string
	Timeout time.Duration // default 60 s
	// Run carries a call out; the context ends at its deadline, or when nobody waits any more.
	Run func(ctx context.Context, c Call) (Result, error)

	words *tools.RemoteTool // in place of what the fields say; nil: they do
}

// Offer is a tool in words that somebody else wrote, such as an adapter in front of a program.
func Offer(words tools.RemoteTool, run func(ctx context.Context, c Call) (Result, error)) Tool {
	return Tool{Name: words.Name, ReadOnly: words.ReadOnly != nil && *words.ReadOnly, Run: run, words: &words}
}

// Call is one call of a tool.
type Call struct {
	ID   string // the same call never comes with another one
	Args json.RawMessage
	// Progress tells whoever waits how far it is.
	Progress func(done, total float64, message string)
	// Refused says that the call tried something that it was not granted and was kept from: a
	// capability key, and the host or path. The gateway records it as drift of the call, or of the
	// calls among which it was, where nobody can tell which of them.
	Refused func(key, detail string, among ...string)
}

// Result is what a call returns.
type Result struct {
	Text  string
	Data  any    // structured; encoded as JSON
	Bytes []byte // a picture or sound, at most 16 MiB
	MIME  string // of Bytes
	Links []Link
	// Confirmed says that the effect was looked at and is there. Results of tools that only read
	// need not say so.
	Confirmed bool
}

// Link is a resource that a result points at.
type Link = remote.Link

// ErrNotAdmitted is why Run ends when the gateway does not let the satellite in: it was revoked,
// or its identity is of another site.
var ErrNotAdmitted = errors.New("the gateway does not let this satellite in: it was revoked or denied, or its identity is of another site")

// Run joins if it has to, and serves until ctx ends. It keeps trying while the gateway is away.
func Run(ctx context.Context, o Options) error {
	s, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer s.journal.close()
	defer s.held.Close()
	return s.run(ctx)
}

// server is a satellite at work.
type server struct {
	opts     Options
	id       Identity
	manifest *tools.ToolManifest
	hash     string
	tools    map[string]tool // by name
	began    time.Time
	host     string
	slots    chan struct{}
	queue    chan struct{}
	journal  *journal
	held     *os.File // by which no second process has this identity
	conn     *nats.Conn
	works    sync.WaitGroup
	beats    chan struct{} // one: now

	mu      sync.Mutex
	seq     uint64
	mac     *remote.Key // by which heartbeats have MACs; nil: each is signed
	keyed   time.Time   // when that was agreed on
	running map[capabilities.CallID]*running
	down    error // what Check said last
}

type tool struct {
	Tool
	hash string
}

// running is a call that runs, and who gets its answer.
type running struct {
	cancel  context.CancelFunc
	replies []string
}

func open(ctx context.Context, o Options) (*server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Capacity <= 0 {
		o.Capacity = 8
	}
	if len(o.Tools) == 0 {
		return nil, errors.New("satellite: no tools")
	}
	manifest, err := Manifest(o)
	if err != nil {
		return nil, err
	}
	s := &server{
		opts: o, manifest: manifest, hash: manifest.Hash(), tools: map[string]tool{}, began: time.Now(),
		slots: make(chan struct{}, o.Capacity), queue: make(chan struct{}, 9*o.Capacity), beats: make(chan struct{}, 1),
		running: map[capabilities.CallID]*running{},
	}
	s.host, _ = os.Hostname()
	for i, t := range o.Tools {
		if t.Run == nil || s.tools[t.Name].Run != nil {
			return nil, fmt.Errorf("satellite: the tool %q has no Run, or is there twice", t.Name)
		}
		s.tools[t.Name] = tool{t, manifest.Tools[i].Hash()}
	}
	if s.id, err = load(o.Dir, o.Name); errors.Is(err, os.ErrNotExist) && o.Paste != "" {
		s.id, err = Join(ctx, o.Paste, o.Dir, o.Name, o.Join)
	}
	if err != nil {
		return nil, err
	}
	if s.held, err = hold(o.Dir, o.Name); err != nil {
		return nil, err
	}
	if s.journal, err = openJournal(o.Dir, o.Name); err != nil {
		return nil, errors.Join(err, s.held.Close())
	}
	return s, nil
}

// Manifest is what a satellite with these options says of its tools.
func Manifest(o Options) (*tools.ToolManifest, error) {
	m := &tools.ToolManifest{Provider: o.Name, Version: o.Version, Interchangeable: o.Interchangeable}
	yes := func(b bool) *bool {
		if !b {
			return nil
		}
		return &b
	}
	for _, t := range o.Tools {
		if t.words != nil {
			m.Tools = append(m.Tools, *t.words)
			continue
		}
		m.Tools = append(m.Tools, tools.RemoteTool{
			Name: t.Name, Title: t.Title, Description: t.Description, Input: t.Input, Output: t.Output, ReadOnly: yes(t.ReadOnly),
			Idempotent: yes(t.Idempotent), Tags: t.Tags, Keys: t.Keys, TimeoutMS: int(t.Timeout.Milliseconds()),
		})
	}
	if m.Hash() == "" {
		return nil, errors.New("satellite: a schema is no JSON")
	}
	p := tools.Provider{Name: o.Name, Kind: tools.KindSatellite}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if _, refused := tools.Describe(&p, m); len(refused) > 0 {
		return nil, fmt.Errorf("satellite: the tool %q cannot be offered: %s", refused[0].Upstream, refused[0].Reason)
	}
	_, err := remote.Write(remote.Reply{Manifest: m})
	return m, err
}

func (s *server) run(ctx context.Context) error {
	conn, ended, err := s.dial(ctx)
	if err != nil {
		return err
	}
	s.conn = conn
	defer func() {
		conn.Close()
		<-ended
		s.works.Wait()
	}()
	calls, stop := context.WithCancel(context.WithoutCancel(ctx)) // until Run ends
	defer stop()
	if _, err := conn.Subscribe(remote.Own(s.id.Service, s.id.Satellite), func(m *nats.Msg) { s.hear(calls, m) }); err != nil {
		return err
	}
	s.works.Go(func() { s.check(calls) })
	tick := time.NewTicker(remote.Period)
	defer tick.Stop()
	for {
		if conn.IsConnected() {
			if err := s.beat(); err != nil {
				s.opts.Log.Warn("satellite.heartbeat", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			return ErrNotAdmitted
		case <-tick.C:
		case <-s.beats:
		}
	}
}

// dial connects, however long the gateway is away; ended is closed once the connection is for good.
func (s *server) dial(ctx context.Context) (conn *nats.Conn, ended chan struct{}, err error) {
	conn, err = s.id.dial(ctx, 0, func(err error) { s.opts.Log.Warn("satellite.away", "err", err) }, s.opts.Join.TLS,
		nats.Name(s.opts.Name+" "+s.id.Satellite), nats.NoEcho(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { s.opts.Log.Warn("satellite.bus", "err", err) }),
		nats.ReconnectHandler(func(*nats.Conn) { s.connected(); s.beatNow() }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if ctx.Err() == nil {
				s.opts.Log.Warn("satellite.disconnected", "err", err)
			}
		}))
	if err != nil {
		return nil, nil, err
	}
	ended = make(chan struct{})
	end := sync.OnceFunc(func() { close(ended) })
	conn.SetClosedHandler(func(*nats.Conn) { end() })
	if conn.IsClosed() { // before the handler was there
		end()
	}
	s.connected()
	return conn, ended, nil
}

// connected says in the log that the gateway let it in, for the first time or again. The gateway
// that stands there now may be another than agreed on the key.
func (s *server) connected() {
	s.mu.Lock()
	s.mac = nil
	s.mu.Unlock()
	s.opts.Log.Info("satellite.connected", "service", s.opts.Name, "satellite", s.id.Satellite)
}

// check asks again and again whether what stands behind the tools answers.
func (s *server) check(ctx context.Context) {
	if s.opts.Check == nil {
		return
	}
	tick := time.NewTicker(remote.Period)
	defer tick.Stop()
	for first := true; ; first = false {
		one, cancel := context.WithTimeout(ctx, remote.Period)
		err := s.opts.Check(one)
		cancel()
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		changed := first || (err == nil) != (s.down == nil)
		s.down = err
		s.mu.Unlock()
		if changed {
			s.beatNow()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *server) beatNow() {
	select {
	case s.beats <- struct{}{}:
	default:
	}
}

// beat says that it is here.
func (s *server) beat() error {
	s.mu.Lock()
	s.seq = max(s.seq+1, uint64(time.Now().UnixMilli()))
	h := remote.Heartbeat{
		Contract: remote.Version, Satellite: s.id.Satellite, Service: s.id.Service, Host: s.host,
		Subjects: []string{remote.Own(s.id.Service, s.id.Satellite)}, Manifest: s.hash, Ready: s.down == nil, Active: len(s.running),
		Load: float64(len(s.running)) / float64(cap(s.slots)), Connected: true, UptimeS: int64(time.Since(s.began).Seconds()),
		TS: time.Now().UTC().Format(time.RFC3339Nano), Seq: s.seq,
	}
	if s.down != nil {
		h.Reason = capabilities.Clip(capabilities.Printable(s.down.Error()), 300)
	}
	mac := s.mac
	if time.Since(s.keyed) < time.Second { // the gateway may not have our half yet
		mac = nil
	}
	s.mu.Unlock()
	sign := s.sign
	if mac != nil {
		sign = mac.MAC
	}
	data, err := h.Sign(sign)
	if err != nil {
		return err
	}
	return s.conn.Publish(remote.Heartbeats(s.id.Service, s.id.Satellite), data)
}

// sign signs by the satellite's own key.
func (s *server) sign(data []byte) ([]byte, error) {
	pair, err := s.id.pair()
	if err != nil {
		return nil, err
	}
	return pair.Sign(data)
}

// key agrees on a key for heartbeats, so that the next ones need not be signed.
func (s *server) key(r remote.Request, reply string) {
	answer, mac, err := remote.AnswerKey(s.id.Satellite, r.Key, s.sign)
	if err != nil {
		s.opts.Log.Warn("satellite.key", "err", err)
		return
	}
	s.mu.Lock()
	again := s.mac != nil
	s.mac, s.keyed = mac, time.Now()
	s.mu.Unlock()
	s.say(reply, remote.Reply{Key: &answer})
	if again { // the gateway did not know the MACs: it hears a signature
		s.beatNow()
	}
}

// hear takes one request.
func (s *server) hear(ctx context.Context, m *nats.Msg) {
	r, err := remote.ReadRequest(m.Data)
	if err != nil {
		s.say(m.Reply, remote.Reply{Result: failed(capabilities.CodeNotSupported, "This satellite does not know such a request.")})
		return
	}
	switch r.Op {
	case remote.OpManifest:
		s.say(m.Reply, remote.Reply{Manifest: s.manifest})
	case remote.OpAsk:
		s.say(m.Reply, remote.Reply{Fates: s.fates(r.Calls)})
	case remote.OpKey:
		s.key(r, m.Reply)
	case remote.OpCancel:
		s.mu.Lock()
		if c := s.running[r.Call]; c != nil {
			c.cancel()
		}
		s.mu.Unlock()
	case remote.OpCall:
		s.call(ctx, r, m.Reply)
	}
}

// call begins a call, unless it came before: then its answer goes here, too.
func (s *server) call(ctx context.Context, r remote.Request, reply string) {
	t, ok := s.tools[r.Tool]
	switch {
	case !ok:
		s.say(reply, remote.Reply{Result: failed(capabilities.CodeNotSupported, "This satellite has no such tool.")})
		return
	case r.Hash != "" && r.Hash != t.hash:
		s.say(reply,
			remote.Reply{Result: failed(capabilities.CodeNodeNotReady, "The satellite says other things of this tool than were approved.")})
		return
	}
	s.mu.Lock()
	if c := s.running[r.Call]; c != nil {
		c.replies = append(c.replies, reply)
		s.mu.Unlock()
		return
	}
	if past, known := s.journal.find(r.Call); known {
		s.mu.Unlock()
		s.again(reply, past)
		return
	}
	select {
	case s.queue <- struct{}{}:
	default:
		s.mu.Unlock()
		s.say(reply, remote.Reply{Result: failed(capabilities.CodeNodeNotReady, "The satellite has as many calls as it takes.")})
		return
	}
	if err := s.journal.start(r.Call); err != nil {
		<-s.queue
		s.mu.Unlock()
		s.say(reply, remote.Reply{Result: failed(capabilities.CodeExecutionFailed, "The satellite could not write down that the call begins.")})
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.DeadlineMS)*time.Millisecond)
	c := &running{cancel: cancel, replies: []string{reply}}
	s.running[r.Call] = c
	s.mu.Unlock()
	s.works.Go(func() {
		defer cancel()
		tried := &refusals{}
		out, data := s.carryOut(ctx, t, r, c, tried)
		out.Refused = tried.all()
		s.journal.finish(r.Call, out, data)
		s.mu.Lock()
		delete(s.running, r.Call)
		replies := c.replies
		s.mu.Unlock()
		<-s.queue
		for _, to := range replies {
			s.answer(to, out, data)
		}
	})
}

// carryOut runs one call, when there is room.
func (s *server) carryOut(ctx context.Context, t tool, r remote.Request, c *running, tried *refusals) (_ *remote.Result, data []byte) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return failed(codeOf(ctx), "It never began: the satellite was busy."), nil
	}
	out, err := safely(ctx, t, Call{ID: string(r.Call), Args: r.Args, Refused: tried.add, Progress: func(done, total float64, message string) {
		s.mu.Lock()
		replies := c.replies
		s.mu.Unlock()
		for _, to := range replies {
			s.say(to,
				remote.Reply{Progress: &remote.Progress{Done: done, Total: total, Message: capabilities.Clip(capabilities.Printable(message), 200)}})
		}
	}})
	if err == nil && len(out.Bytes) > remote.MaxBytes {
		err = capabilities.Errorf(capabilities.CodeResultTooLarge, "the result has more than %d bytes", remote.MaxBytes)
	}
	if err != nil {
		if ctx.Err() != nil {
			return failed(codeOf(ctx), ""), nil
		}
		e := capabilities.AsError(err)
		if e.Code == capabilities.CodeInternal { // an error of the tool's own
			return failed(capabilities.CodeExecutionFailed, err.Error()), nil
		}
		return failed(e.Code, e.PublicMessage()), nil
	}
	result := &remote.Result{
		Status: capabilities.StatusOK, Text: capabilities.Clip(out.Text, remote.MaxText), Links: out.Links, MIME: out.MIME,
		Effect: capabilities.EffectUnverifiable,
	}
	if t.ReadOnly || out.Confirmed {
		result.Effect = capabilities.EffectConfirmed
	}
	if out.Data != nil {
		if result.Data, err = canonical.Marshal(out.Data); err != nil {
			return failed(capabilities.CodeExecutionFailed, "The tool's data is no JSON."), nil
		}
	}
	if _, err := remote.Write(result); err != nil {
		return failed(capabilities.CodeResultTooLarge, ""), nil
	}
	return result, out.Bytes
}

// safely has a panic cost its own call only.
func safely(ctx context.Context, t tool, c Call) (out Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the tool failed: %v", p)
			slog.Error("satellite.panic", "tool", t.Name, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	return t.Run(ctx, c)
}

func codeOf(ctx context.Context) capabilities.Code {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return capabilities.CodeDeadlineExceeded
	}
	return capabilities.CodeCancelled
}

func failed(code capabilities.Code, message string) *remote.Result {
	return &remote.Result{Status: capabilities.StatusError, Code: code, Message: capabilities.Clip(message, 2<<10)}
}

// answer sends a result and its bytes.
func (s *server) answer(to string, r *remote.Result, data []byte) {
	if !s.say(to, remote.Reply{Result: r, Bytes: len(data)}) {
		return
	}
	for len(data) > 0 {
		n := min(len(data), remote.Chunk)
		if err := s.conn.Publish(to, data[:n]); err != nil {
			s.opts.Log.Warn("satellite.answer", "err", err)
			return
		}
		data = data[n:]
	}
}

// again answers a call that came before.
func (s *server) again(to string, p past) {
	switch {
	case p.result == nil:
		s.say(to, remote.Reply{
			Result: failed(capabilities.CodeUnknownOutcome, "The call began before the satellite's last start; nobody knows how it ended."),
		})
	case p.size > 0 && len(p.bytes) == 0:
		s.say(to, remote.Reply{Result: failed(capabilities.CodeExecutionFailed, "The call was carried out; its bytes are kept no more.")})
	default:
		s.answer(to, p.result, p.bytes)
	}
}

func (s *server) say(to string, r remote.Reply) bool {
	if to == "" {
		return false
	}
	data, err := remote.Write(r)
	if err == nil {
		err = s.conn.Publish(to, data)
	}
	if err != nil {
		s.opts.Log.Warn("satellite.reply", "err", err)
	}
	return err == nil
}

// fates says what became of calls.
func (s *server) fates(calls []capabilities.CallID) []remote.Fate {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]remote.Fate, 0, len(calls))
	for _, id := range calls {
		f := remote.Fate{Call: id}
		p, known := s.journal.find(id)
		switch {
		case s.running[id] != nil:
			f.State = remote.StateRunning
		case known && p.result != nil:
			f.State, f.Result, f.Bytes = remote.StateFinished, p.result, p.size
		case known, !s.journal.whole():
			f.State = remote.StateUnknown
		default:
			f.State = remote.StateNever
		}
		all = append(all, f)
	}
	return all
}
