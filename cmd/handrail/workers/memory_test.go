package workers

import (
	"net/http"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// TestAPrivateFactIsEditedWithAgree: the command says which flag is the person's word.
func TestAPrivateFactIsEditedWithAgree(t *testing.T) {
	answering(t, http.StatusConflict, `{"error":{"code":"acknowledgement_required","message":"this is private","hint":"Ask the person."}}`)
	cmd := NewMemoryCmd()
	cmd.SetArgs([]string{"edit", "fact_1", "my name is Ann"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetContext(t.Context())
	if err := cmd.Execute(); capabilities.CodeOf(err) != capabilities.CodeAcknowledgementRequired || !strings.Contains(capabilities.AsError(err).PublicHint(), "--agree") {
		t.Errorf("%v", err)
	}
}
