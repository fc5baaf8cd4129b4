package site

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

//go:embed catalog/*.json
var data embed.FS

// The fixture family's tools.
const (
	ToolEcho  capabilities.ToolID = "tool.fixture.echo"  // answers with its text: the no-op
	ToolSlow  capabilities.ToolID = "tool.fixture.slow"  // progress until told to finish or cancelled
	ToolImage capabilities.ToolID = "tool.fixture.image" // answers with a blob
	// ToolCapture answers with an artifact: Content of its text and size.
	ToolCapture capabilities.ToolID = "tool.fixture.capture"
	ToolFail    capabilities.ToolID = "tool.fixture.fail"  // fails with the code it is given
	ToolPress   capabilities.ToolID = "tool.fixture.press" // has privileged keys
	// ToolConduct makes other calls as its steps, and returns the code of each; "ok".
	ToolConduct capabilities.ToolID = "tool.fixture.conduct"
)

// Catalog is the embedded catalog with the fixture family.
func Catalog() (*catalog.Catalog, error) {
	sub, err := fs.Sub(data, "catalog")
	if err != nil {
		return nil, err
	}
	return catalog.Load(sub)
}

// Rules permit the fixture family beside the shipped default.
const Rules = `@id("fixture") permit (principal, action in Action::"family:fixture", resource);`

// Handler carries out the fixture family and remembers what it did, so that a
// test can count executions from outside.
type Handler struct {
	mu      sync.Mutex
	runs    map[string]int // by text
	release map[string]chan struct{}
	started chan string
	Degrade string // Readiness.Degraded; set before use, later by SetDegrade
	Unready capabilities.Reason
	Gives   capabilities.IsolationClass // Readiness.Isolation; default: t2, and the session for press
	// Stray does what a call was not granted, before the call does what it is for; set before use.
	Stray func(inv capabilities.Invocation, text string)
}

// NewHandler makes a Handler.
func NewHandler() *Handler {
	return &Handler{runs: map[string]int{}, release: map[string]chan struct{}{}, started: make(chan string, 1024)}
}

type args struct {
	Text string            `json:"text"`
	Size int               `json:"size"`
	Code capabilities.Code `json:"code"`
	MIME string            `json:"mime"`

	Parallel bool `json:"parallel"`
	Times    int  `json:"times"`
	Steps    []struct {
		Tool capabilities.ToolID `json:"tool"`
		Args string              `json:"args"` // JSON
	} `json:"steps"`
}

// Content returns the bytes that a capture with that text returns, as they are read.
func Content(text string, size int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8(sha256.Sum256([]byte(text))), size)
}

// Capabilities lists the fixture family.
func (h *Handler) Capabilities() []capabilities.CapabilityID {
	return []capabilities.CapabilityID{
		"tyrum.fixture.echo", "tyrum.fixture.slow", "tyrum.fixture.image", "tyrum.fixture.capture", "tyrum.fixture.fail", "tyrum.fixture.press",
		"tyrum.fixture.conduct",
	}
}

// SetDegrade sets Degrade for a handler in use.
func (h *Handler) SetDegrade(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Degrade = reason
}

// Readiness says ready, unless the test set otherwise.
func (h *Handler) Readiness(context.Context) []capabilities.Readiness {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []capabilities.Readiness
	for _, c := range h.Capabilities() {
		class := capabilities.ClassT2
		if c == "tyrum.fixture.press" {
			class = capabilities.ClassSession
		}
		if h.Gives != "" {
			class = h.Gives
		}
		all = append(all, capabilities.Readiness{
			Capability: c, Reason: h.Unready, Isolation: class, Degraded: h.Degrade, Backend: "fixture",
		})
	}
	return all
}

// Handle carries out one fixture call.
func (h *Handler) Handle(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	var a args
	if err := json.Unmarshal(inv.Args, &a); err != nil {
		return capabilities.Output{}, err
	}
	h.mu.Lock()
	h.runs[a.Text]++
	h.mu.Unlock()
	select {
	case h.started <- a.Text:
	default:
	}
	if h.Stray != nil {
		h.Stray(inv, a.Text)
	}
	out := capabilities.Output{Result: map[string]any{"text": a.Text}, Effect: capabilities.EffectConfirmed}
	out.Untrusted = strings.HasPrefix(a.Text, "untrusted")
	switch _, action, _ := strings.Cut(string(inv.Capability), "fixture."); action {
	case "slow":
		inv.Progress(capabilities.Progress{Done: 1, Total: 2, Message: "half"})
		select {
		case <-h.gate(a.Text):
		case <-ctx.Done():
			return capabilities.Output{}, context.Cause(ctx)
		}
	case "image":
		out.Blobs = []capabilities.Blob{{Field: "bytesBase64", MIME: "image/png", Bytes: make([]byte, a.Size)}}
	case "conduct":
		codes, err := conduct(ctx, inv, a)
		if err != nil {
			return capabilities.Output{}, err
		}
		out.Result = map[string]any{"text": a.Text, "codes": codes}
	case "capture":
		kept, err := capture(inv, a)
		if err != nil {
			return capabilities.Output{}, err
		}
		out.Artifacts = []capabilities.Artifact{kept}
	case "fail":
		if a.Code == "panic" {
			panic("fixture")
		}
		return capabilities.Output{}, capabilities.Errorf(a.Code, "the fixture failed as told")
	}
	return out, nil
}

// conduct makes the calls that it was given, one after the other or all at once, and
// goes on after a refusal as long as it may.
func conduct(ctx context.Context, inv capabilities.Invocation, a args) ([]string, error) {
	if inv.Step == nil {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "no steps are taken here")
	}
	n := len(a.Steps) * max(a.Times, 1)
	codes, errs := make([]string, n), make([]error, n)
	take := func(i int) {
		s := a.Steps[i%len(a.Steps)]
		_, errs[i] = inv.Step(ctx, capabilities.StepCall{Tool: s.Tool, Args: json.RawMessage(s.Args)})
		if codes[i] = "ok"; errs[i] != nil {
			codes[i] = string(capabilities.CodeOf(errs[i]))
		}
	}
	var all sync.WaitGroup
	for i := range n {
		if a.Parallel {
			all.Go(func() { take(i) })
			continue
		}
		if take(i); errs[i] != nil && capabilities.EndsParent(errs[i]) {
			return nil, errs[i]
		}
	}
	all.Wait()
	for _, err := range errs {
		if err != nil && capabilities.EndsParent(err) {
			return nil, err
		}
	}
	return codes, nil
}

func capture(inv capabilities.Invocation, a args) (capabilities.Artifact, error) {
	spec := capabilities.ArtifactSpec{Name: "capture.bin", MIME: a.MIME, Field: "bytesBase64"}
	if spec.MIME == "" {
		spec.MIME, spec.Field = "application/octet-stream", ""
	}
	w, err := inv.CreateArtifact(spec)
	if err != nil {
		return capabilities.Artifact{}, err
	}
	defer w.Abort()
	if _, err := io.Copy(w, Content(a.Text, int64(a.Size))); err != nil {
		return capabilities.Artifact{}, err
	}
	return w.Commit()
}

// Runs is how often a call with that text was executed: the ground truth.
func (h *Handler) Runs(text string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[text]
}

// Finish lets slow calls with that text finish.
func (h *Handler) Finish(text string) {
	gate := h.gate(text)
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-gate:
	default:
		close(gate)
	}
}

func (h *Handler) gate(text string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.release[text]
	if !ok {
		c = make(chan struct{})
		h.release[text] = c
	}
	return c
}

// AwaitStart waits until some call began and returns its text, or "" after limit.
func (h *Handler) AwaitStart(limit time.Duration) string {
	select {
	case text := <-h.started:
		return text
	case <-time.After(limit):
		return ""
	}
}

// CloseLane has nothing to free.
func (h *Handler) CloseLane(capabilities.LaneID) {}

// Close has nothing to free.
func (h *Handler) Close() error { return nil }
