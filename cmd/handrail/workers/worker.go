package workers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/agent/worker/pipeline"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
)

const (
	takeWait    = 20              // seconds that one question for a job waits
	wordEvery   = 5 * time.Second // of a worker that is at a job; its lease is 30 s
	awayPause   = time.Second     // before a gateway that is away is asked again
	maxWorkers  = 32
	maxJobWords = 16 << 10
)

// NewWorkerCmd returns the command that does queued jobs. bus adds the flags by which a NATS server
// elsewhere is met, and returns what reads them.
func NewWorkerCmd(version string, bus func(*cobra.Command) func() (*tls.Config, error)) *cobra.Command {
	var o runOptions
	var s jobService
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Do queued jobs, one after the other, as a service",
		Long: "Takes the jobs of this data directory's agent ('handrail jobs add') as they fall due, and does each as 'handrail run' does a " +
			"task, without a person:\n" +
			"a call that needs one's word is skipped, unless --wait. A job whose worker died is done by the next one, and no call of it twice.\n" +
			"On another machine than the gateway's it joins once ('handrail worker join'), and takes the jobs of its own principal.",
		Example: "  handrail worker --offline\n  handrail worker --model qwen3:8b --endpoint http://127.0.0.1:11434/v1 --concurrency 2",
		Args:    cobra.NoArgs,
	}
	workerFlags(cmd, &o)
	waitFlag(cmd, &o)
	f := cmd.Flags()
	f.IntVar(&s.concurrency, "concurrency", 1, fmt.Sprintf("jobs at once, of different lanes, up to %d", maxWorkers))
	f.StringVar(&s.name, "name", "", "this worker's name: a new one of the same name takes back its jobs at once (default: the host's name)")
	f.StringVar(&s.at, "gateway", "",
		"the gateway elsewhere that this machine joined: 'joined', or its address if that is another now (default: that of the data directory)")
	busTLS := bus(cmd)
	f.BoolVar(&s.once, "once", false, "end when no job is due")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if s.concurrency < 1 || s.concurrency > maxWorkers {
			return terminal.UsageError("--concurrency must be from 1 to %d", maxWorkers)
		}
		if o.lane != "" {
			return terminal.UsageHint("Give the lane to 'handrail jobs add'.", "a job names its own lane")
		}
		host, _ := os.Hostname()
		s.name = cmp.Or(s.name, host, "worker")
		s.cmd, s.opts = cmd, o
		if s.opts.gateway, err = elsewhere(cmd, s.at, "handrail "+version, busTLS); err != nil {
			return err
		}
		err = s.run(cmd.Context())
		if s.opts.gateway != nil {
			err = putOut(err)
		}
		return err
	}
	cmd.AddCommand(NewJoinCmd(version))
	return cmd
}

// jobService does jobs.
type jobService struct {
	cmd         *cobra.Command
	opts        runOptions
	gateway     *remote.Gateway
	name        string
	concurrency int
	once        bool
	under       capabilities.LaneID // only the tasks of sub-agents that were called there; empty: all jobs
	quiet       bool
	at          string // of a gateway elsewhere
	print       sync.Mutex
}

func (s *jobService) run(ctx context.Context) error {
	var err error
	if s.gateway = s.opts.gateway; s.gateway == nil {
		if s.gateway, err = jobCaller(s.cmd); err != nil {
			return err
		}
	}
	if !s.opts.offline { // a model that is named wrong is known before the first job
		m, err := openModel(s.opts.model, nil)
		if err != nil {
			return err
		}
		m.Close()
	}
	first, err := s.take(ctx, true)
	if err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	for i := range s.concurrency {
		all.Go(func() error {
			one := first
			if i > 0 {
				one = nil
			}
			for {
				if one != nil {
					if err := s.do(ctx, one); err != nil {
						return err
					}
				} else if s.once && i == 0 {
					return nil
				}
				if ctx.Err() != nil {
					return nil
				}
				var err error
				if one, err = s.take(ctx, false); err != nil {
					return err
				}
				if one == nil && s.once {
					return nil
				}
			}
		})
	}
	return all.Wait()
}

// take returns the next job; nil if none came. A gateway that is away is waited for.
func (s *jobService) take(ctx context.Context, fresh bool) (*api.Job, error) {
	ask := api.TakeJob{Worker: s.name, Fresh: fresh, Wait: takeWait, Under: s.under}
	if fresh || s.once {
		ask.Wait = 0
	}
	if ask.Wait > 0 {
		givePagesBack()
	}
	one, err := s.gateway.TakeJob(ctx, ask)
	switch {
	case err == nil:
		return &one, nil
	case capabilities.CodeOf(err) == capabilities.CodeNotFound, ctx.Err() != nil:
		return nil, nil
	case s.once || fresh || !errors.Is(err, client.ErrUnreachable) && !capabilities.AsError(err).Retryable():
		return nil, s.gateway.Told(err)
	}
	return nil, pause(ctx)
}

func pause(ctx context.Context) error {
	t := time.NewTimer(awayPause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return nil
}

var (
	errCancelled = errors.New("the job was cancelled")
	errLost      = errors.New("the job is another worker's now")
)

// do carries one job out and says how it ended. An error ends the worker.
func (s *jobService) do(ctx context.Context, j *api.Job) error {
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	var calls atomic.Int64
	var stage atomic.Value
	stage.Store("")
	told, news := make(chan struct{}), make(chan struct{}, 1)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(running, end, j)
	}()
	go func() {
		defer close(told)
		s.tell(running, end, j, news, func() (int, string) { return int(calls.Load()), stage.Load().(string) })
	}()
	o := s.opts
	o.lane, o.session = string(j.Lane), j.ID
	if j.Parent != "" {
		o.inside, o.subAgent = j, "" // its calls have no request IDs: it is done once at most
	} else {
		o.requests = requestIDs(fmt.Sprintf("%s.%d", j.ID, j.Run))
	}
	o.told = func(e worker.Event) {
		stage.Store(string(e.Stage))
		if e.Stage == worker.StageToolCall {
			calls.Add(1)
		}
		select {
		case news <- struct{}{}:
		default: // it is about to be told
		}
	}
	e, err := newWorker(s.cmd, o, nil)
	if err != nil {
		return err
	}
	defer e.close()
	out, err := s.along(running, e, j)
	cause := context.Cause(running)
	end(nil)
	<-told
	<-watched
	word := jobWord(j, out, err, int(calls.Load()))
	switch {
	case errors.Is(cause, errLost):
		s.say("%s is another worker's now", j.ID)
		return nil
	case ctx.Err() != nil, errors.Is(err, client.ErrUnreachable):
		word = api.JobWord{Claim: j.Claim, State: api.JobQueued} // it goes on with the next worker
	}
	return s.finish(context.WithoutCancel(ctx), ctx, j, word)
}

// along does a job's task, by the steps of its pipeline if it has one. A panic fails the job alone.
func (s *jobService) along(ctx context.Context, e *conversation, j *api.Job) (out worker.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.print.Lock()
			defer s.print.Unlock()
			fmt.Fprintf(s.cmd.ErrOrStderr(), "%s: panic: %s\n%s\n", j.ID, terminal.Plain(fmt.Sprint(p)), terminal.PlainBlock(string(debug.Stack())))
			out, err = worker.Outcome{}, capabilities.Errorf(capabilities.CodeInternal, "the worker crashed at this job: its own log says where")
		}
	}()
	if j.Pipeline == "" {
		return e.Run(ctx, j.Text)
	}
	p, err := pipeline.Read([]byte(j.Pipeline))
	if err != nil {
		return worker.Outcome{}, err
	}
	return e.Follow(ctx, p, j.Text)
}

// jobWord is how a job ended.
func jobWord(j *api.Job, out worker.Outcome, err error, calls int) api.JobWord {
	out.Text = strings.TrimSpace(out.Text + "\n" + notBegun(out.Left))
	w := api.JobWord{Claim: j.Claim, State: api.JobDone, Result: capabilities.Clip(out.Text, maxJobWords), Calls: calls}
	switch {
	case err != nil:
		w.State, w.Result, w.Code = api.JobFailed, capabilities.Clip(err.Error(), maxJobWords), capabilities.CodeOf(err)
	case out.Ask != "":
		w.State, w.Result, w.Code = api.JobFailed, "it is not clear what is wanted. "+out.Ask, capabilities.CodeInvalidRequest
	case out.Stopped != "":
		text := strings.TrimSpace("The turn was cut off: " + out.Stopped + ".\n" + out.Text)
		w.State, w.Result, w.Code = api.JobFailed, capabilities.Clip(text, maxJobWords), capabilities.CodeExecutionFailed
	case out.Last != nil:
		w.State, w.Code, w.Result = api.JobFailed, capabilities.CodeOf(out.Last), capabilities.Clip(failedWords(&out), maxJobWords)
	case out.Undone:
		w.State, w.Code = api.JobFailed, capabilities.CodeExecutionFailed
	}
	return w
}

// failedWords is what the worker said, which call failed and why, and what can be done about it;
// each once.
func failedWords(out *worker.Outcome) string {
	e := capabilities.AsError(out.Last)
	words := []string{out.Text}
	if why := e.PublicMessage(); !strings.Contains(out.Text, why) {
		words = append(words, why)
	}
	for _, c := range slices.Backward(out.Calls) {
		if c.Status != string(capabilities.StatusOK) {
			words = append(words, fmt.Sprintf("The call that failed: %s (%s).", c.Tool, cmp.Or(string(c.Code), c.Status)))
			break
		}
	}
	if e.Hint != "" && !strings.Contains(out.Text, e.Hint) {
		words = append(words, e.Hint)
	}
	return strings.TrimSpace(strings.Join(words, "\n"))
}

// finish says how a job ended until the gateway has heard it. alive ends the trying of a worker
// that ends: its job is taken by another when its lease is over.
func (s *jobService) finish(ctx, alive context.Context, j *api.Job, w api.JobWord) error {
	for {
		within, over := context.WithTimeout(ctx, wordEvery)
		ended, err := s.gateway.TellJob(within, j.ID, w)
		over()
		switch {
		case err == nil:
			if ended.State == api.JobCancelled { // whatever its worker said
				w.State = ended.State
			}
			s.say("%s %s", j.ID, cmp.Or(w.State, ended.State))
			return nil
		case capabilities.CodeOf(err) == capabilities.CodeForbidden, capabilities.CodeOf(err) == capabilities.CodeNotFound:
			s.say("%s is not this worker's any more", j.ID)
			return nil
		case alive.Err() != nil:
			return s.gateway.Told(err)
		case !errors.Is(err, client.ErrUnreachable) && !capabilities.AsError(err).Retryable():
			return s.gateway.Told(err)
		}
		_ = pause(alive)
	}
}

// tell says where the job is, at each of news and every few seconds, which keeps the lease. It ends
// the job when the gateway wants it ended.
func (s *jobService) tell(ctx context.Context, end context.CancelCauseFunc, j *api.Job, news <-chan struct{}, now func() (int, string)) {
	tick := time.NewTicker(wordEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-news:
		case <-ctx.Done():
			return
		}
		calls, stage := now()
		one, err := s.gateway.TellJob(ctx, j.ID, api.JobWord{Claim: j.Claim, Calls: calls, Stage: stage})
		switch {
		case err == nil && one.Cancel:
			end(errCancelled)
		case capabilities.CodeOf(err) == capabilities.CodeForbidden, capabilities.CodeOf(err) == capabilities.CodeNotFound:
			end(errLost)
		}
	}
}

// watch ends the job as soon as somebody cancels it.
func (s *jobService) watch(ctx context.Context, end context.CancelCauseFunc, j *api.Job) {
	for ctx.Err() == nil {
		one, err := s.gateway.AwaitJob(ctx, j.ID, takeWait)
		switch {
		case err == nil && one.Cancel:
			end(errCancelled)
			return
		case err != nil: // the next word says it
			_ = pause(ctx)
		}
	}
}

func (s *jobService) say(format string, args ...any) {
	if s.quiet {
		return
	}
	s.print.Lock()
	defer s.print.Unlock()
	fmt.Fprintln(s.cmd.OutOrStdout(), terminal.Plain(fmt.Sprintf(format, args...)))
}

// requestIDs names the calls of a job: the same call, made as often before, has the same name in
// every worker that takes the job, so that the gateway carries it out once.
func requestIDs(job string) func(tool capabilities.ToolID, args []byte) string {
	made := map[string]int{}
	return func(tool capabilities.ToolID, args []byte) string {
		sum := sha256.Sum256(append([]byte(string(tool)+"\x00"), args...))
		name := hex.EncodeToString(sum[:12])
		made[name]++
		return fmt.Sprintf("%s.%s.%d", job, name, made[name])
	}
}
