package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/test/site"
)

// lying is a manifest whose tools say that they only compute.
const lying = `{"tools":[
 {"name":"upper","description":"Writes a text in capitals.","argv":["tr","a-z","A-Z"],"params":{"text":{"type":"string"}},"stdin":"text","class":"t0","read_only":true},
 {"name":"pair","description":"Speaks to itself.","class":"t0","read_only":true,"argv":["perl","-MSocket","-e",
  "socketpair(A, B, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die $!; syswrite A, 'hi'; sysread B, $x, 2; print $x"]},
 {"name":"quiet","description":"Says nothing of it.","class":"t0","read_only":true,"argv":["perl","-MSocket","-e","socket(A, AF_INET, SOCK_STREAM, 0) and die; print 'well'"]},
 {"name":"opens","description":"Opens a socket.","class":"t0","read_only":true,"argv":["perl","-MSocket","-e","socket(A, AF_INET, SOCK_STREAM, 0) or die $!"]},
 {"name":"calls","description":"Opens another.","class":"t0","read_only":true,"argv":["perl","-MSocket","-e","socket(A, AF_INET6, SOCK_DGRAM, 0) or die $!"]}]}`

// A tool whose manifest says that it only computes, and that opens a socket, is refused it by its
// wall, by the built program: the attempt is drift of its call, a violation, whether the program
// says anything of it or not, and the third has that program run no more. A connected pair is no
// attempt (S1-35, S1-44, S1-50, S1-52).
func TestAManifestThatSaysT0(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the program")
	}
	if _, err := site.NewWalls(); err != nil {
		t.Skip(err)
	}
	home := privateDir(t)
	p := &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}
	site.Program(t, p.program)
	var ready struct{}
	p.leaves(&ready, "up", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--no-task", "--json")
	file := filepath.Join(home, "pure.json")
	add := func(manifest string, more ...string) (string, int) {
		must(t, os.WriteFile(file, []byte(manifest), 0o600))
		return p.tries("", append([]string{"provider", "add", "command", "pure", "--manifest", file, "--json"}, more...)...)
	}
	// A class that is not the one that its reach takes is refused.
	says := `{"tools":[{"name":"a","description":"Does.","argv":["true"],"class":"%s"}]}`
	for _, c := range []struct {
		class, takes string
		more         []string
	}{{"t0", "t1", []string{"--read", t.TempDir()}}, {"t0", "t2", []string{"--net", "shop.example"}}, {"t1", "t2", []string{"--net", "shop.example"}}, {"t2", "t1", nil}, {"t9", "t1", nil}} {
		if out, code := add(fmt.Sprintf(says, c.class), c.more...); code == 0 || !strings.Contains(out, "invalid_request") || !strings.Contains(out, "takes "+c.takes) {
			t.Errorf("%+v: %d %s", c, code, out)
		}
	}
	if out, code := add(lying); code != 0 {
		t.Fatal(out)
	}
	p.does("provider", "approve", "pure", "--allow", "all", "--yes")
	call := func(tool string, args ...string) (r capabilities.Result) {
		t.Helper()
		out, _ := p.tries("", append([]string{"call", "tool.pure." + tool, "--json"}, args...)...)
		first, _, _ := strings.Cut(out, "\n")
		must(t, json.Unmarshal([]byte(first), &r))
		return r
	}
	drifted := func(call capabilities.CallID) (list []api.DriftEvent) {
		t.Helper()
		for _, e := range items[api.DriftList](p, "drift", "list")[0].Events {
			if e.Call == call {
				list = append(list, e)
			}
		}
		return list
	}
	for _, c := range []struct {
		tool, says string
		args       []string
	}{{"upper", "LOUD", []string{"--arg", "text=loud"}}, {"pair", "hi", nil}} {
		r := call(c.tool, c.args...)
		if r.Status != capabilities.StatusOK || !strings.Contains(string(r.Output), c.says) {
			t.Errorf("%s: %+v", c.tool, r)
		}
		if list := drifted(r.Call); len(list) != 0 {
			t.Errorf("%s: %+v", c.tool, list)
		}
	}
	for i, c := range []struct {
		tool, evidence string
		code           capabilities.Code
		count          uint32
		response       string
	}{{"quiet", "an IPv4 socket", "", 1, "refused"}, {"opens", "an IPv4 socket", capabilities.CodeExecutionFailed, 1, "refused"}, {"calls", "an IPv6 socket", capabilities.CodeExecutionFailed, 1, "quarantined"}} {
		r := call(c.tool)
		if r.Code != c.code || c.code == "" && !strings.Contains(string(r.Output), "well") {
			t.Errorf("%s: %+v", c.tool, r)
		}
		if c.code != "" && (!strings.Contains(fmt.Sprint(r.Details), c.evidence) || !strings.Contains(r.Hint, "--net")) {
			t.Errorf("%s: %+v", c.tool, r)
		}
		list := drifted(r.Call)
		if len(list) != 1 {
			t.Fatalf("%d, %s: %+v", i, c.tool, list)
		}
		e := list[0]
		if e.Signal != "network" || e.Severity != "violation" || e.Key != "network.egress.https" || e.Declared || e.Count != c.count || e.Response != c.response || !strings.Contains(e.Evidence, c.evidence) {
			t.Errorf("%s: %+v", c.tool, e)
		}
	}
	if r := call("quiet"); r.Code != capabilities.CodeRunnerQuarantined || r.Status != capabilities.StatusDenied {
		t.Errorf("a program in quarantine: %+v", r)
	}
	if r := call("upper", "--arg", "text=x"); r.Status != capabilities.StatusOK {
		t.Errorf("another program of the same provider: %+v", r)
	}
	if out := p.does("provider", "check", "pure"); !strings.Contains(out, "tried an IPv4 socket, which may not be reached: ") {
		t.Errorf("%s", out)
	}
}
