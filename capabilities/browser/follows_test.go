//go:build linux

package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// An answer shows what the action did: what the response to its request changed, where its
// timer led, and what is open still.
func TestAnswersShowWhatTheActionDid(t *testing.T) {
	answersShowWhatTheActionDid(t, "ask", "route", "lead", "change", "both", "hang", "type")
}

func TestAnswersShowWhatTheActionDidAtLength(t *testing.T) { answersShowWhatTheActionDid(t) }

// answersShowWhatTheActionDid tries the cases of those names; none: all.
func answersShowWhatTheActionDid(t *testing.T, only ...string) {
	t.Parallel()
	const ask = `fetch('/slow').then(r=>r.text()).then(x=>{out.textContent=x})`
	s := slowSite(t, map[string]string{
		"/": html(`<p id=out>before</p><input id=name><input id=mail><select id=s><option>One<option>Two</select>
<button id=dead>Dead</button>
<button id=ask onclick="` + ask + `">Ask</button>
<button id=spin onclick="out.textContent='…';` + ask + `">Spin</button>
<button id=chain onclick="fetch('/slow').then(()=>` + ask + `)">Chain</button>
<button id=route onclick="history.pushState(0,'','/x');` + ask + `">Route</button>
<button id=script onclick="const e=document.createElement('script');e.src='/slow.js';document.body.append(e)">Script</button>
<button id=lead onclick="fetch('/slow').then(()=>{location='/2'})">Lead</button>
<button id=change onclick="setTimeout(()=>{out.textContent='changed'},100)">Change</button>
<button id=go onclick="setTimeout(()=>{location='/2'},100)">Go</button>
<button id=beacon onclick="navigator.sendBeacon('/hang')">Beacon</button>
<button id=both onclick="navigator.sendBeacon('/hang');` + ask + `">Both</button>
<button id=pixel onclick="new Image().src='/hang';out.textContent='at once'">Pixel</button>
<button id=events onclick="new EventSource('/events');out.textContent='at once'">Events</button>
<button id=poll onclick="poll();out.textContent='at once'">Poll</button>
<button id=hang onclick="fetch('/hang');out.textContent='at once'">Hang</button>
<button id=image onclick="const i=new Image();i.src='/hang';document.body.append(i)">Image</button>
<script>function poll(){fetch('/hang?poll')}mail.onchange=()=>{` + ask + `};s.onchange=()=>{` + ask + `};document.getElementById('name').onkeydown=e=>{if(e.key=='Enter'){` + ask + `}}</script>`),
		"/2": html(`two`),
	})
	n := newNode(t, s.URL)
	for name, tc := range map[string]struct {
		tool     string
		args     obj
		evidence string
		shows    string
		open     string
	}{
		"ask":    {"click", obj{"selector": "#ask"}, "the page sent a request, and then changed", "slow", ""},
		"spin":   {"click", obj{"selector": "#spin"}, "", "slow", ""},
		"chain":  {"click", obj{"selector": "#chain"}, "the page sent a request, and then changed", "slow", ""},
		"route":  {"click", obj{"selector": "#route"}, "the address changed", "slow", ""},
		"lead":   {"click", obj{"selector": "#lead"}, "a new document was opened", "two", ""},
		"change": {"click", obj{"selector": "#change"}, "the page changed", "changed", ""},
		"go":     {"click", obj{"selector": "#go"}, "a new document was opened", "two", ""},
		"beacon": {"click", obj{"selector": "#beacon"}, "the page sent a request", "before", ""},
		"both":   {"click", obj{"selector": "#both"}, "the page sent a request", "slow", ""},
		"pixel":  {"click", obj{"selector": "#pixel"}, "", "at once", ""},
		"events": {"click", obj{"selector": "#events"}, "", "at once", ""},
		"poll":   {"click", obj{"selector": "#poll"}, "", "at once", ""},
		"hang":   {"click", obj{"selector": "#hang"}, "", "at once", "1 fetch"},
		"image":  {"click", obj{"selector": "#image"}, "", "before", "1 image"},
		"key":    {"press-key", obj{"selector": "#name", "key": "Enter"}, "", "slow", ""},
		"type":   {"type", obj{"selector": "#name", "text": "x", "submit": true}, "", "slow", ""},
		"fill":   {"fill-form", obj{"selector": "#mail", "value": "x"}, "", "slow", ""},
		"choose": {"select-option", obj{"selector": "#s", "values": []string{"Two"}}, "", "slow", ""},
	} {
		if !among(only, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			n := n.on(capabilities.LaneID("follows-" + name))
			n.t = t
			n.goTo(s.URL + "/")
			if name == "poll" {
				n.eval("poll()")
			}
			a := n.must(tc.tool, tc.args)
			if a.Effect != capabilities.EffectConfirmed || !strings.HasPrefix(a.Evidence, tc.evidence) || name == "beacon" && a.Evidence != tc.evidence {
				t.Errorf("%s (%s)", a.Effect, a.Evidence)
			}
			if shows := n.eval("(document.getElementById('out')??document.body).textContent"); shows != tc.shows {
				t.Errorf("shows %v, want %s (%s)", shows, tc.shows, a.Evidence)
			}
			if _, told := a.m["still_open"]; told != (tc.open != "") || told && !strings.HasSuffix(a.Evidence, "; still open: "+tc.open) {
				t.Errorf("%s %s", a.Evidence, a.json)
			}
			n.must("close", obj{})
		})
	}
}

// A request to an address that was open before is a poll.
func TestPolls(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		before, after record.Transfer
		want          bool
	}{
		"the same address":               {record.Transfer{URL: "http://a/p?x", Began: now}, record.Transfer{URL: "http://a/p?x"}, true},
		"another query at once":          {record.Transfer{URL: "http://a/p?x", Began: now}, record.Transfer{URL: "http://a/p?y"}, false},
		"another query after more":       {record.Transfer{URL: "http://a/p?x", Began: now.Add(-pollAge)}, record.Transfer{URL: "http://a/p?y"}, true},
		"another path":                   {record.Transfer{URL: "http://a/p", Began: now.Add(-pollAge)}, record.Transfer{URL: "http://a/q"}, false},
		"the same address, other method": {record.Transfer{URL: "http://a/p", Method: "GET"}, record.Transfer{URL: "http://a/p", Method: "POST"}, false},
	} {
		if got := polls(tc.before, tc.after, now); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A clock that was seen to go is no evidence, however slowly it goes.
func TestSlowClocksAreNoEvidence(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<p id=clock>0</p><button id=dead>Dead</button><button id=late onclick="setTimeout(()=>{document.title='late'},50)">Late</button>
<script>let n=0,last=0,gap=0;setInterval(()=>{const now=performance.now();gap=Math.max(gap,now-last);last=now;clock.textContent=++n},150)</script>`)})
	n.goTo(s.URL + "/")
	n.snap()
	n.must("wait-for", obj{"function": "n > 8"})
	for times, end := 0, time.Now().Add(patience); times < 3; {
		n.eval("gap = 0")
		a := n.must("click", obj{"selector": "#dead"})
		n.must("wait-for", obj{"function": n.eval("'n > ' + (n + 8)")})
		if a.Effect == capabilities.EffectSuspectNoop {
			times++
		} else if gap := n.eval("gap").(float64); gap < 300 || time.Now().After(end) {
			t.Fatalf("%s (%s)", a.Effect, a.Evidence)
		} else { // on a busy machine the clock stood still, and then went as none that was seen
			t.Logf("the clock stood for %v ms", gap)
		}
	}
	if a := n.must("click", obj{"selector": "#late"}); a.Effect != capabilities.EffectConfirmed {
		t.Errorf("%s (%s)", a.Effect, a.Evidence)
	}
}
