package workers

import (
	"net/http"
	"strings"
	"testing"
	"time"

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

// TestAnEndIsADayATimeOrADuration: --expires takes each, and nothing that is over by itself.
func TestAnEndIsADayATimeOrADuration(t *testing.T) {
	now := time.Date(2026, 11, 30, 9, 30, 0, 0, time.FixedZone("here", 3600))
	for s, want := range map[string]string{
		"2026-12-31": "2027-01-01T00:00:00+01:00", "2026-12-31 15:04": "2026-12-31T15:04:00+01:00", "2026-12-31T15:04:05Z": "2026-12-31T15:04:05Z",
		"12h": "2026-11-30T21:30:00+01:00", "30d": "2026-12-30T09:30:00+01:00",
		"0d": "", "-1h": "", "0s": "", "d": "", "soon": "", "31.12.2026": "", "": "",
	} {
		got, err := endAt(s, now)
		if want == "" && capabilities.CodeOf(err) != capabilities.CodeInvalidRequest || want != "" && (err != nil || got.Format(time.RFC3339) != want) {
			t.Errorf("%q: %s, %v, want %s", s, got.Format(time.RFC3339), err, want)
		}
	}
}
