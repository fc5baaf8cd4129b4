package attack

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/webhook"
	"github.com/handrail-dev/handrail/test/site"
)

// A receiver is told what waits and how it was answered, and nothing of the arguments.
func TestWebhooksTellWhatWaits(t *testing.T) {
	got := make(chan string, 16)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}))
	t.Cleanup(receiver.Close)
	a := enter(t, site.Options{ApprovalWait: time.Millisecond})
	key := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	file := fmt.Sprintf(`{"version":1,"hooks":[{"url":%q,"key":%q}]}`, receiver.URL, key)
	if err := os.WriteFile(filepath.Join(a.Dir, "webhooks.json"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Restart()
	a.node.AwaitReady()
	a.press(caller("agent", "main"), `{"text":"told\u202e\u001b[2J"}`)
	a.allow()
	for _, kind := range []string{"approval.asked", "approval.answered"} {
		select {
		case body := <-got:
			var m webhook.Message
			if err := json.Unmarshal([]byte(body), &m); err != nil || m.Type != kind || m.Approval == nil || m.Approval.Risk == "" {
				t.Errorf("%s: %v", body, err)
			}
			if strings.Contains(body, "told") || strings.Contains(body, a.operator) {
				t.Errorf("too much is told: %s", body)
			}
		case <-time.After(time.Minute):
			t.Fatal("slow: nothing came")
		}
	}
}
