package suite

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Moment is what was shown at one time, as far as it could be had.
type Moment struct {
	After            *Call // nil: at the beginning, or at the end
	MIME             string
	Image            []byte
	Outline          string
	Console, Network []any // nil: not known
}

// Ended is all that a suite knows of one run of a behaviour.
type Ended struct {
	Failed  string
	Calls   []*Call
	Moments []Moment // after a call each, where the run was under record
	End     Moment
	Lane    string // that failed
	Served  string // what the suite's server was asked for
}

// Trace is all that is known about one run that failed. Write writes it as one HTML
// file that needs nothing else.
type Trace struct {
	ID, Title, Proves, Error string
	Runs                     string // which of the behaviour's two runs this is, and how the other ended
	Suite, Behind            string // as in Report
	Node                     capabilities.NodeID
	Began                    time.Time
	Calls                    []CallView
	Lane                     string // that failed, where there are several
	Image                    imageURL
	Outline                  string
	Console, Network         []string
	Served                   string
}

// CallView is one call with its way through the system, and under record with what
// its lane's page showed before and after it.
type CallView struct {
	N                        int
	Tool, Args, End          string
	Lane                     string // where there are several
	ID                       capabilities.CallID
	At                       string // since the first call
	Took                     string
	OK                       bool
	Hops                     []hop
	HopsMissing              string
	Effect, Evidence, Result string
	Framed                   bool
	Before, After            imageURL
	Difference               []changed
}

// changed is one line of a difference: "+", "-" or " ".
type changed struct{ Sign, Text string }

// TraceOf puts together what is known about a run that failed. Runs says which of the
// behaviour's two runs it is, and how the other ended.
func (r *Report) TraceOf(ctx context.Context, o Options, out Outcome, e Ended, runs string) *Trace {
	t := &Trace{
		ID: out.ID, Title: out.Title, Proves: out.Proves, Error: e.Failed, Runs: runs, Suite: r.Suite, Behind: r.Behind, Node: r.Node,
		Image: e.End.url(), Outline: e.End.Outline, Served: e.Served,
		Console: lines(e.End.Console, "type", "text"), Network: lines(e.End.Network, "method", "url", "status", "failure"),
	}
	calls, shown := e.Calls, map[string]Moment{} // what each lane showed last
	several := slices.ContainsFunc(calls, func(c *Call) bool { return c.Lane != calls[0].Lane })
	if several {
		t.Lane = e.Lane
	}
	for i, c := range calls {
		if i == 0 {
			t.Began = c.Sent
		}
		v := CallView{
			N: i + 1, Tool: c.Tool, Args: capabilities.Brief(JSON(c.Args), 1500), ID: c.ID, OK: c.Code == "", End: "ok",
			At: millis(c.Sent.Sub(t.Began)), Took: millis(c.Answered.Sub(c.Sent)), Effect: string(c.Effect), Evidence: c.Evidence,
			Result: capabilities.Brief(JSON(c.Result), 1500),
		}
		if several {
			v.Lane = c.Lane
		}
		if c.Code != "" {
			v.End = string(c.Code) + ": " + c.Message
		}
		// The last calls are those that matter; each costs a request.
		if c.ID != "" && i >= len(calls)-12 {
			packets, err := o.packets(ctx, c.ID)
			if err != nil {
				v.HopsMissing = err.Error()
			}
			v.Hops = hops(c, packets)
		}
		if at := slices.IndexFunc(e.Moments, func(m Moment) bool { return m.After == c }); at >= 0 {
			before, after := shown[c.Lane], e.Moments[at]
			v.Framed, v.Before, v.After, v.Difference = true, before.url(), after.url(), difference(before.Outline, after.Outline)
			shown[c.Lane] = after
		}
		t.Calls = append(t.Calls, v)
	}
	return t
}

// imageURL is a picture as the address that holds it, or nothing.
type imageURL string

// images are the forms that a picture may have: an address names its own.
var images = map[string]bool{"image/png": true, "image/jpeg": true, "image/webp": true}

func (m Moment) url() imageURL {
	if len(m.Image) == 0 || !images[m.MIME] {
		return ""
	}
	return imageURL("data:" + m.MIME + ";base64," + base64.StdEncoding.EncodeToString(m.Image))
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// lines returns the named fields of each entry; nil for a list that is not known.
func lines(list []any, fields ...string) []string {
	if list == nil {
		return nil
	}
	all := []string{}
	for _, x := range list {
		m, _ := x.(map[string]any)
		var words []string
		for _, f := range fields {
			if v, ok := m[f]; ok {
				words = append(words, fmt.Sprint(v))
			}
		}
		all = append(all, capabilities.Brief(strings.Join(words, "  "), 500))
	}
	return all
}

// hop is one of the twelve steps of a call's way.
type hop struct {
	N    capabilities.Hop
	When string
	What string
}

// packet is what the ledger has about a call.
type packet struct {
	TimeUS int64          `json:"time_us"`
	Seq    uint64         `json:"seq"`
	Kind   string         `json:"kind"`
	Body   map[string]any `json:"body"`
}

// packets reads the ledger over the gateway's REST surface.
func (o Options) packets(ctx context.Context, id capabilities.CallID) ([]packet, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	base := strings.TrimSuffix(strings.TrimSuffix(o.URL, "/"), "/mcp")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/ledger/packets?call="+url.QueryEscape(string(id)), nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: bearer{o.ReadToken, o.Way}}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the ledger answered %s; reading it needs an operator's token", resp.Status)
	}
	var list struct {
		Packets []packet `json:"packets"`
	}
	return list.Packets, json.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(&list)
}

// hops tells the twelve hops of docs/architecture.md from what is recorded: the
// caller's own clock, the ledger's packets and the result. Times count from when
// the caller sent the call.
func hops(c *Call, packets []packet) []hop {
	kinds := map[string]packet{}
	var end packet
	for _, p := range packets {
		kinds[p.Kind] = p
		end = p
	}
	if len(packets) == 0 {
		return nil
	}
	since := func(us int64) string { return "+" + millis(time.UnixMicro(us).Sub(c.Sent)) }
	text := func(p packet, path string) string {
		v := Pick(map[string]any(p.Body), path)
		if v == nil {
			return ""
		}
		if s, ok := v.(string); ok {
			return capabilities.Brief(s, 80)
		}
		return capabilities.Brief(JSON(v), 200)
	}
	ends, _ := end.Body["hops_us"].([]any)
	request, decision, dispatch := kinds["tool.call.request"], kinds["tool.call.decision"], kinds["tool.call.dispatch"]
	took, _ := end.Body["duration_ms"].(float64)
	ended := strings.HasSuffix(end.Kind, ".result") || strings.HasSuffix(end.Kind, ".failed") || strings.HasSuffix(end.Kind, ".reconciled")
	came := end.TimeUS - int64(took*1000)
	began := ""
	if ended && took > 0 {
		began = since(came)
	}
	when := func(h capabilities.Hop) string {
		at := int(h - capabilities.HopResolve) // hops_us begins there
		if at >= len(ends) || began == "" {
			return ""
		}
		us, _ := ends[at].(float64)
		if us == 0 {
			return ""
		}
		return since(came + int64(us))
	}
	said := func(pairs ...string) string {
		var all []string
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i+1] != "" {
				all = append(all, strings.TrimSpace(pairs[i]+" "+pairs[i+1]))
			}
		}
		return strings.Join(all, ", ")
	}
	list := []hop{
		{capabilities.HopFront, began, said("surface", text(request, "surface"), "lane", c.Lane)},
		{capabilities.HopResolve, when(capabilities.HopResolve), said("arguments", text(request, "args_digest"))},
		{
			capabilities.HopPlace, when(capabilities.HopPlace),
			said("", text(decision, "routing.selection_mode"), "node", text(decision, "routing.selected_node_id")),
		},
		{capabilities.HopDecide, when(capabilities.HopDecide), said("", text(decision, "effect"), "by", text(decision, "policies"),
			"", text(decision, "code"), "envelope", text(decision, "envelope_hash"))},
		{capabilities.HopDedupe, when(capabilities.HopDedupe), or(said("request", text(request, "request_id")), "a request of its own")},
		{
			capabilities.HopPermit, when(capabilities.HopPermit),
			or(said("allowed by", text(decision, "grant"), "waits for", text(end, "approval")), "none asked"),
		},
		{capabilities.HopCommit, when(capabilities.HopCommit), fmt.Sprintf("packets %d to %d", request.Seq, max(decision.Seq, dispatch.Seq))},
		{
			capabilities.HopSend, when(capabilities.HopSend),
			said("deadline", text(dispatch, "deadline_ms")+" ms", "grants", text(dispatch, "grants")),
		},
		{capabilities.HopGuard, when(capabilities.HopGuard), or(
			said("isolation given", text(end, "isolation_given"), "accepted without", text(decision, "isolation_degraded")),
			"told by the node's own journal")},
		{capabilities.HopRun, when(capabilities.HopRun), or(said("observed", text(end, "observed")), "told by the node's own journal")},
		{
			capabilities.HopRecord, when(capabilities.HopRecord),
			said("packet", fmt.Sprint(end.Seq), "", end.Kind, "output", text(end, "output_digest")),
		},
		{
			capabilities.HopAnswer, "+" + millis(c.Answered.Sub(c.Sent)),
			said("", text(end, "status"), "", text(end, "code"), "effect", text(end, "effect")),
		},
	}
	if dispatch.Seq == 0 {
		list[6].What, list[7].What, list[8].What, list[9].What = "nothing was to run", "not dispatched", "not reached", "not reached"
	}
	return list
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// difference compares two outlines line by line.
func difference(before, after string) []changed {
	split := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return r == '\n' })
	}
	a, b := split(before), split(after)
	if len(a) > 400 {
		a = a[:400]
	}
	if len(b) > 400 {
		b = b[:400]
	}
	// The longest common subsequence; outlines are short.
	length := make([][]int, len(a)+1)
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	var out []changed
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, changed{" ", a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && length[i+1][j] >= length[i][j+1]:
			out = append(out, changed{"-", a[i]})
			i++
		default:
			out = append(out, changed{"+", b[j]})
			j++
		}
	}
	return around(out)
}

// around leaves out what is far from any change; nothing is left where nothing
// changed.
func around(all []changed) []changed {
	const near = 2
	keep := make([]bool, len(all))
	for i, c := range all {
		if c.Sign != " " {
			for j := max(0, i-near); j <= min(len(all)-1, i+near); j++ {
				keep[j] = true
			}
		}
	}
	var out []changed
	for i, c := range all {
		switch {
		case keep[i]:
			out = append(out, c)
		case len(out) > 0 && out[len(out)-1].Text != "…":
			out = append(out, changed{" ", "…"})
		case i == 0 && slices.Contains(keep, true):
			out = append(out, changed{" ", "…"})
		}
	}
	return out
}
