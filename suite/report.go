package suite

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Names of what WriteTo leaves in a folder; traces are below TraceDir.
const (
	JUnitName = "junit.xml"
	JSONName  = "report.json"
	TraceDir  = "traces"
)

// Report is what came of a run.
type Report struct {
	Suite    string // "browser" or "desktop"
	Behind   string // what stands behind the tools: Chrome's version, the desktop's mode
	Node     capabilities.NodeID
	URL      string
	Origins  []string // of the suite's own pages
	Began    time.Time
	Took     time.Duration
	Outcomes []Outcome // sorted by ID
}

// Count returns how many ended so.
func (r *Report) Count(s Status) (n int) {
	for _, o := range r.Outcomes {
		if o.Status == s {
			n++
		}
	}
	return n
}

// WriteTo writes the report into a folder: JUnit, JSON, and a trace for each
// failure.
func (r *Report) WriteTo(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer) error{JUnitName: r.JUnit, JSONName: r.JSON} {
		if err := toFile(filepath.Join(dir, name), write); err != nil {
			return err
		}
	}
	for _, o := range r.Outcomes {
		if o.Trace == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Join(dir, TraceDir), 0o755); err != nil {
			return err
		}
		if err := toFile(filepath.Join(dir, filepath.FromSlash(o.tracePath())), o.Trace.Write); err != nil {
			return err
		}
	}
	return nil
}

// BehindName names what Behind is of.
func (r *Report) BehindName() string {
	if r.Suite == "browser" {
		return "chrome"
	}
	return r.Suite
}

func (o *Outcome) tracePath() string {
	if o.Trace == nil {
		return ""
	}
	return TraceDir + "/" + o.ID + ".html"
}

func toFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// OutcomeView is an outcome as JSON.
type OutcomeView struct {
	ID         string  `json:"id"`
	Title      string  `json:"title"`
	Proves     string  `json:"proves"`
	Status     Status  `json:"status"`
	DurationMS float64 `json:"duration_ms"`
	Calls      int     `json:"calls"`
	Error      string  `json:"error,omitempty"`
	Trace      string  `json:"trace,omitempty"` // path below the report's folder
}

// View returns the outcome as JSON has it.
func (o *Outcome) View() OutcomeView {
	return OutcomeView{o.ID, o.Title, o.Proves, o.Status, float64(o.Duration.Microseconds()) / 1000, o.Calls, o.Error, o.tracePath()}
}

// JSON writes the report as one object.
func (r *Report) JSON(w io.Writer) error {
	views := make([]OutcomeView, len(r.Outcomes))
	for i := range r.Outcomes {
		views[i] = r.Outcomes[i].View()
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{
		"suite": r.Suite, r.BehindName(): r.Behind, "node_id": r.Node, "url": r.URL, "origins": r.Origins,
		"began_at": r.Began.UTC().Format(time.RFC3339), "duration_ms": r.Took.Milliseconds(),
		"total": len(r.Outcomes), "passed": r.Count(Passed), "failed": r.Count(Failed), "not_run": r.Count(NotRun),
		"behaviours": views,
	})
}
