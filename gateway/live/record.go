package live

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"sort"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/gateway/dispatch"
)

// The tools of a recording.
const (
	toolRecord     = capabilities.ToolID("tool.live.record")
	toolRecordStop = capabilities.ToolID("tool.live.record-stop")
)

const (
	// DefaultFilm and MaxFilm are how long a lane is recorded: unless somebody says so,
	// and at most. MaxFilm is the descriptor's.
	DefaultFilm = 5 * time.Minute
	MaxFilm     = 14 * time.Minute
	// remembered is how many recordings that are over can still be asked about.
	remembered = 32
	// stopTime bounds the call that ends a recording.
	stopTime = 10 * time.Second
	// stopLease is how long the word of who stops a recording is good, for that alone.
	stopLease = time.Minute
)

// Order is what is to be recorded.
type Order struct {
	Lane     capabilities.LaneID
	Node     capabilities.NodeID
	Display  string        // default: the main one
	Duration time.Duration // default DefaultFilm
}

// Recording is one recording of a lane, as others may see it.
type Recording struct {
	ID        string
	Lane      capabilities.LaneID
	Node      capabilities.NodeID
	Principal capabilities.PrincipalID
	Since     time.Time
	Until     time.Time // at the latest
	// Result is how it ended; nil while it runs. The frames so far are in its artifacts.
	Result *capabilities.Result
}

type recording struct {
	Recording // Result belongs to Sessions.mu
	call      capabilities.CallID
	cancel    context.CancelCauseFunc
	end       chan struct{} // closed when its call has ended
}

// Record has a node make a film of what a lane does there, as one call, and returns
// once the first frame was taken. waiting bounds how long the caller waits; life is the
// context that the recording lives in, and release is called once it ended.
func (s *Sessions) Record(waiting, life context.Context, release func(), caller dispatch.Caller, o Order) (Recording, error) {
	if o.Duration == 0 {
		o.Duration = DefaultFilm
	}
	if o.Duration < time.Second || o.Duration > MaxFilm {
		release()
		return Recording{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "duration_ms: a recording lasts 1 s to %s",
			capabilities.Spoken(MaxFilm))
	}
	order := map[string]any{"lane": o.Lane, "node_id": o.Node, "duration_ms": o.Duration.Milliseconds()}
	if o.Display != "" {
		order["display"] = o.Display
	}
	one := &recording{Recording: Recording{ID: rand.Text(), Lane: o.Lane, Node: o.Node, Principal: caller.Principal}, end: make(chan struct{})}
	result, err := s.begin(waiting, life, release, lasting{
		caller: caller, tool: toolRecord, args: order, surface: "live",
		enter: func(_ context.Context, cancel context.CancelCauseFunc) {
			one.cancel = cancel // nobody but the gateway's end finds it before it began
			s.films = append(s.films, one)
		},
		heard: func(data json.RawMessage) bool {
			var word struct {
				Recording capabilities.CallID `json:"recording"`
			}
			if json.Unmarshal(data, &word) != nil || word.Recording == "" {
				return false
			}
			s.beginFilm(one, word.Recording, o.Duration)
			return true
		},
		leave: func(result *capabilities.Result) {
			s.mu.Lock()
			one.Result = result
			if one.Since.IsZero() {
				s.films = slices.DeleteFunc(s.films, func(f *recording) bool { return f == one })
			}
			s.mu.Unlock()
			close(one.end)
		},
	})
	if err != nil {
		return Recording{}, err
	}
	film, err := s.Recording(one.ID)
	if err != nil && result != nil { // it ended before it began
		return Recording{}, failure(*result)
	}
	return film, err
}

// beginFilm lets a recording be found from now on, and lets go of the oldest that are over.
func (s *Sessions) beginFilm(one *recording, call capabilities.CallID, length time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !one.Since.IsZero() {
		return
	}
	one.call = call
	one.Since = time.Now().UTC()
	one.Until = one.Since.Add(length)
	over := 0
	for _, f := range s.films {
		if f.Result != nil {
			over++
		}
	}
	s.films = slices.DeleteFunc(s.films, func(f *recording) bool {
		if over <= remembered || f.Result == nil {
			return false
		}
		over--
		return true
	})
}

func (s *Sessions) recorded(id string) (*recording, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.films {
		if one.ID == id && !one.Since.IsZero() {
			return one, nil
		}
	}
	return nil, capabilities.Errorf(capabilities.CodeNotFound, "there is no such recording").
		WithHint("Its file is under artifacts, if there is one.")
}

// Recordings returns those that run, and the latest that are over, the newest first.
func (s *Sessions) Recordings() []Recording {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Recording, 0, len(s.films))
	for _, one := range s.films {
		if !one.Since.IsZero() {
			all = append(all, one.Recording)
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Since.After(all[j].Since) })
	return all
}

// Recording returns one.
func (s *Sessions) Recording(id string) (Recording, error) {
	one, err := s.recorded(id)
	if err != nil {
		return Recording{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return one.Recording, nil
}

// StopRecording ends a recording before its time, in the name of whoever does, whose
// press is the word for it: nobody else is asked. It waits for the file until ctx ends.
// If the device cannot be told to end it, its call is ended, which keeps nothing.
func (s *Sessions) StopRecording(ctx context.Context, caller dispatch.Caller, id string) (Recording, error) {
	one, err := s.recorded(id)
	if err != nil {
		return Recording{}, err
	}
	args, err := canonical.Marshal(map[string]any{"node_id": one.Node, "recording": one.call})
	if err != nil {
		return Recording{}, err
	}
	select {
	case <-one.end:
		return s.Recording(id)
	default:
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if s.opts.Grants != nil {
		takeBack, err := s.word(asking, caller, one.Node, stopLease, "the end of a recording", toolRecordStop)
		if err != nil {
			return Recording{}, err
		}
		defer takeBack()
	}
	told := s.opts.Calls.Call(asking, dispatch.Request{Caller: caller, Tool: toolRecordStop, Args: args, Surface: "live", Inside: true})
	if told.Status != capabilities.StatusOK && told.Code != capabilities.CodeNotFound {
		s.opts.Log.Warn("live.record.stop", "recording", one.call, "node", one.Node, "code", told.Code)
		one.cancel(capabilities.Errorf(capabilities.CodeCancelled, "The device could not be told to stop, so the recording was given up."))
	}
	select {
	case <-one.end:
	case <-ctx.Done():
	}
	return s.Recording(id)
}
