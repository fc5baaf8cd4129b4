package console

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger"
)

// kinds are what the list of packets can be narrowed to.
var kinds = []string{
	"", "everything", "tool.call.", "calls", "gateway.approval.", "questions and answers", "gateway.grant.", "grants", "gateway.policy.", "policies",
	"token.", "tokens and sessions", "secret.", "secrets", "node.", "devices", "gateway.drift.", "drift", "gateway.", "the gateway itself",
}

// ledgerPage shows where the ledger stands, checks it, compares it and exports it.
func (c *Console) ledgerPage(v *visit) { v.showLedger(nil, html{}) }

func (v *visit) showLedger(problem error, first html) {
	pg := page{title: "Ledger", here: "/console/ledger", live: "packet call approval grant node", fault: problem,
		lead: text("Everything that was asked, decided and done, in one chain that shows every change. It keeps digests, not what was typed or seen.")}
	var head chain.Head
	if err := v.get(api("ledger", "head"), &head); err != nil {
		pg.fault = err
		v.show(pg)
		return
	}
	in := v.r.URL.Query()
	q := url.Values{"limit": {"40"}, "newest": {"1"}}
	for _, name := range []string{"kind", "before", "lane"} {
		if s := in.Get(name); s != "" {
			q.Set(name, s)
		}
	}
	var list struct {
		Packets []ledger.Packet `json:"packets"`
	}
	if err := v.get(api("ledger", "packets")+"?"+q.Encode(), &list); err != nil {
		pg.fault = err
	}
	pg.body = group(first,
		card("head", "Where it stands",
			facts(fact{"Signed up to", text("packet " + strconv.FormatUint(head.Seq, 10))}, fact{"At", moment(time.UnixMilli(head.Time))}, fact{"Chain", code(head.Chain)}, fact{"Hash", code(head.Hash.String())}, fact{"Key", code(head.Key.String())}),
			el("p", class("faint"), text("Keep hash and key elsewhere: with them anybody can tell later whether packets were changed or cut off.")),
			div("buttons",
				v.control("GET /v1/ledger/verify", "/console/ledger/verify", attrs{"class", "inline"}, button("main", "Verify")),
				v.way("GET /v1/ledger/export", "/console/ledger/export", attrs{"class", "button", "download", "handrail-ledger.ndjson"}, text("Export")))),
		v.driftCard(),
		v.compareCard(),
		el("h2", class("part"), text("Packets")),
		el("form", attrs{"class", "filter two", "method", "get", "action", "/console/ledger", "role", "search", "aria-label", "Narrow the list"},
			choice("f-kind", "kind", "Kind", in.Get("kind"), kinds...), input("f-lane", "lane", "Lane", in.Get("lane"), "maxlength", "128"), button("plain", "Show")),
		when(len(list.Packets) == 0, empty("No such packet", link("/console/ledger", text("Show everything")))),
		when(len(list.Packets) > 0, packetTable(list.Packets)),
		v.older(in, list.Packets))
	v.show(pg)
}

func (v *visit) older(in url.Values, shown []ledger.Packet) html {
	if len(shown) < 40 {
		return html{}
	}
	// The list is in order; its first one is the oldest.
	return p(link("/console/ledger?"+query("kind", in.Get("kind"), "lane", in.Get("lane"), "before", strconv.FormatUint(shown[0].Seq, 10)), text("Older packets")))
}

// packetTable shows packets, newest first, each with its body to open.
func packetTable(list []ledger.Packet) html {
	rows := make([][]html, 0, len(list))
	for i := len(list) - 1; i >= 0; i-- {
		k := &list[i]
		about := html{}
		switch {
		case k.Call != "":
			about = link(at("calls", string(k.Call)), text(orElse(string(k.Tool), "the call")))
		case k.Node != "":
			about = code(string(k.Node))
		}
		seq := strconv.FormatUint(k.Seq, 10)
		rows = append(rows, []html{text(seq), code(string(k.Kind)), text(string(k.Principal)), about, ago(k.Time()),
			el("details", attrs{"id", "p-" + seq}, el("summary", nil, text("Body")), bodyOf(k))})
	}
	return table("Packets, newest first", columns("Number", "Kind", "Who", "About", "When", "Content"), rows)
}

// bodyOf is a packet's body as the ledger holds it.
func bodyOf(k *ledger.Packet) html {
	var body bytes.Buffer
	if json.Indent(&body, k.Body, "", "  ") != nil {
		body.Reset()
		body.Write(k.Body)
	}
	seq := strconv.FormatUint(k.Seq, 10)
	return group(el("pre", attrs{"tabindex", "0", "aria-label", "Body of packet " + seq}, el("code", nil, lines(body.String()))),
		el("p", class("faint small"), text("hash "), code(k.Hash.String())))
}

// verifyLedger checks all of it.
func (c *Console) verifyLedger(v *visit) {
	var r ledger.Report
	err := v.get(api("ledger", "verify"), &r)
	switch {
	case capabilities.CodeOf(err) == capabilities.CodeLedgerCorrupt:
		v.showLedger(err, v.result("verified", "The ledger does not verify", "bad", el("p", nil, text("Somebody or something changed it. Keep a copy of the data directory as it is, and compare with the nodes' logs."))))
	case err != nil:
		v.showLedger(err, html{})
	default:
		v.showLedger(nil, v.result("verified", "The ledger verifies", "good", facts(
			fact{"Packets", text(strconv.FormatUint(r.Packets, 10) + ", numbers " + strconv.FormatUint(r.First, 10) + " to " + strconv.FormatUint(r.Last, 10))},
			fact{"Pruned", when(r.Pruned > 0, text(strconv.FormatUint(r.Pruned, 10)+", with proof"))},
			fact{"Devices' logs", text(count(len(r.Nodes), "head countersigned", "heads countersigned"))},
			fact{"Signed with", code(r.Head.Key.String())})))
	}
}

// result is what a check found; it stays until the page is left.
func (v *visit) result(id, says, mood string, kids ...html) html {
	return el("section", attrs{"class", "card once", "id", id, "data-once", "", "aria-labelledby", id + "-h"},
		append([]html{el("h2", attrs{"id", id + "-h"}, span("state "+known(mood, "good", "bad"), text(map[string]string{"good": "✓ ", "bad": "✗ "}[mood])), text(says))}, kids...)...)
}

// compareCard takes a node's own log.
func (v *visit) compareCard() html {
	if !v.offers("POST /v1/ledger/compare") {
		return html{}
	}
	return el("details", attrs{"class", "card", "id", "compare"}, el("summary", nil, text("Compare with a device's own log")),
		el("p", nil, text("On the device: "), code("handrail node log --out log.ndjson"), text(". The device wrote it by itself, and neither side is believed more than the other.")),
		v.control("POST /v1/ledger/compare", "/console/ledger/compare", attrs{"class", "stack", "data-log", ""},
			el("div", attrs{"class", "field scripted"}, el("label", attrs{"for", "log-file"}, text("The file")), void("input", attrs{"id", "log-file", "type", "file", "accept", ".ndjson,.json,.txt"})),
			area("log", "log", "Or what is in it", "", "rows", "4", "class", "mono"),
			button("main", "Compare")),
		el("p", class("faint"), text("Logs of more than about half a megabyte: "), code("handrail ledger compare --node-log"), text(".")))
}

func (c *Console) compareLedger(v *visit) {
	log := unixLines(v.r.PostForm.Get("log"))
	if v.r.Header.Get("Content-Type") == "application/x-ndjson" {
		data, err := io.ReadAll(v.r.Body)
		if err != nil {
			v.showLedger(front.BodyError(err), html{})
			return
		}
		log = string(data)
	}
	if !strings.HasSuffix(log, "\n") && log != "" { // lost by copying
		log += "\n"
	}
	var r ledger.Comparison
	if err := v.ask(http.MethodPost, api("ledger", "compare"), map[string]string{"log": log}, &r); err != nil {
		v.showLedger(err, html{})
		return
	}
	says, mood := "The two ledgers agree", "good"
	if n := len(r.Differences); n > 0 {
		says, mood = "The two ledgers differ: "+count(n, "difference", "differences"), "bad"
	}
	v.showLedger(nil, v.result("compared", says, mood,
		when(len(r.Differences) > 0, el("ul", class("plainlist"), each(r.Differences, func(d ledger.Difference) html {
			return el("li", nil, text(d.Text), when(d.Call != "", group(text(" "), link(at("calls", string(d.Call)), text("The call")))))
		}))),
		facts(fact{"Device", code(string(r.Node))}, fact{"Calls in both", text(itoa(r.Calls))}, fact{"Refused by it", when(r.Refused > 0, text(itoa(r.Refused)))},
			fact{"Never begun there", when(r.GatewayOnly > 0, text(itoa(r.GatewayOnly)))},
			fact{"Too new for one", when(r.Unsettled > 0, text(itoa(r.Unsettled)))}, fact{"No longer kept by one", when(r.Pruned > 0, text(itoa(r.Pruned)))}),
		when(len(r.Notes) > 0, el("ul", class("plainlist faint"), each(r.Notes, func(n string) html { return el("li", nil, text(n)) })))))
}

// driftCard shows what pages offered without a grant, of late.
func (v *visit) driftCard() html {
	var list struct {
		Packets []ledger.Packet `json:"packets"`
	}
	if v.get(api("ledger", "packets")+"?kind=gateway.drift.&newest=1&limit=10", &list) != nil || len(list.Packets) == 0 {
		return html{}
	}
	rows := [][]html{}
	for i := len(list.Packets) - 1; i >= 0; i-- {
		k := &list.Packets[i]
		var body struct {
			Page    string         `json:"page"`
			Signals []drift.Signal `json:"signals"`
		}
		_ = json.Unmarshal(k.Body, &body) // what is missing stays empty
		for _, s := range body.Signals {
			mood := map[drift.Severity]string{drift.Violation: "busy", drift.Critical: "bad"}[s.Severity]
			rows = append(rows, []html{span("state "+mood, text(string(s.Severity))), code(orElse(s.Control, s.Key)), text(s.Text), text(string(k.Principal)), text(body.Page), ago(k.Time())})
		}
	}
	return card("drift", "Drift", el("p", class("faint"), text("Pages that offered what they should not have. A page that was left open over an update is harmless; look at the others.")),
		table("Drift of pages, newest first", columns("How bad", "What", "Why", "Visitor", "Page", "When"), rows))
}

// exportLedger passes the whole ledger on.
func (c *Console) exportLedger(v *visit) {
	guardHeaders(v.w)
	c.opts.API.Pass(v.w, v.r, api("ledger", "export"))
}

// query is an address's query of names and values in turn; empty ones are left out.
func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q.Encode()
}
