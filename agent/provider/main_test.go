package provider

import (
	"testing"

	"go.uber.org/goleak"
)

// A session of the SDK's server, the other side here, ends some time after its client went.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/modelcontextprotocol/go-sdk/mcp.(*streamableServerConn).Read"))
}
