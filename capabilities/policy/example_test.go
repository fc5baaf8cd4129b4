package policy_test

import (
	"fmt"
	"time"

	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// Rules are Cedar. A call that no rule permits is denied; one that a rule permits only with a
// person's consent is asked about.
func ExampleEngine_Decide() {
	tools, err := catalog.Embedded()
	if err != nil {
		panic(err)
	}
	rules := `@id("reading") permit (principal, action == Action::"tool.browser.snapshot", resource);
@id("clicking") permit (principal, action == Action::"tool.browser.click", resource) when { context.consent };`
	engine, err := policy.Load([]policy.Source{{Name: "site.cedar", Data: []byte(rules)}}, tools)
	if err != nil {
		panic(err)
	}
	request := policy.Request{
		Principal: "alice", Role: "agent", Lane: "main", Args: []byte(`{}`), Given: "t2", Time: time.Now(),
		Node: policy.Node{ID: "n1", Platform: "linux", Trust: "trusted"},
	}
	request.Tool = "tool.browser.snapshot"
	fmt.Println(engine.Decide(request).Effect)
	request.Tool, request.Args = "tool.browser.click", []byte(`{"selector":"#buy"}`)
	fmt.Println(engine.Decide(request).Effect)
	request.Tool, request.Args = "tool.browser.navigate", []byte(`{"url":"https://example.com"}`)
	d := engine.Decide(request)
	fmt.Println(d.Effect, d.Code)
	// Output:
	// allow
	// ask
	// deny denied_by_policy
}
