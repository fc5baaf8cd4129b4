package mail

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/time/rate"

	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// Options of New; required unless a default is named.
type Options struct {
	Config *Config
	Ledger ledger.Followed
	// After is the sequence number after which questions are told.
	After uint64
	// Approval returns a question as people see it.
	Approval func(id string) (consent.Approval, error)
	// Page returns the address of a question in the console.
	Page func(id string) string
	// Roots are whose certificates are good; default: the system's.
	Roots *x509.CertPool
	// Backoff is the pause before the second try, doubled for each further one; default 2 s.
	Backoff time.Duration
	Log     *slog.Logger // default: discards
}

// A question is open for minutes: what was not delivered by then is about nothing. Messages are
// bounded so that agents cannot fill a mailbox.
const (
	tries     = 6
	maxPause  = time.Minute
	sendEvery = 20 * time.Second
	sendBurst = 20
)

// Sender tells people. Run it.
type Sender struct {
	opts  Options
	paced *rate.Limiter
}

// New makes a Sender; it starts nothing.
func New(o Options) (*Sender, error) {
	if o.Config == nil || o.Ledger == nil || o.Approval == nil || o.Page == nil {
		return nil, errors.New("mail: Config, Ledger, Approval and Page are required")
	}
	if o.Backoff <= 0 {
		o.Backoff = 2 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Sender{opts: o, paced: rate.NewLimiter(rate.Every(sendEvery), sendBurst)}, nil
}

// Run tells of each question that is asked until ctx ends.
func (s *Sender) Run(ctx context.Context) error {
	ledger.Follow(ctx, s.opts.Ledger, s.opts.After, "gateway.approval.asked", func(p *ledger.Packet) { s.tell(ctx, p) },
		func(err error) { s.opts.Log.Warn("mail.read", "err", err) })
	return nil
}

// tell sends the message about one question, unless it was answered meanwhile.
func (s *Sender) tell(ctx context.Context, p *ledger.Packet) {
	var ref packet.OfApproval
	if json.Unmarshal(p.Body, &ref) != nil || s.paced.Wait(ctx) != nil {
		return
	}
	var failed error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		a, err := s.opts.Approval(ref.Approval)
		if err != nil || a.State != consent.StatePending {
			return struct{}{}, nil // nobody wants an answer any more
		}
		if failed = s.deliver(ctx, compose(s.opts.Config, &a, s.opts.Page(a.ID), time.Now())); failed == nil {
			s.opts.Log.Info("mail.sent", "approval", ref.Approval, "to", len(s.opts.Config.To))
			return struct{}{}, nil
		}
		if lasting(failed) {
			return struct{}{}, backoff.Permanent(failed)
		}
		return struct{}{}, failed
	}, backoff.WithBackOff(&backoff.ExponentialBackOff{InitialInterval: s.opts.Backoff, Multiplier: 2, MaxInterval: maxPause}),
		backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(0))
	if err != nil && ctx.Err() == nil {
		s.opts.Log.Error("mail.given_up", "server", s.opts.Config.Host, "approval", ref.Approval, "reason", reason(failed))
	}
}
