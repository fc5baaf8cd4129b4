package location

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// source is a locator that a test tells what to say.
type source struct {
	asked int
	err   error
	p     platform.Position
	wait  bool // until ctx ends
}

func (*source) Name() string                   { return "test" }
func (s *source) Usable(context.Context) error { return nil }
func (s *source) Locate(ctx context.Context, _ bool, _ time.Time) (platform.Position, error) {
	s.asked++
	if s.wait {
		<-ctx.Done()
		return platform.Position{}, platform.ErrNoFix
	}
	return s.p, s.err
}

func ask(t *testing.T, h *Handler, ctx context.Context, args string) (result, error) {
	t.Helper()
	out, err := h.Handle(ctx, capabilities.Invocation{Capability: get, Args: json.RawMessage(args), Observe: func(string, string) {}})
	if err != nil {
		return result{}, err
	}
	return out.Result.(result), nil
}

func handler(t *testing.T, l platform.Locator, now *time.Time) *Handler {
	t.Helper()
	h, err := New(Options{Locator: l, Now: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAge(t *testing.T) {
	now := time.Now()
	s := &source{p: platform.Position{Latitude: 1, Longitude: 2, Accuracy: 3, At: now}}
	h := handler(t, s, &now)
	for i, c := range []struct {
		after time.Duration
		args  string
		asked int
	}{
		{0, `{}`, 1}, {time.Second, `{"maximum_age_ms":0}`, 2}, {0, `{"maximum_age_ms":5000}`, 2}, {9 * time.Second, `{"maximum_age_ms":5000}`, 3},
		{0, `{"maximum_age_ms":600000,"enable_high_accuracy":true}`, 4}, {0, `{"maximum_age_ms":600000,"enable_high_accuracy":true}`, 4}, {0, `{"maximum_age_ms":600000}`, 4},
	} {
		now = now.Add(c.after)
		r, err := ask(t, h, t.Context(), c.args)
		if err != nil || r.Coords.Latitude != 1 || r.Coords.Accuracy != 3 || r.Source != "test" || s.asked != c.asked {
			t.Errorf("%d: %+v, %v, asked %d times, want %d", i, r, err, s.asked, c.asked)
		}
	}
}

func TestWhatIsInTheWay(t *testing.T) {
	missing := &platform.MissingError{What: "no", Fix: "install it"}
	for _, c := range []struct {
		err    error
		code   capabilities.Code
		reason capabilities.Reason
	}{
		{platform.ErrNoLocationAgent, capabilities.CodeLocationUnavailable, capabilities.ReasonLocationAgent},
		{platform.ErrLocationRefused, capabilities.CodeLocationRefused, capabilities.ReasonPermission},
		{platform.ErrNoFix, capabilities.CodeLocationTimeout, capabilities.ReasonLocationNoFix},
		{missing, capabilities.CodeLocationUnavailable, capabilities.ReasonBackendMissing},
		{errors.New("else"), capabilities.CodeLocationUnavailable, capabilities.ReasonBackendFailing},
	} {
		now := time.Now()
		h := handler(t, &source{err: c.err}, &now)
		if r := h.Readiness(t.Context())[0]; !r.Ready() {
			t.Errorf("%v: before: %+v", c.err, r)
		}
		_, err := ask(t, h, t.Context(), `{}`)
		if e := capabilities.AsError(err); e.Code != c.code || e.Hint == "" {
			t.Errorf("%v: %v", c.err, err)
		}
		if r := h.Readiness(t.Context())[0]; r.Reason != c.reason || r.Fix == "" || len(r.Fix) > 300 {
			t.Errorf("%v: %+v", c.err, r)
		}
		now = now.Add(time.Minute)
		if r := h.Readiness(t.Context())[0]; !r.Ready() {
			t.Errorf("%v: it never tries again: %+v", c.err, r)
		}
	}
}

func TestNoPosition(t *testing.T) {
	now := time.Now()
	nan := math.NaN()
	for _, p := range []platform.Position{{Latitude: 91}, {Longitude: -181}, {Accuracy: -1}, {Latitude: nan}, {Accuracy: math.Inf(1)}, {Speed: &nan}} {
		if r, err := ask(t, handler(t, &source{p: p}, &now), t.Context(), `{}`); capabilities.CodeOf(err) != capabilities.CodeLocationUnavailable {
			t.Errorf("%+v gives %+v, %v", p, r, err)
		}
	}
}

func TestBoundAndCancelled(t *testing.T) {
	now := time.Now()
	h := handler(t, &source{wait: true}, &now)
	if _, err := ask(t, h, t.Context(), `{"timeout_ms":1}`); capabilities.CodeOf(err) != capabilities.CodeLocationTimeout {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&capabilities.Error{Code: capabilities.CodeStopped})
	if _, err := ask(t, h, ctx, `{}`); capabilities.CodeOf(err) != capabilities.CodeStopped {
		t.Errorf("%v", err)
	}
}

func TestFixedAndNone(t *testing.T) {
	now := time.Now()
	h := handler(t, Fixed{platform.Position{Latitude: 48.8566, Longitude: 2.3522, Accuracy: 10}}, &now)
	r, err := ask(t, h, t.Context(), `{"timeout_ms":0}`)
	if err != nil || r.Coords.Latitude != 48.8566 || r.Source != "fixed" || r.Timestamp == "" {
		t.Errorf("%+v, %v", r, err)
	}
	h = handler(t, None{platform.MissingError{What: "none", Fix: "set one"}}, &now)
	if r := h.Readiness(t.Context())[0]; r.Reason != capabilities.ReasonBackendMissing || r.Fix != "set one" {
		t.Errorf("%+v", r)
	}
	if _, err := ask(t, h, t.Context(), `{}`); capabilities.CodeOf(err) != capabilities.CodeLocationUnavailable {
		t.Error(err)
	}
}
