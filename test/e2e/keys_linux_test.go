package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/ledger"
)

const keyed = `{"tools":[
 {"name":"upper","description":"Writes a text in capitals.","argv":["tr","a-z","A-Z"],"params":{"text":{"type":"string"}},"stdin":"text","required":["text"],"alone":true,"read_only":true},
 {"name":"forks","description":"Starts another.","argv":["sh","-c","(true); /bin/echo started"],"read_only":true},
 {"name":"cannot","description":"Would start another.","argv":["sh","-c","(true); /bin/echo started"],"alone":true,"read_only":true},
 {"name":"memory","description":"Says its limit.","argv":["sh","-c","ulimit -d"],"read_only":true},
 {"name":"more","description":"Says its limit.","argv":["sh","-c","ulimit -d"],"keys":["execution.memory.high"],"read_only":true},
 {"name":"perl","description":"Is an interpreter.","argv":["perl","-e","print 6*7"],"read_only":true}]}`

// S1-13, S1-35, S1-40: the keys that a tool declares decide the class of its program, whether that
// starts others, and its limits, from the manifest to the kernel.
func TestKeysDecideWhatACommandGets(t *testing.T) {
	h, n, admin := hosting(t)
	h.Drifts = true
	body, err := json.Marshal(api.AddProvider{Name: "keyed", Kind: "command", Host: n.ID, Manifest: keyed})
	must(t, err)
	var p api.Provider
	admin.ok(http.MethodPost, "/v1/providers", string(body), &p)
	approved(t, admin, p, "allow")
	h.Await("its tools", func() bool { return h.Call(ctx(), "tool.keyed.memory", `{}`, "").Status == capabilities.StatusOK })
	for tool, c := range map[capabilities.ToolID]struct {
		args, class, keys, says string
		code                    capabilities.Code
	}{
		"tool.keyed.upper":  {`{"text":"loud"}`, "t0", `"execution":[]`, "LOUD", ""},
		"tool.keyed.forks":  {`{}`, "t1", `"execution":["proc.spawn"]`, "started", ""},
		"tool.keyed.cannot": {`{}`, "t0", `"execution":[]`, "", capabilities.CodeExecutionFailed},
		"tool.keyed.memory": {`{}`, "t1", `"execution":["proc.spawn"]`, "524288", ""},
		"tool.keyed.more":   {`{}`, "t1", `"execution":["memory.high","proc.spawn"]`, "4194304", ""},
		"tool.keyed.perl":   {`{}`, "t1", `"execution":["language.perl","proc.spawn"]`, "42", ""},
	} {
		if watched && c.class == "t0" {
			continue
		}
		r := h.Call(ctx(), tool, c.args, "")
		if r.Code != c.code || !strings.Contains(string(r.Output), c.says) {
			t.Errorf("%s: %+v", tool, r)
			continue
		}
		story := h.story(r.Call).bodys
		if all := string(story[1]); !strings.Contains(all, c.keys) {
			t.Errorf("%s: decided on %s", tool, all)
		}
		if end := string(story[len(story)-1]); !strings.Contains(end, `"isolation_given":"`+c.class+`"`) {
			t.Errorf("%s: it ended as %s, want class %s", tool, end, c.class)
		}
	}
	// To start a program without the key is an attempt, and nothing else of this is one.
	events, err := h.Gateway.Ledger.Packets(ctx(), ledger.Query{Kind: ledger.KindDrift})
	must(t, err)
	if len(events) == 0 && !watched {
		t.Error("the attempt to start a program is not told of")
	}
	for _, p := range events {
		if p.Tool != "tool.keyed.cannot" || !strings.Contains(string(p.Body), `"key":"execution.proc.spawn"`) {
			t.Errorf("%s drifted: %s", p.Tool, p.Body)
		}
	}
}
