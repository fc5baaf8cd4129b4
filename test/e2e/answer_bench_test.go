package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// BenchmarkAnswerResumes measures how long an answer takes to resume the call that waits for it:
// from when the person's client begins to send it to when the agent's client has the result, both
// over HTTP, the whole way by a node; median-ms. Beside it stands the same call where policy
// allows it: free-ms.
func BenchmarkAnswerResumes(b *testing.B) {
	s := site.Start(b, site.Options{ApprovalWait: 2 * time.Minute, Rules: `@id("free") permit (principal == Agent::"free", action == Action::"tool.fixture.echo", resource);
@id("ask") permit (principal, action == Action::"tool.fixture.echo", resource) when { context.consent };`})
	s.AddNode("desk", site.NewHandler())
	as := func(who capabilities.PrincipalID, role principal.Role) *client.Client {
		c, err := client.New(s.URL(), client.NewToken(s.MustToken(who, role)))
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	free, person := as("free", principal.RoleAgent), as("op", principal.RoleOperator)
	call := func(c *client.Client) error {
		r, err := c.Call(context.Background(), client.Call{Tool: site.ToolEcho, Args: map[string]any{"text": "x"}})
		if err == nil && r.Status != capabilities.StatusOK {
			err = fmt.Errorf("%+v", r)
		}
		return err
	}
	var waited, went []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := call(free); err != nil {
			b.Fatal(err)
		}
		went = append(went, time.Since(began))
		asks := as(capabilities.PrincipalID(fmt.Sprintf("asks-%d", len(waited))), principal.RoleAgent) // one may ask so often
		done := make(chan error, 1)
		go func() { done <- call(asks) }()
		for changed := s.Consent.Changed(); len(s.Consent.Approvals()) == 0; changed = s.Consent.Changed() {
			select {
			case <-changed:
			case err := <-done:
				b.Fatalf("nobody was asked: %v", err)
			}
		}
		id := s.Consent.Approvals()[0].ID
		began = time.Now()
		if _, err := person.Answer(context.Background(), id, client.Answer{Allow: true, Acknowledged: true}); err != nil {
			b.Fatal(err)
		}
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		waited = append(waited, time.Since(began))
	}
	slices.Sort(waited)
	slices.Sort(went)
	ms := func(all []time.Duration, part int) float64 {
		return float64(all[min(len(all)*part/100, len(all)-1)].Microseconds()) / 1000
	}
	b.ReportMetric(ms(waited, 50), "median-ms")
	b.ReportMetric(ms(waited, 99), "p99-ms")
	b.ReportMetric(ms(went, 50), "free-ms")
}
