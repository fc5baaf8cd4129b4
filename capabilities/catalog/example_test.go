package catalog_test

import (
	"fmt"

	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// The catalog knows every tool: what it is called by models, and whether arguments fit.
func ExampleEmbedded() {
	tools, err := catalog.Embedded()
	if err != nil {
		panic(err)
	}
	click, _ := tools.ByWireName("tool_browser_click")
	fmt.Println(click.Tool, click.Capability)
	// Output:
	// tool.browser.click tyrum.browser.click
}
