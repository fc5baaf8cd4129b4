package suite

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite/tracetest"
)

// nasty is what pages and tools may put into any text.
const nasty = "<script>alert(1)</script> & \"quotes\" 'n \x00\x1b[31m ]]> \u2028 \xff https://evil.example/x.js"

// made is a report with one behaviour of each end.
func made() *Report {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &Call{Tool: "click", Args: map[string]any{"selector": nasty}, Sent: began, Answered: began.Add(40 * time.Millisecond), ID: "c1", Lane: "l", Code: "element_not_found", Message: nasty}
	packets := []packet{
		{TimeUS: began.Add(3 * time.Millisecond).UnixMicro(), Seq: 7, Kind: "tool.call.request", Body: map[string]any{"surface": "mcp"}},
		{TimeUS: began.Add(3 * time.Millisecond).UnixMicro(), Seq: 8, Kind: "tool.call.decision", Body: map[string]any{"effect": "allow", "policies": []any{"p"}}},
		{TimeUS: began.Add(3 * time.Millisecond).UnixMicro(), Seq: 9, Kind: "tool.call.dispatch", Body: map[string]any{"deadline_ms": 30000.0}},
		{TimeUS: began.Add(38 * time.Millisecond).UnixMicro(), Seq: 10, Kind: "tool.call.failed", Body: map[string]any{"status": "error", "duration_ms": 36.5, "hops_us": []any{10.0, 20.0, 30.0, 40.0, 50.0, 1500.0, 1600.0, 1700.0, 36000.0, 36400.0}}},
	}
	t := &Trace{
		ID: "click.bad", Title: nasty, Proves: nasty, Error: nasty, Runs: nasty, Suite: "browser", Behind: nasty, Node: "n1", Began: began,
		Image: Moment{MIME: "image/png", Image: []byte{1, 2, 3}}.url(), Outline: nasty, Console: []string{nasty}, Network: []string{nasty}, Served: nasty,
		Calls: []CallView{{N: 1, Tool: "click", Args: nasty, End: nasty, ID: "c1", Hops: hops(c, packets), Framed: true, After: Moment{MIME: "image/png", Image: []byte{1}}.url(), Difference: difference("a\nb\nc", "a\n"+nasty+"\nc")}},
	}
	return &Report{Suite: "browser", Behind: nasty, Node: "n1", URL: "http://127.0.0.1:1/mcp", Began: began, Took: time.Second, Outcomes: []Outcome{
		{Behaviour: &Behaviour{ID: "click.bad", Title: nasty, Proves: nasty}, Status: Failed, Error: nasty + "\nsecond line", Trace: t, Duration: time.Second},
		{Behaviour: &Behaviour{ID: "click.good", Title: "t", Proves: "p"}, Status: Passed, Duration: 1500 * time.Microsecond},
		{Behaviour: &Behaviour{ID: "wait.left", Title: "t", Proves: "p"}, Status: NotRun, Error: "interrupted"},
	}}
}

func TestJUnit(t *testing.T) {
	var out bytes.Buffer
	if err := made().JUnit(&out); err != nil {
		t.Fatal(err)
	}
	type counts struct {
		Tests    int     `xml:"tests,attr"`
		Failures int     `xml:"failures,attr"`
		Skipped  int     `xml:"skipped,attr"`
		Time     float64 `xml:"time,attr"`
	}
	var got struct {
		counts
		Suites []struct {
			counts
			Name  string `xml:"name,attr"`
			Cases []struct {
				Class   string    `xml:"classname,attr"`
				Name    string    `xml:"name,attr"`
				Failure *string   `xml:"failure"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
			Properties []struct {
				Name  string `xml:"name,attr"`
				Value string `xml:"value,attr"`
			} `xml:"properties>property"`
		} `xml:"testsuite"`
	}
	d := xml.NewDecoder(bytes.NewReader(out.Bytes()))
	d.Strict = true
	if err := d.Decode(&got); err != nil {
		t.Fatalf("not well-formed: %v\n%s", err, out.String())
	}
	if got.Tests != 3 || got.Failures != 1 || got.Skipped != 1 || len(got.Suites) != 2 || got.Suites[0].Tests != 2 || got.Suites[0].Failures != 1 || got.Suites[1].Skipped != 1 {
		t.Errorf("the counts are wrong:\n%s", out.String())
	}
	c := got.Suites[0].Cases
	if c[0].Failure == nil || !strings.Contains(*c[0].Failure, "second line") || c[1].Failure != nil || got.Suites[1].Cases[0].Skipped == nil || c[0].Class != "browser.click" {
		t.Errorf("the cases are wrong:\n%s", out.String())
	}
	if p := got.Suites[0].Properties; len(p) != 3 || p[0].Name != "chrome" || p[1].Value != "n1" {
		t.Errorf("properties %+v", p)
	}
	if strings.ContainsAny(out.String(), "\x00\x1b") {
		t.Error("it holds control characters")
	}
}

func TestReportJSON(t *testing.T) {
	var out bytes.Buffer
	if err := made().JSON(&out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Total, Passed, Failed int
		NotRun                int `json:"not_run"`
		Behaviours            []OutcomeView
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Total != 3 || got.Passed != 1 || got.Failed != 1 || got.NotRun != 1 || got.Behaviours[0].Trace != "traces/click.bad.html" || got.Behaviours[1].Trace != "" {
		t.Errorf("%s", out.String())
	}
}

func TestTraceNeedsNothingElse(t *testing.T) {
	dir := t.TempDir()
	if err := made().WriteTo(dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "traces", "click.bad.html"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	tracetest.Check(t, text)
	for _, want := range []string{"data:image/png;base64,AQID", "&lt;script&gt;", "default-src &#39;none&#39;", "front", "deduplicate", "permit", "guard", "run", "allow, by [&#34;p&#34;]", "&#43;3.0 ms", "packets 7 to 9"} {
		if !strings.Contains(text, want) && !strings.Contains(text, html.UnescapeString(want)) {
			t.Errorf("the trace does not hold %q", want)
		}
	}
	for _, name := range []string{"junit.xml", "report.json"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// The page is made as with plain texts, whatever stands in a trace's, and
// tells them as they are.
func TestTraceEscapes(t *testing.T) {
	with := func(text string, ok bool) *Trace {
		image := Moment{MIME: "image/png", Image: []byte{1, 2, 3}}.url()
		call := CallView{
			N: 1, Tool: text, Args: text, End: text, Lane: text, ID: capabilities.CallID(text), At: text, Took: text, OK: ok,
			Hops: []hop{{N: 1, When: text, What: text}}, Effect: text, Evidence: text, Result: text,
		}
		missing := call
		missing.Hops, missing.HopsMissing, missing.Evidence = nil, text, ""
		step, seen := missing, missing
		step.Framed, step.Difference = true, []changed{{text, text}, {"+", text}, {"-", text}, {" ", text}}
		seen.Framed, seen.Before, seen.After = true, image, image
		return &Trace{
			ID: text, Title: text, Proves: text, Error: text, Runs: text, Lane: text, Suite: text, Behind: text, Node: capabilities.NodeID(text),
			Calls: []CallView{call, missing, step, seen}, Image: image, Outline: text, Console: []string{text}, Network: []string{text}, Served: text,
		}
	}
	// parts returns the page's tags with their attributes, and its texts.
	parts := func(tr *Trace) (tags, texts []string) {
		var out strings.Builder
		if err := tr.Write(&out); err != nil {
			t.Fatal(err)
		}
		tracetest.Check(t, out.String())
		z := html.NewTokenizer(strings.NewReader(out.String()))
		for {
			switch tok := z.Next(); tok {
			case html.ErrorToken:
				return tags, texts
			case html.TextToken:
				texts = append(texts, string(z.Text()))
			default:
				tags = append(tags, z.Token().String())
			}
		}
	}
	for _, ok := range []bool{true, false} {
		const plain = "PLAIN"
		tags, texts := parts(with(plain, ok))
		if n := strings.Count(strings.Join(texts, ""), plain); n < 40 {
			t.Fatalf("only %d texts are told", n)
		}
		for _, hostile := range []string{
			nasty, "</title></style></pre></code></td></li></div><img src=x onerror=alert(1)>", `" onclick="alert(1)`, `' onclick='alert(1)`, "`onclick=alert(1)",
			"--><script>alert(1)</script>", "<!--", "<![CDATA[", "&lt;script&gt;", "&", "%v%s%!d(", "javascript:alert(1)", "\x00\xff\xed\xa0\x80", "a\nb\tc",
		} {
			gotTags, gotTexts := parts(with(hostile, ok))
			if !slices.Equal(gotTags, tags) {
				t.Errorf("%q changes the page's tags:\n%q\nwant\n%q", hostile, gotTags, tags)
			}
			shown := strings.ReplaceAll(strings.ToValidUTF8(hostile, "\uFFFD"), "\x00", "\uFFFD")
			for i, text := range texts {
				if want := strings.ReplaceAll(text, plain, shown); i >= len(gotTexts) || gotTexts[i] != want {
					t.Errorf("%q is told as %q, want %q", hostile, gotTexts[min(i, len(gotTexts)-1)], want)
				}
			}
		}
	}
	for _, hostile := range []string{nasty, `" onclick="alert(1)`, "' onclick='alert(1)", "a>b"} {
		var f form // within quotes
		f.image(imageURL(hostile), hostile, "", hostile)
		z := html.NewTokenizer(strings.NewReader(f.b.String()))
		z.Next()
		shown := strings.ReplaceAll(strings.ToValidUTF8(hostile, "\uFFFD"), "\x00", "\uFFFD")
		if tok := z.Token(); len(tok.Attr) != 3 || tok.Attr[0].Val != shown || tok.Attr[1].Val != shown || tok.Attr[2].Val != shown || z.Next() != html.ErrorToken {
			t.Errorf("%q within quotes makes %s", hostile, &f.b)
		}
	}
	for _, mime := range []string{"text/html", `image/png" onerror="alert(1)`, "image/svg+xml", ""} {
		if url := (Moment{MIME: mime, Image: []byte{1}}).url(); url != "" {
			t.Errorf("%q is taken for a picture: %s", mime, url)
		}
	}
}

func TestHops(t *testing.T) {
	began := time.Now()
	c := &Call{Sent: began, Answered: began.Add(time.Second)}
	if got := hops(c, nil); got != nil {
		t.Errorf("hops of nothing: %v", got)
	}
	// A refusal is never dispatched.
	got := hops(c, []packet{{TimeUS: began.UnixMicro(), Seq: 1, Kind: "tool.call.request"}, {TimeUS: began.UnixMicro(), Seq: 2, Kind: "tool.call.decision", Body: map[string]any{"effect": "deny", "code": "denied_by_policy"}}, {TimeUS: began.UnixMicro(), Seq: 3, Kind: "tool.call.failed"}})
	if len(got) != 12 || got[7].What != "not dispatched" || !strings.Contains(got[3].What, "denied_by_policy") {
		t.Errorf("%+v", got)
	}
	// One that ran has a time at each hop, by the gateway's clock.
	ends := []any{100.0, 200.0, 300.0, 400.0, 500.0, 900.0, 950.0, 1200.0, 3000.0, 3500.0}
	at := func(us int64) int64 { return began.UnixMicro() + us }
	got = hops(c, []packet{{TimeUS: at(900), Seq: 1, Kind: "tool.call.request"}, {TimeUS: at(900), Seq: 2, Kind: "tool.call.decision"}, {TimeUS: at(900), Seq: 3, Kind: "tool.call.dispatch"},
		{TimeUS: at(4500), Seq: 4, Kind: "tool.call.result", Body: map[string]any{"duration_ms": 3.5, "hops_us": ends}}})
	var whens []string
	for _, h := range got {
		whens = append(whens, h.When)
	}
	if want := "+1.0 ms +1.1 ms +1.2 ms +1.3 ms +1.4 ms +1.5 ms +1.9 ms +1.9 ms +2.2 ms +4.0 ms +4.5 ms +1000.0 ms"; strings.Join(whens, " ") != want {
		t.Errorf("%q, want %q", whens, want)
	}
}

func TestDifference(t *testing.T) {
	var signs string
	for _, c := range difference("a\nb\nc\nd", "a\nc\nx\nd") {
		signs += c.Sign
	}
	if signs != " - + " {
		t.Errorf("%q", signs)
	}
	if got := difference("a\nb", "a\nb"); got != nil {
		t.Errorf("no change gives %v", got)
	}
	long := strings.Repeat("same\n", 50)
	if got := difference(long+"old", long+"new"); len(got) != 5 || got[0].Text != "…" || got[3].Text != "old" || got[4].Text != "new" {
		t.Errorf("far from a change: %v", got)
	}
}
