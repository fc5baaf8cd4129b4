package capability

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Names of what WriteTo leaves in a folder; traces are below TraceDir.
const (
	JUnitName = "junit.xml"
	JSONName  = "report.json"
	TraceDir  = "traces"
)

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

func (r *Report) suite() string { return or(r.Suite, "browser") }

// behind names what Chrome is of.
func (r *Report) behind() string {
	if r.suite() == "browser" {
		return "chrome"
	}
	return r.suite()
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

// View gives the outcome as JSON has it.
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
		"suite": r.suite(), r.behind(): r.Chrome, "node_id": r.Node, "url": r.URL, "origins": r.Origins,
		"began_at": r.Began.UTC().Format(time.RFC3339), "duration_ms": r.Took.Milliseconds(),
		"total": len(r.Outcomes), "passed": r.Count(Passed), "failed": r.Count(Failed), "not_run": r.Count(NotRun),
		"behaviours": views,
	})
}

type junitSuites struct {
	XMLName xml.Name `xml:"testsuites"`
	Name    string   `xml:"name,attr"`
	junitCounts
	Suites []junitSuite `xml:"testsuite"`
}

type junitCounts struct {
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Skipped  int    `xml:"skipped,attr"`
	Time     string `xml:"time,attr"`
}

type junitSuite struct {
	Name string `xml:"name,attr"`
	junitCounts
	Timestamp  string          `xml:"timestamp,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure"`
	Skipped *junitFailure `xml:"skipped"`
	Output  string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes the report in the form that CI systems read; each family is a
// test suite of its own.
func (r *Report) JUnit(w io.Writer) error {
	top := junitSuites{Name: "handrail suite " + r.suite()}
	top.Time = seconds(r.Took)
	spent := map[string]time.Duration{}
	for _, o := range r.Outcomes {
		if n := len(top.Suites); n == 0 || top.Suites[n-1].Name != o.Family() {
			top.Suites = append(top.Suites, junitSuite{Name: o.Family(), Timestamp: r.Began.UTC().Format("2006-01-02T15:04:05"), Properties: []junitProperty{
				{r.behind(), text(r.Chrome)}, {"node", text(string(r.Node))}, {"gateway", text(r.URL)},
			}})
		}
		s := &top.Suites[len(top.Suites)-1]
		c := junitCase{Class: r.suite() + "." + o.Family(), Name: text(o.ID + ": " + o.Title), Time: seconds(o.Duration)}
		s.Tests++
		top.Tests++
		switch o.Status {
		case Failed:
			first, _, _ := strings.Cut(o.Error, "\n")
			c.Failure = &junitFailure{text(clip(first, 300)), text(o.Error)}
			if o.Trace != nil {
				c.Output = text("trace: " + o.tracePath())
			}
			s.Failures++
			top.Failures++
		case NotRun:
			c.Skipped = &junitFailure{Message: text(o.Error)}
			s.Skipped++
			top.Skipped++
		}
		spent[o.Family()] += o.Duration
		s.Time = seconds(spent[o.Family()])
		s.Cases = append(s.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(top); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// text drops what XML can not hold; the encoder escapes the rest.
func text(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' || r == 0xfffe || r == 0xffff {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
