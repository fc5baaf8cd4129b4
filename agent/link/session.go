package link

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/tunnel"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// session is one acknowledged connection. Its main goroutine sends, another reads
// the control stream, a third accepts calls.
type session struct {
	l       *Link
	conn    *quic.Conn
	control *quic.Stream
	reader  *wire.Reader
	ack     *wire.HelloAck
	way     way

	// Owned by the main goroutine.
	acked    time.Time
	sent     []capabilities.Readiness // last readiness that was sent
	sentAny  bool
	rotating *rotation
	rotated  bool

	writing sync.Mutex // of the control stream

	telling sync.Mutex // the order in which stops are told; taken before writing
	told    wire.Stop  // the stop switches as the gateway knows them

	placing sync.Mutex // the order in which addresses are told; taken before writing
	addrs   [][]byte   // the device's, as the gateway knows them
	looked  time.Time  // when they were looked at last
	// lookAgain says that they will be looked at in a moment anyway.
	lookAgain bool
	beat      uint64 // the latest heartbeat
}

// minHeartbeat bounds what a gateway can ask of a node.
const minHeartbeat = 20 * time.Millisecond

var (
	errSilent  = errors.New("the gateway does not answer heartbeats")
	errRotated = errors.New("the new key is to be used")
	errBetter  = errors.New("QUIC works again")
	errLeft    = errors.New("the node is to end")
)

// run serves the connection to its end. nil means: connect again at once.
func (s *session) run(runCtx context.Context) error {
	ctx, cancel := context.WithCancelCause(runCtx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { closeWith(s.conn, wire.CloseDone) })
	defer stop()

	var readers sync.WaitGroup
	frames := make(chan wire.Message)
	readers.Go(func() { cancel(s.read(ctx, frames)) })
	readers.Go(func() { cancel(s.accept(ctx, runCtx)) })
	better := make(chan struct{})
	if who := s.l.caller(); s.way.over != tunnel.QUIC {
		addrs := s.l.addrs()
		readers.Go(func() {
			if s.l.awaitQUIC(ctx, addrs, who) {
				close(better)
			}
		})
	}
	err := s.main(ctx, frames, better)
	// Before cancel, whose hook above closes too: the first close sets the code.
	if errors.Is(err, errSilent) {
		closeWith(s.conn, wire.CloseHeartbeat)
	}
	closeWith(s.conn, wire.CloseDone)
	cancel(err)
	readers.Wait()
	if errors.Is(err, errBetter) {
		s.l.dialer.last = tunnel.QUIC
		return nil
	}
	if errors.Is(err, errRotated) {
		return nil
	}
	return connError(s.conn, err)
}

// read passes the control stream's frames to the main goroutine.
func (s *session) read(ctx context.Context, frames chan<- wire.Message) error {
	s.reader.Accept(wire.KindHeartbeatAck, wire.KindAllowlist, wire.KindStop, wire.KindRotateAnswer, wire.KindLaneClosed, wire.KindSecretsDone,
		wire.KindQuestions, wire.KindVerdictTaken)
	for {
		m, err := s.reader.Next()
		if err != nil {
			var refused *capabilities.Error
			if errors.As(err, &refused) {
				s.l.log.Warn("node.protocol", "err", err)
				closeWith(s.conn, wire.CloseProtocol)
			}
			return err
		}
		if stop, ok := m.(*wire.Stop); ok {
			// Here, and not in turn: the main goroutine may be asking what is ready.
			s.l.opts.OnStop(stop.SiteEpoch, stop.SiteOn)
			if err := s.sendStop(); err != nil {
				return err
			}
			continue
		}
		select {
		case frames <- m:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// main sends what has to be sent until something ends. better is closed when there is a better way.
func (s *session) main(ctx context.Context, frames <-chan wire.Message, better <-chan struct{}) error {
	l := s.l
	leave := error(nil) // once no call runs
	quiet := time.Duration(0)
	leaving := l.leave
	every := max(time.Duration(s.ack.HeartbeatMS)*time.Millisecond, minHeartbeat)
	beats := time.NewTicker(every)
	defer beats.Stop()
	ready := time.NewTicker(l.opts.ReadinessEvery)
	defer ready.Stop()
	s.acked = time.Now()
	stopChanged := l.opts.StopChanged()
	if err := errors.Join(s.sendReadiness(ctx), s.sendStop(), s.rotateIfDue()); err != nil {
		return err
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case m := <-frames:
			err = s.handle(m)
		case <-beats.C:
			if time.Since(s.acked) > 3*every {
				return errSilent
			}
			err = errors.Join(s.sendBeat(), s.rotateIfDue())
		case <-ready.C:
			err = errors.Join(s.moved(), s.sendReadiness(ctx))
		case <-l.opts.ReadinessChanged:
			err = s.sendReadiness(ctx)
		case <-stopChanged:
			stopChanged = l.opts.StopChanged()
			err = s.sendStop()
		case <-better:
			better, leave = nil, errBetter
		case <-leaving:
			leaving, leave, quiet = nil, errLeft, l.quiet
		}
		if err != nil {
			return err
		}
		// The old key stays good until the new one is used, so there is no hurry: a
		// call is not cut off for it.
		if s.rotated {
			leave = errRotated
		}
		if leave != nil && l.idle(quiet) {
			return leave
		}
	}
}

func (s *session) handle(m wire.Message) error {
	l := s.l
	switch m := m.(type) {
	case *wire.HeartbeatAck:
		s.acked = time.Now()
		if m.Head != nil {
			s.gatewayHead(*m.Head)
		}
	case *wire.Allowlist:
		l.opts.OnAllow(m.Capabilities)
	case *wire.LaneClosed:
		l.opts.OnLaneClosed(m.Lane)
	case *wire.SecretsDone:
		l.opts.OnSecretsDone(m.Lane)
	case *wire.Questions:
		if l.opts.OnQuestions != nil {
			l.opts.OnQuestions(m.List)
		}
	case *wire.VerdictTaken:
		if l.opts.OnVerdictTaken != nil {
			l.opts.OnVerdictTaken(*m)
		}
	case *wire.RotateAnswer:
		if s.rotating == nil {
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "the gateway answered a rotation nobody asked for")
		}
		r := s.rotating
		s.rotating = nil
		if m.Code != "" {
			l.log.Warn("node.rotate", "code", m.Code)
			return nil // asked again at the next heartbeat
		}
		if err := r.finish(l, m.Cert); err != nil {
			return err
		}
		s.rotated = true
		l.rotatedAt = time.Now()
	}
	return nil
}

func (s *session) send(m wire.Message) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	return wire.Write(s.control, m)
}

func (s *session) sendBeat() error {
	s.placing.Lock()
	defer s.placing.Unlock()
	return s.beatLocked(nil)
}

func (s *session) beatLocked(addrs [][]byte) error {
	s.beat++
	m := wire.Heartbeat{
		Seq: s.beat, Active: uint32(s.l.active.Load()), UptimeS: uint64(time.Since(s.l.started).Seconds()), Head: s.l.opts.Head(), Addrs: addrs,
	}
	if s.l.opts.Pools != nil {
		m.Pools = slices.DeleteFunc(s.l.opts.Pools(), func(p wire.Pool) bool {
			return p.Running == 0 && p.Waiting == 0 && p.Refused == 0 && p.Ready == 0 && p.Warm == 0 && p.Cold == 0
		})
	}
	return s.send(&m)
}

// addrsAge is how old the look at the device's addresses may be when a call begins.
const addrsAge = 10 * time.Millisecond

// moved tells the gateway if the device has other addresses than it had: at every call,
// so that nothing an agent does reaches the gateway from a new one first, and from time
// to time.
func (s *session) moved() error {
	s.placing.Lock()
	defer s.placing.Unlock()
	if age := time.Since(s.looked); age < addrsAge {
		if !s.lookAgain { // else an address that is taken right now is told with some later call
			s.lookAgain = true
			time.AfterFunc(addrsAge-age, func() {
				s.placing.Lock()
				s.lookAgain = false
				s.placing.Unlock()
				_ = s.moved() // a connection that has ended tells nobody
			})
		}
		return nil
	}
	s.looked = time.Now()
	now := deviceAddrs()
	if slices.EqualFunc(now, s.addrs, bytes.Equal) {
		return nil
	}
	s.addrs = now
	if len(now) == 0 {
		now = [][]byte{{0, 0, 0, 0}} // none that could be told; nothing is known from here on
	}
	return s.beatLocked(now)
}

func (s *session) sendReadiness(ctx context.Context) error {
	now := slices.Clone(s.l.opts.Readiness(ctx))
	if s.sentAny && slices.EqualFunc(now, s.sent, capabilities.Readiness.Same) {
		return nil
	}
	frame := &wire.Readiness{Capabilities: slices.Clone(now)}
	frame.Clip()
	if err := s.send(frame); err != nil {
		return err
	}
	s.sent, s.sentAny = now, true
	return nil
}

func (s *session) sendStop() error {
	s.telling.Lock()
	defer s.telling.Unlock()
	now := s.l.opts.Stop()
	if now == s.told {
		return nil
	}
	s.told = now
	return s.send(&now)
}

func (s *session) rotateIfDue() error {
	l := s.l
	if s.rotating != nil || s.rotated || time.Since(l.rotatedAt) < rotateAgain || time.Until(l.id.Cert.NotAfter) > l.opts.RotateBefore {
		return nil
	}
	r, frame, err := l.beginRotation(s.conn)
	if err != nil {
		l.log.Error("node.rotate", "err", err) // the disk's trouble is no reason to leave
		return nil
	}
	s.rotating = r
	return s.send(frame)
}

// accept takes the gateway's call streams. Calls live in runCtx: they may outlast
// this connection.
func (s *session) accept(ctx, runCtx context.Context) error {
	for {
		stream, err := s.conn.AcceptStream(ctx)
		if err != nil {
			return err
		}
		if err := s.moved(); err != nil {
			return err
		}
		s.l.calls.Go(func() { s.l.serve(runCtx, s.conn, stream) })
	}
}

// gatewayHead hands a head on with the key that the connection is known by: what
// signs it is not for the head to say.
func (s *session) gatewayHead(h wire.Head) {
	certs := s.conn.ConnectionState().TLS.PeerCertificates
	if len(certs) == 0 {
		return
	}
	if key, ok := certs[0].PublicKey.(ed25519.PublicKey); ok {
		s.l.opts.OnGatewayHead(key, h)
	}
}
