package remote_test

import (
	"testing"

	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
)

// The domains of plumbing that workers ask have subjects of their own (S3-23, S3-25), each of which
// one worker alone may use.
func TestDomainsThatWorkersAsk(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/jobs/take": "jobs", "/v1/jobs": "jobs", "/v1/calls": "cli", "/v1/tools?lane=l": "cli", "/v1/turns": "turns", "/v1/ledger/head": "audit",
		"/v1/tokens": "", "/v1/workers/join": "", "/mcp": "", "jobs": "", "/v1/jobs/../tokens": "", "/v1/jobs%2F..": "", "/v1/jobsx": "", "/v1/": "",
	} {
		if got := remote.DomainOf(path); got != want {
			t.Errorf("%s is of %q, want %q", path, got, want)
		}
	}
	if got := remote.AllAsks("w1"); len(got) != 4 || got[2] != "factory.jobs.ask.w1" {
		t.Error(got)
	}
	for _, subject := range []string{
		"factory.jobs.ask.w1", "factory.jobs.heartbeat-w1", "factory.llm.ask.w1", "factory.tool.jobs.ask.w1", "factory.jobs.ask.w1.x", "factory.jobs.ask.*",
		"factory.jobs.ask.",
	} {
		domain, worker := remote.AskOf(subject)
		if is := subject == "factory.jobs.ask.w1"; is != (domain == "jobs" && worker == "w1") || !is && domain+worker != "" {
			t.Errorf("%s is %q of %q", subject, domain, worker)
		}
	}
}
