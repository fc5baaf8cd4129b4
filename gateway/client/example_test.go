package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/client"
)

// open is what every example begins with: the address of a gateway, and a token
// that 'handrail token create' printed there.
func open() *client.Client {
	c, err := client.New(os.Getenv("HANDRAIL_URL"), client.NewToken(os.Getenv("HANDRAIL_TOKEN")))
	if err != nil {
		panic(err)
	}
	return c
}

// An agent calls a tool and looks at what came of it.
func ExampleClient_Call() {
	c := open()
	r, err := c.Call(context.Background(), client.Call{
		Tool: "tool.fixture.echo", Args: map[string]any{"text": "hello"}, RequestID: "greeting-1",
	})
	if err == nil {
		err = client.ResultError(r)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Status, string(r.Output), r.Effect)
	// ok {"text":"hello"} confirmed
}

// Errors have codes from one closed list (docs/errors.md).
func ExampleResultError() {
	c := open()
	r, err := c.Call(context.Background(), client.Call{Tool: "tool.fixture.nosuch"})
	if err == nil {
		err = client.ResultError(r)
	}
	switch capabilities.CodeOf(err) {
	case capabilities.CodeUnknownTool:
		fmt.Println("there is no such tool")
	case capabilities.CodeApprovalPending:
		fmt.Println("a person has to look at it first")
	}
	// there is no such tool
}

// A person's program answers what waits, as it comes.
func ExampleClient_Answer() {
	c, ctx := open(), context.Background()
	answered := errors.New("answered")
	answer := func() error {
		waiting, err := c.Approvals(ctx)
		if err != nil {
			return err
		}
		if len(waiting) == 0 {
			return nil
		}
		a := waiting[0]
		fmt.Printf("%s wants %s (%s risk)\n", a.Principal, a.Tool, a.Risk)
		if _, err := c.Answer(ctx, a.ID, client.Answer{Allow: true, Acknowledged: true, Reason: "an example"}); err != nil {
			return err
		}
		return answered
	}
	// The list is read once the stream is open, so that nothing falls between.
	err := c.Events(ctx, 0, answer, func(e client.Event) error {
		if e.Name != "approval" {
			return nil
		}
		return answer()
	})
	fmt.Println(err)
	// person wants tool.fixture.press (high risk)
	// answered
}
