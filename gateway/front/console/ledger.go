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
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// kinds are what the list of packets can be narrowed to.
var kinds = []string{
	"", "everything", "tool.call.", "calls", "gateway.approval.", "questions and answers", "gateway.grant.", "grants", "gateway.policy.",
	"policies", "token.", "tokens and sessions", "secret.", "secrets", "node.", "devices", "gateway.drift.", "drift", "gateway.",
	"the gateway itself",
}

// ledgerPage shows where the ledger stands, checks it, compares it and exports it.
func (c *Console) ledgerPage(v *visit) { v.showLedger(nil, ledgerPage{}) }

// ledgerPage is the ledger's head, what checks found, and its latest packets.
type ledgerPage struct {
	*visit
	Verified *verified
	Compared *ledger.Comparison
	Head     chain.Head
	Drift    []drifted
	Kind     choice
	Lane     string
	Packets  []packetRow // the newest first
	Older    string      // the address of those before; empty if there are none
}

// Signed is when the head was.
func (p ledgerPage) Signed() time.Time { return time.UnixMilli(p.Head.Time) }

// verified is what checking all of it found.
type verified struct {
	ledger.Report
	Corrupt bool
}

func (v *visit) showLedger(problem error, shown ledgerPage) {
	shown.visit = v
	if err := v.get(v1("ledger", "head"), &shown.Head); err != nil {
		v.show(page{name: "problem", title: "Ledger", here: "/console/ledger", fault: err})
		return
	}
	in := v.r.URL.Query()
	q := url.Values{"limit": {"40"}, "newest": {"1"}}
	for _, name := range []string{"kind", "before", "lane"} {
		if s := in.Get(name); s != "" {
			q.Set(name, s)
		}
	}
	var list api.PacketList
	if err := v.get(v1("ledger", "packets")+"?"+q.Encode(), &list); err != nil {
		problem = err
	}
	for i := len(list.Packets) - 1; i >= 0; i-- {
		shown.Packets = append(shown.Packets, rowOf(&list.Packets[i]))
	}
	if len(list.Packets) >= 40 { // the list is in order; its first one is the oldest
		shown.Older = "/console/ledger?" + query("kind", in.Get("kind"), "lane", in.Get("lane"),
			"before", strconv.FormatUint(list.Packets[0].Seq, 10))
	}
	shown.Drift, shown.Lane = v.drifted(), in.Get("lane")
	shown.Kind = choose("f-kind", "kind", "Kind", in.Get("kind"), kinds...)
	v.show(page{
		name: "ledger", title: "Ledger", here: "/console/ledger", live: "packet call approval grant node", fault: problem, data: shown,
	})
}

// packetRow is a packet as pages show it.
type packetRow struct {
	*api.Packet
	Text string // its body, indented
}

func rowOf(k *api.Packet) packetRow {
	var body bytes.Buffer
	if json.Indent(&body, k.Body, "", "  ") != nil {
		return packetRow{k, string(k.Body)}
	}
	return packetRow{k, body.String()}
}

// verifyLedger checks all of it.
func (c *Console) verifyLedger(v *visit) {
	var r ledger.Report
	err := v.get(v1("ledger", "verify"), &r)
	switch {
	case capabilities.CodeOf(err) == capabilities.CodeLedgerCorrupt:
		v.showLedger(err, ledgerPage{Verified: &verified{Corrupt: true}})
	case err != nil:
		v.showLedger(err, ledgerPage{})
	default:
		v.showLedger(nil, ledgerPage{Verified: &verified{Report: r}})
	}
}

func (c *Console) compareLedger(v *visit) {
	log := unixLines(v.r.PostForm.Get("log"))
	if v.r.Header.Get("Content-Type") == "application/x-ndjson" {
		data, err := io.ReadAll(v.r.Body)
		if err != nil {
			v.showLedger(front.BodyError(err), ledgerPage{})
			return
		}
		log = string(data)
	}
	if !strings.HasSuffix(log, "\n") && log != "" { // lost by copying
		log += "\n"
	}
	var r ledger.Comparison
	if err := v.ask(http.MethodPost, v1("ledger", "compare"), api.CompareLedger{Log: log}, &r); err != nil {
		v.showLedger(err, ledgerPage{})
		return
	}
	v.showLedger(nil, ledgerPage{Compared: &r})
}

// drifted is one thing that a page offered without a grant.
type drifted struct {
	packet.Signal
	Page    string
	Visitor capabilities.PrincipalID
	At      time.Time
}

// Mood is the class of its severity.
func (d drifted) Mood() string {
	return map[drift.Severity]string{drift.Violation: "busy", drift.Critical: "bad"}[d.Severity]
}

// drifted is what pages offered without a grant, of late.
func (v *visit) drifted() []drifted {
	var list api.PacketList
	if v.get(v1("ledger", "packets")+"?kind=gateway.drift.&newest=1&limit=10", &list) != nil {
		return nil
	}
	var all []drifted
	for i := len(list.Packets) - 1; i >= 0; i-- {
		k := &list.Packets[i]
		var body packet.Surfaced
		_ = json.Unmarshal(k.Body, &body) // what is missing stays empty
		for _, s := range body.Signals {
			all = append(all, drifted{s, body.Page, k.Principal, k.Time()})
		}
	}
	return all
}

// exportLedger passes the whole ledger on.
func (c *Console) exportLedger(v *visit) {
	guardHeaders(v.w)
	c.opts.API.Pass(v.w, v.r, v1("ledger", "export"))
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
