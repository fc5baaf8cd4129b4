package bus

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
)

// Asked is a request of a worker's, of a domain of plumbing.
type Asked struct {
	Worker       string // by the key of its connection
	Method, Path string // of the REST surface; the path with its query
	Body         []byte
}

// Answered is what comes back: an answer of HTTP.
type Answered struct {
	Status int
	Type   string // of the body
	Body   []byte
}

// askers are the workers that are connected; the zero value is ready.
type askers struct {
	mu   sync.Mutex
	each map[string]*asker
}

// asker is one worker.
type asker struct {
	client uint64 // its connection at the server in this process
	server string // elsewhere, that has the connection
	asks   map[string]context.CancelFunc
}

func (a *askers) of(worker string) *asker {
	if a.each == nil {
		a.each = map[string]*asker{}
	}
	if a.each[worker] == nil {
		a.each[worker] = &asker{asks: map[string]context.CancelFunc{}}
	}
	return a.each[worker]
}

// entered takes over that a worker connected, and returns its connection before. There is one of
// each: what was asked by another one ends, as with a connection of HTTP.
func (a *askers) entered(worker, server string, client uint64) (before uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.of(worker)
	before, w.client, w.server = w.client, client, server
	w.end()
	return before
}

func (w *asker) end() {
	for _, end := range w.asks {
		end()
	}
	clear(w.asks)
}

// begin notes a request by the subject of its answer; false: there are too many.
func (a *askers) begin(worker, reply string, end context.CancelFunc) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.of(worker)
	if len(w.asks) >= 2*remote.MaxAsked || w.asks[reply] != nil {
		return false
	}
	w.asks[reply] = end
	return true
}

// over ends one request of a worker.
func (a *askers) over(worker, reply string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.of(worker)
	if end := w.asks[reply]; end != nil {
		end()
		delete(w.asks, reply)
	}
}

// gone ends what those ask whose connection is not there any more.
func (a *askers) gone(there func(client uint64) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, w := range a.each {
		if w.server == "" && !there(w.client) {
			w.end()
			delete(a.each, id)
		}
	}
}

// endAsks ends what workers asked whose connection to the server in this process is gone.
func (b *Bus) endAsks() {
	b.starting.Lock()
	srv := b.srv
	b.starting.Unlock()
	if srv != nil {
		b.askers.gone(func(client uint64) bool { return srv.GetClient(client) != nil })
	}
}

// asks answers a worker that asks a domain of plumbing.
func (b *Bus) asks(m *nats.Msg) {
	domain, worker := remote.AskOf(m.Subject)
	if worker == "" || b.opts.Plumb == nil {
		return
	}
	if given := m.Header.Get(remote.HeaderEnds); given != "" {
		b.askers.over(worker, given)
		return
	}
	// The gateway says what it wants on any subject: an answer goes to who asked and to nobody else.
	token, own := strings.CutPrefix(m.Reply, remote.Inbox(worker)+".")
	if !own || token == "" || strings.ContainsAny(token, "*> ") {
		return
	}
	path := m.Header.Get(remote.HeaderPath)
	if remote.DomainOf(path) != domain {
		b.answers(m.Reply, Answered{Status: 404})
		return
	}
	ctx, end := context.WithCancel(b.running)
	if !b.askers.begin(worker, m.Reply, end) {
		end()
		b.answers(m.Reply, Answered{Status: 429})
		return
	}
	one := Asked{worker, m.Header.Get(remote.HeaderMethod), path, m.Data}
	if !b.work(func() {
		defer b.askers.over(worker, m.Reply)
		b.answers(m.Reply, b.opts.Plumb(ctx, one))
	}) {
		b.askers.over(worker, m.Reply)
	}
}

// answers sends an answer in chunks, the last with its status. A worker that does not hear it asks
// again or gives up.
func (b *Bus) answers(to string, a Answered) {
	conn := b.link()
	if conn == nil {
		return
	}
	for len(a.Body) > remote.Chunk {
		if conn.Publish(to, a.Body[:remote.Chunk]) != nil {
			return
		}
		a.Body = a.Body[remote.Chunk:]
	}
	last := &nats.Msg{Subject: to, Data: a.Body, Header: nats.Header{}}
	last.Header.Set(remote.HeaderStatus, strconv.Itoa(a.Status))
	last.Header.Set(remote.HeaderType, a.Type)
	_ = conn.PublishMsg(last)
}

// Way is where workers reach the bus, and the SHA-256 of its certificate in hex, if it is known by
// that; false: it does not run.
func (b *Bus) Way() (addrs []string, sum string, ok bool) {
	if b.link() == nil {
		return nil, "", false
	}
	b.starting.Lock()
	sum = b.sum
	b.starting.Unlock()
	return b.advertised(), sum, true
}

// PutOut ends what a worker asks, and its connection.
func (b *Bus) PutOut(worker string) {
	b.askers.mu.Lock()
	w := *b.askers.of(worker)
	delete(b.askers.each, worker)
	b.askers.mu.Unlock()
	w.end()
	switch {
	case w.client == 0:
	case w.server == "":
		b.disconnect(w.client)
	default:
		if err := b.kickElsewhere(w.server, w.client); err != nil {
			b.opts.Log.Warn("bus.kick", "worker", worker, "err", err, "ends_within", passTime)
		}
	}
}
