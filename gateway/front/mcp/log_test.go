package mcp

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// The SDK's warnings are told, but not that a client without a stream got no notice.
func TestWarnings(t *testing.T) {
	var said bytes.Buffer
	log := slog.New(warnings{slog.NewTextHandler(&said, nil)}).With("a", 1)
	log.Info("a step")
	log.Warn("calling notifications/tools/list_changed: rejected by transport: undelivered message: stream not connected or already closed")
	log.Warn("something is wrong")
	if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "something is wrong") {
		t.Errorf("told: %s", text)
	}
}
