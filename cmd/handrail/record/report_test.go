package record

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
)

// One of a thing is told as one.
func TestReportCounts(t *testing.T) {
	var out strings.Builder
	printReport(&out, ledger.Report{First: 1, Last: 1, Packets: 1, Nodes: []capabilities.NodeID{"n1"}, Heads: 1, HeadsPruned: 2})
	for _, want := range []string{"entries  1 to 1, 1 packet\n", "nodes    1 head countersigned\n", "heads    1 seen elsewhere, and found in it\n", "heads    2 among pruned packets"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
