package browser

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/traffic"
)

// Network rules are a lane's: they hold in its tabs, frames and workers, also in those that come
// later, until they are removed or the lane ends. Chrome asks about a request before it leaves the
// page's process; what goes on goes by the lane's own way out, which judges it as ever. A rule that
// answers or changes a request can lie to a page, so it has a key of its own, and every call says
// what rules did since the call before.

// ruleKey is the capability key of rules that answer requests or change them.
const ruleKey = "network.browser.mock"

const maxRules = 300

// laneRules are the rules of one lane; guarded by lane.mu.
type laneRules struct {
	list []*laneRule
	next int
}

type laneRule struct {
	traffic.Rule
	id           string
	hits, untold int
}

// ruleEntry is a rule as it is told.
type ruleEntry struct {
	ID     string       `json:"id"`
	Kind   traffic.Kind `json:"kind"`
	URL    string       `json:"match"`
	Method string       `json:"method,omitempty"`
	Status int          `json:"status,omitempty"`
	Hits   int          `json:"hits"`
}

type ruleArgs struct {
	Action      string            `json:"action"`
	ID          string            `json:"id"`
	Kind        traffic.Kind      `json:"kind"`
	URL         string            `json:"match"`
	Method      string            `json:"method"`
	Status      int               `json:"status"`
	ContentType string            `json:"content_type"`
	Body        string            `json:"body"`
	Headers     map[string]string `json:"headers"`
	DelayMS     int               `json:"delay_ms"`
	HAR         string            `json:"har"`
	Bodies      bool              `json:"bodies"`
	KeepAs      string            `json:"keep_as"`
}

// networkRules carries out tyrum.browser.network-rules.
func networkRules(c *call) (capabilities.Output, error) {
	args := ruleArgs{Status: 200, KeepAs: "requests.har"}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if args.Action == "record" {
		return c.record(args)
	}
	if args.Action == "list" {
		return capabilities.Output{Result: c.rules(), Untrusted: true}, nil
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	if c.tab.chrome.Attached {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeDeniedByNode,
			"The requests of a person's own browser are not changed.").
			WithHint("Launch without attach.")
	}
	if args.Action == "remove" {
		return c.removeRules(args.ID)
	}
	rules, err := args.made()
	if err != nil {
		return capabilities.Output{}, err
	}
	answers := slices.ContainsFunc(rules, func(r traffic.Rule) bool {
		return r.Kind == traffic.Mock || r.Kind == traffic.Headers
	})
	if answers && !slices.Contains(c.inv.Grants, ruleKey) {
		return capabilities.Output{}, errNoMock
	}
	return c.addRules(rules)
}

var errNoMock = capabilities.Errorf(capabilities.CodeDeniedByPolicy, "Policy withholds %s from this call.", ruleKey).
	WithHint("Block and delay need no key of their own; ask whoever writes the policy for the others.")

// made are the rules that a call adds.
func (a ruleArgs) made() ([]traffic.Rule, error) {
	if a.Action == "replay" {
		rules, err := traffic.Replay([]byte(a.HAR))
		if err != nil {
			return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "har: %s.", err).
				WithHint("Give a HAR 1.2 file with answered requests.")
		}
		return rules, nil
	}
	if a.Kind == "" || a.URL == "" {
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "A rule has kind and match.").
			WithHint("Such as kind block and match *://ads.example/*.")
	}
	r := traffic.Rule{
		Kind: a.Kind, URL: a.URL, Method: a.Method, Status: a.Status, ContentType: a.ContentType, Body: []byte(a.Body), Header: a.Headers,
		DelayMS: a.DelayMS,
	}
	if err := r.Check(); err != nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "%s.", err)
	}
	return []traffic.Rule{r}, nil
}

// addRules puts rules behind those there are, and waits until every tab asks about its requests.
func (c *call) addRules(rules []traffic.Rule) (capabilities.Output, error) {
	l := c.lane
	l.mu.Lock()
	if len(l.rules.list)+len(rules) > maxRules {
		l.mu.Unlock()
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeOverloaded, "A conversation has at most %d network rules.", maxRules).
			WithHint("Remove some first.")
	}
	for _, r := range rules {
		l.rules.next++
		l.rules.list = append(l.rules.list, &laneRule{Rule: r, id: "rule-" + strconv.Itoa(l.rules.next)})
	}
	l.mu.Unlock()
	tabs, err := c.applyRules()
	if err != nil {
		return capabilities.Output{}, err
	}
	return capabilities.Output{Result: c.rules(), Effect: capabilities.EffectConfirmed, Untrusted: true,
		Evidence: fmt.Sprintf("the %d tabs ask before each request that a rule is about", tabs)}, nil
}

func (c *call) removeRules(id string) (capabilities.Output, error) {
	l := c.lane
	l.mu.Lock()
	before := len(l.rules.list)
	l.rules.list = slices.DeleteFunc(l.rules.list, func(r *laneRule) bool { return id == "" || r.id == id })
	gone := before - len(l.rules.list)
	l.mu.Unlock()
	if id != "" && gone == 0 {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNotFound, "There is no %s.", capabilities.Clip(id, 40)).
			WithHint("List the rules.")
	}
	if _, err := c.applyRules(); err != nil {
		return capabilities.Output{}, err
	}
	return capabilities.Output{Result: c.rules(), Effect: capabilities.EffectConfirmed, Untrusted: true,
		Evidence: fmt.Sprintf("%d rules are gone", gone)}, nil
}

// applyRules has every session of the lane's tabs ask about requests, or cease to.
func (c *call) applyRules() (tabs int, err error) {
	all, _ := c.lane.list()
	var sent []*devtools.Pending
	for _, t := range all {
		if t.isCrashed() {
			continue
		}
		tabs++
		for _, s := range t.sessions() {
			sent = append(sent, c.lane.askByRules(c.ctx, s)...)
		}
	}
	for _, p := range sent {
		if _, err := p.Wait(c.ctx); err != nil && c.ctx.Err() != nil {
			return 0, err // a frame that goes meanwhile needs none
		}
	}
	return tabs, nil
}

type ruleList struct {
	Rules []ruleEntry `json:"rules"`
}

func (c *call) rules() ruleList {
	c.lane.mu.Lock()
	defer c.lane.mu.Unlock()
	told := ruleList{[]ruleEntry{}}
	for _, r := range c.lane.rules.list {
		e := ruleEntry{ID: r.id, Kind: r.Kind, URL: r.URL, Method: r.Method, Hits: r.hits}
		if r.Kind == traffic.Mock {
			e.Status = r.Status
		}
		told.Rules = append(told.Rules, e)
	}
	return told
}

// askByRules has Chrome ask about the requests of a session that a rule may be about.
func (l *lane) askByRules(ctx context.Context, s *devtools.Session) []*devtools.Pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rules.list) == 0 {
		if l.rules.next == 0 { // there never was one
			return nil
		}
		return []*devtools.Pending{
			devtools.Start(ctx, s, fetch.Disable, cdp.Empty{}).Pending,
			devtools.Start(ctx, s, network.SetBypassServiceWorker, network.SetBypassServiceWorkerParams{Bypass: false}).Pending,
		}
	}
	var patterns []*fetch.RequestPattern
	for _, r := range l.rules.list {
		if r.Kind == traffic.Headers { // a redirect elsewhere must be seen, to take them out again
			patterns = []*fetch.RequestPattern{{URLPattern: "*"}}
			break
		}
		patterns = append(patterns, &fetch.RequestPattern{URLPattern: strings.NewReplacer(`\`, `\\`, "?", `\?`).Replace(r.URL)})
	}
	return []*devtools.Pending{
		// A page's own worker would answer before Chrome asks.
		devtools.Start(ctx, s, network.SetBypassServiceWorker, network.SetBypassServiceWorkerParams{Bypass: true}).Pending,
		devtools.Start(ctx, s, fetch.Enable, fetch.EnableParams{Patterns: patterns}).Pending,
	}
}

// pausedRequest is a request that Chrome asks about.
type pausedRequest struct {
	RequestID  fetch.RequestID `json:"requestId"`
	Redirected string          `json:"redirectedRequestId"`
	Request    struct {
		URL     string            `json:"url"`
		Method  string            `json:"method"`
		Headers map[string]string `json:"headers"`
	} `json:"request"`
}

// paused answers for a request that Chrome asks about. It runs on the reading goroutine.
func (t *laneTab) paused(s *devtools.Session, params []byte) {
	if t.chrome.Attached {
		t.chrome.heedGateway(s, params)
		return
	}
	var e pausedRequest
	if !decodeEvent(params, &e) {
		return
	}
	r, others := t.lane.ruleFor(e.Request.Method, e.Request.URL)
	goOn := fetch.ContinueRequestParams{RequestID: e.RequestID}
	if e.Redirected != "" && len(others) > 0 { // headers for one origin do not follow to another
		goOn.Headers = withHeaders(e.Request.Headers, nil, others)
	}
	if r == nil {
		devtools.Start(t.life, s, fetch.ContinueRequest, goOn)
		return
	}
	switch r.Kind {
	case traffic.Block:
		devtools.Start(t.life, s, fetch.FailRequest,
			fetch.FailRequestParams{RequestID: e.RequestID, ErrorReason: network.ErrorReasonBlockedByClient})
	case traffic.Mock:
		t.answerBy(s, r, e)
	case traffic.Headers:
		goOn.Headers = withHeaders(e.Request.Headers, r.Header, others)
		devtools.Start(t.life, s, fetch.ContinueRequest, goOn)
	default:
		t.later(time.Duration(r.DelayMS)*time.Millisecond, func() { devtools.Start(t.life, s, fetch.ContinueRequest, goOn) })
	}
}

// answerBy answers a request by a mock, after its delay.
func (t *laneTab) answerBy(s *devtools.Session, r *laneRule, e pausedRequest) {
	head := []*fetch.HeaderEntry{{Name: "X-Handrail-Rule", Value: r.id}}
	if r.ContentType != "" {
		head = append(head, &fetch.HeaderEntry{Name: "Content-Type", Value: r.ContentType})
	}
	open := false
	for name, value := range r.Header {
		head = append(head, &fetch.HeaderEntry{Name: name, Value: value})
		open = open || strings.EqualFold(name, "access-control-allow-origin")
	}
	if !open { // the page is to have the answer, whose origin it is of does not matter
		head = append(head, &fetch.HeaderEntry{Name: "Access-Control-Allow-Origin", Value: "*"})
	}
	t.later(time.Duration(r.DelayMS)*time.Millisecond, func() {
		devtools.Start(t.life, s, fetch.FulfillRequest, fetch.FulfillRequestParams{
			RequestID: e.RequestID, ResponseCode: int64(r.Status), ResponseHeaders: head, Body: r.Body,
		})
	})
}

// later does it after a while, unless the tab ends.
func (t *laneTab) later(wait time.Duration, do func()) {
	if wait <= 0 {
		do()
		return
	}
	t.chrome.h.wg.Go(func() {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
			do()
		case <-t.life.Done():
		}
	})
}

// ruleFor returns the latest rule that is about a request, nil for none, and the names of headers
// that rules for other addresses add.
func (l *lane) ruleFor(method, address string) (found *laneRule, others []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range slices.Backward(l.rules.list) {
		switch matches := r.Matches(method, address); {
		case matches && found == nil:
			found = r
			r.hits++
			r.untold++
		case r.Kind == traffic.Headers && !matches:
			for name := range r.Header {
				others = append(others, name)
			}
		}
	}
	return found, others
}

// withHeaders are a request's headers with those of a rule, and without those of others.
func withHeaders(have, add map[string]string, without []string) (all []*fetch.HeaderEntry) {
	given := func(list map[string]string, name string) bool {
		for other := range list {
			if strings.EqualFold(other, name) {
				return true
			}
		}
		return false
	}
	for name, value := range have {
		if !given(add, name) && !slices.ContainsFunc(without, func(other string) bool { return strings.EqualFold(other, name) }) {
			all = append(all, &fetch.HeaderEntry{Name: name, Value: value})
		}
	}
	for name, value := range add {
		all = append(all, &fetch.HeaderEntry{Name: name, Value: value})
	}
	return all
}

// tellRules says in an answer what network rules did since calls last said it.
func (c *call) tellRules(out *capabilities.Output) {
	c.lane.mu.Lock()
	counts := map[traffic.Kind]int{}
	for _, r := range c.lane.rules.list {
		counts[r.Kind] += r.untold
		r.untold = 0
	}
	c.lane.mu.Unlock()
	words := map[traffic.Kind]string{
		traffic.Mock: "answered by network rules (mock), not by their server", traffic.Block: "blocked by network rules",
		traffic.Delay: "delayed by network rules", traffic.Headers: "sent with headers of network rules",
	}
	for _, kind := range []traffic.Kind{traffic.Mock, traffic.Block, traffic.Delay, traffic.Headers} {
		if n := counts[kind]; n > 0 {
			out.Evidence = joined(out.Evidence, fmt.Sprintf("%d requests were %s", n, words[kind]))
		}
	}
}
