package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// event decodes a network event of Chrome's.
func event(t *testing.T, text string) *Event {
	t.Helper()
	var e Event
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatal(err)
	}
	return &e
}

// tab is a record whose requests are of those who had the first of a row of redirects sent.
type tab struct {
	*Network[string]
	t   *testing.T
	why error
}

func newTab(t *testing.T) tab {
	return tab{Network: NewNetwork("T", func(former, now string) string { return former + ">" + now }), t: t}
}

func (x tab) take(method, by, text string) (turned bool) {
	x.t.Helper()
	return x.Add(nil, "Network."+method, event(x.t, text), by, func(string, time.Time) error { return x.why })
}

// sends has the tab tell of a request of the document with that loader.
func (x tab) sends(id, loader, url string) bool {
	x.t.Helper()
	return x.take("requestWillBeSent", "", fmt.Sprintf(`{"requestId":%q,"loaderId":%q,"type":"Fetch","request":{"url":%q,"method":"GET"}}`, id, loader, url))
}

func (x tab) urls(f Filter) (all []string) {
	for _, e := range x.List(f).Requests {
		all = append(all, e.URL)
	}
	return all
}

// A list begins with the document shown, its redirects with it, and says what it leaves out.
func TestListsOfRequests(t *testing.T) {
	x := newTab(t)
	x.sends("1", "old", "http://a/old")
	document := func(by, url, more string) {
		x.take("requestWillBeSent", by, fmt.Sprintf(
			`{"requestId":"2","loaderId":"new","frameId":"T","type":"Document"%s,"request":{"url":%q,"method":"GET"}}`, more, url))
	}
	document("click", "http://a/there", "")
	document("late", "http://user:word@a/here", `,"redirectResponse":{"status":302}`)
	x.NewDocument("new")
	x.sends("3", "new", "http://a/data")
	if got, want := x.urls(Filter{}), []string{"http://a/there", "http://a/here", "http://a/data"}; !slices.Equal(got, want) {
		t.Fatalf("a list of the document's is %q, want %q", got, want)
	}
	if l := x.List(Filter{}); l.Last != 4 || l.Earlier != 1 || l.Lost != 0 || l.Requests[0].Status != 302 {
		t.Errorf("the list is %+v", l)
	}
	if q, last, ok := x.Get(3); !ok || last != 4 || q.By != "click>late" {
		t.Errorf("the redirect is of %q", q.By)
	}
	if q, _, _ := x.Get(1); !q.Done || q.Failure != "cancelled: the page left" {
		t.Errorf("the old document's request is %+v", q)
	}
	zero := int64(0)
	for name, tc := range map[string]struct {
		f    Filter
		want string
	}{
		"all":     {Filter{Since: &zero}, "old there here data"},
		"before":  {Filter{Since: &zero, Before: 3}, "old there"},
		"kind":    {Filter{Kinds: map[string]bool{"document": true}}, "there here"},
		"holding": {Filter{Holding: "/da"}, "data"},
	} {
		if got := strings.ReplaceAll(strings.Join(x.urls(tc.f), " "), "http://a/", ""); got != tc.want {
			t.Errorf("%s: the list has %q, want %q", name, got, tc.want)
		}
	}
	if _, _, ok := x.Get(5); ok {
		t.Error("a request is there that was never made")
	}
	if x.Reset(); len(x.All()) != 0 || x.Last() != 0 {
		t.Error("requests are left after a reset")
	}
}

// A record forgets the oldest requests over its bound, and before that what they sent and got.
func TestRequestsAreBounded(t *testing.T) {
	x := newTab(t)
	for i := range maxRequests + 10 {
		x.sends(fmt.Sprint(i), "l", "http://a/")
	}
	zero := int64(0)
	if l := x.List(Filter{Since: &zero}); len(l.Requests) != maxRequests || l.Lost != 10 || l.Last != maxRequests+10 || l.Requests[0].ID != "r11" {
		t.Errorf("%d requests are listed from %s on, %d lost", len(l.Requests), l.Requests[0].ID, l.Lost)
	}
	x = newTab(t)
	body := strings.Repeat("x", 60<<10)
	for i := range 50 {
		x.take("requestWillBeSent", "", fmt.Sprintf(`{"requestId":"%d","type":"XHR","request":{"url":"http://a/","method":"POST","postData":%q}}`, i, body))
	}
	held := 0
	all := x.All()
	for _, q := range all {
		held += len(q.Post)
	}
	if held > maxDetailBytes || held < maxDetailBytes-len(body) || all[0].Post != "" || all[49].Post == "" {
		t.Errorf("%d bytes of bodies are held, want the newest up to %d", held, maxDetailBytes)
	}
}

// A network is quiet from the end of the last request on; streams and sockets do not count.
func TestQuiet(t *testing.T) {
	x := newTab(t)
	if x.QuietSince().IsZero() {
		t.Fatal("a new tab is not quiet")
	}
	if !x.sends("1", "l", "http://a/") || x.sends("2", "l", "http://a/") || !x.QuietSince().IsZero() || len(x.InFlight()) != 2 {
		t.Error("requests in flight do not count")
	}
	if x.take("loadingFinished", "", `{"requestId":"1"}`) || !x.take("loadingFinished", "", `{"requestId":"2"}`) || x.QuietSince().IsZero() {
		t.Error("the end of the last request is not told")
	}
	x.sends("3", "l", "http://a/")
	if !x.take("responseReceived", "", `{"requestId":"3","response":{"status":200,"mimeType":"text/event-stream"}}`) {
		t.Error("a stream counts as in flight")
	}
	if x.take("webSocketCreated", "", `{"requestId":"4","url":"ws://a/"}`) {
		t.Error("a socket counts as in flight")
	}
}

// A failed request has the words of whoever knows more than Chrome.
func TestFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		why    error
		event  string
		want   string
		chrome string
	}{
		"a name":      {nil, `"errorText":"net::ERR_NAME_NOT_RESOLVED"`, "The name does not resolve. (net::ERR_NAME_NOT_RESOLVED)", "net::ERR_NAME_NOT_RESOLVED"},
		"CORS":        {nil, `"errorText":"net::ERR_FAILED","corsErrorStatus":{"corsError":"Missing"}`, "refused by CORS (Missing)", "net::ERR_FAILED"},
		"the node":    {capabilities.Errorf(capabilities.CodeURLBlocked, "Not there."), `"errorText":"x"`, "blocked by the node: Not there.", "x"},
		"no code":     {errors.New("x"), `"errorText":"net::ERR_ABORTED"`, "cancelled", "net::ERR_ABORTED"},
		"cancelled":   {capabilities.Errorf(capabilities.CodeURLBlocked, "No."), `"canceled":true`, "cancelled", ""},
		"the browser": {nil, `"blockedReason":"csp"`, "blocked by the browser (csp)", ""},
	} {
		x := newTab(t)
		x.why = tc.why
		x.take("requestWillBeSent", "", `{"requestId":"1","loaderId":"l","type":"Document","request":{"url":"http://a/"}}`)
		x.take("loadingFailed", "", `{"requestId":"1",`+tc.event+`}`)
		if q, _, _ := x.Get(1); q.Failure != tc.want || x.FailureOf("l") != tc.chrome {
			t.Errorf("%s: %q (%q), want %q (%q)", name, q.Failure, x.FailureOf("l"), tc.want, tc.chrome)
		}
	}
}

// A request that became a download is none that failed, and it is known whose it was.
func TestDownloads(t *testing.T) {
	x := newTab(t)
	x.take("requestWillBeSent", "click", `{"requestId":"1","loaderId":"l","type":"Document","request":{"url":"http://a/file"}}`)
	x.take("responseReceived", "", `{"requestId":"1","response":{"status":200}}`)
	if x.AnsweredWithFile() {
		t.Error("what goes on is no file")
	}
	x.take("loadingFailed", "", `{"requestId":"1","canceled":true,"errorText":"net::ERR_ABORTED"}`)
	if !x.AnsweredWithFile() || x.Became("http://a/other", "d1") != "" || x.Became("http://a/file", "d1") != "click" {
		t.Error("the request is not known as a file's")
	}
	if e := x.List(Filter{}).Requests[0]; e.Failure != "" || e.Download != "d1" {
		t.Errorf("the request is told as %+v", e)
	}
}

// Headers that carry secrets are told without their values.
func TestHeadersHideSecrets(t *testing.T) {
	x := newTab(t)
	x.take("requestWillBeSent", "", `{"requestId":"1","type":"XHR","request":{"url":"http://a/","headers":{"Accept":"a"}}}`)
	x.take("requestWillBeSentExtraInfo", "", `{"requestId":"1","headers":{"Cookie":"c","X-Api-Key":"k","Referer":"http://u:p@a/","Accept":"b"}}`)
	q, _, _ := x.Get(1)
	got := q.SentHeaders()
	if got["Cookie"] != Hidden || got["X-Api-Key"] != Hidden || got["Referer"] != "http://a/" || got["Accept"] != "b" || len(q.AnswerHeaders()) != 0 {
		t.Errorf("the headers are told as %v", got)
	}
}

// Messages are bounded in number and size, keep their numbers, and know their document.
func TestMessages(t *testing.T) {
	var c Console
	log := func(text string) {
		c.Add("x", "Runtime.consoleAPICalled", fmt.Appendf(nil, `{"type":"log","args":[{"type":"string","value":%q}]}`, text))
	}
	c.Add("x", "Runtime.consoleAPICalled", []byte(`{"type":"clear"}`)) // no message
	log("one")
	all, last := c.Since(0, false)
	if len(all) != 1 || all[0].Seq != 2 || all[0].Text != "one" || last != 2 || !all[0].Of("x") || all[0].Of("y") || all[0].Within("warning") || !all[0].Within("info") {
		t.Fatalf("the messages are %+v, the last %d", all, last)
	}
	c.Add("y", "Log.entryAdded", []byte(`{"entry":{"level":"error","text":"404","networkRequestId":"z"}}`))
	if all, _ = c.Since(2, true); len(all) != 1 || !all[0].Of("y") || !all[0].Of("z") || !all[0].Within("error") {
		t.Errorf("a request's message is %+v", all)
	}
	if all, last = c.Since(0, false); len(all) != 0 || last != 3 {
		t.Errorf("%d messages are left of those that were cleared, the last is %d", len(all), last)
	}
	large := strings.Repeat("x", 10<<10)
	for range maxMessages {
		log(large)
	}
	all, last = c.Since(0, false)
	if n := len(all) * len(large); n > maxMessageBytes || n < maxMessageBytes/2 || last != 3+maxMessages || c.Last() != last {
		t.Errorf("%d bytes of messages are kept, the last is %d", n, last)
	}
	if c.Reset(); c.Last() != 0 {
		t.Error("numbers go on after a reset")
	}
}

// The first exception that nobody caught is told by its first line.
func TestExceptions(t *testing.T) {
	var c Console
	throw := func(text string) {
		c.Add("x", "Runtime.exceptionThrown", fmt.Appendf(nil,
			`{"exceptionDetails":{"text":"Uncaught","exception":{"type":"object","subtype":"error","description":%q}}}`, text))
	}
	throw("Error: before")
	since := c.Last()
	if got := c.ExceptionSince(since); got != "" {
		t.Errorf("an exception is told that was before: %q", got)
	}
	throw("Error: one\n    at f (a.js:1:2)")
	throw("Error: two")
	if got := c.ExceptionSince(since); got != "Uncaught Error: one" {
		t.Errorf("the exception is %q", got)
	}
}

// A list stays as it was when more comes.
func TestListsAreCopies(t *testing.T) {
	x := newTab(t)
	x.sends("1", "l", "http://a/")
	before := x.All()
	x.take("responseReceived", "", `{"requestId":"1","response":{"status":404}}`)
	if before[0].Status != 0 || x.All()[0].Status != 404 {
		t.Errorf("the status is %d, and %d later", before[0].Status, x.All()[0].Status)
	}
}
