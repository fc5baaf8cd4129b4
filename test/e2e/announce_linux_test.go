package e2e

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// slackText is a text of Slack's Block Kit.
type slackText struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Emoji *bool  `json:"emoji"`
}

// slackBody is a message for Slack's incoming webhooks: text, and blocks.
type slackBody struct {
	Text   string `json:"text"`
	Blocks []struct {
		Type     string     `json:"type"`
		Text     *slackText `json:"text"`
		Elements []struct {
			Type string    `json:"type"`
			Text slackText `json:"text"`
			URL  string    `json:"url"`
		} `json:"elements"`
	} `json:"blocks"`
}

// teamsBody is a message for a workflow of Teams, with Adaptive Cards.
type teamsBody struct {
	Type        string `json:"type"`
	Attachments []struct {
		ContentType string  `json:"contentType"`
		ContentURL  *string `json:"contentUrl"`
		Content     struct {
			Schema  string `json:"$schema"`
			Type    string `json:"type"`
			Version string `json:"version"`
			Body    []struct {
				Type    string `json:"type"`
				Inlines []struct {
					Type string `json:"type"`
					Text string `json:"text"`
				} `json:"inlines"`
			} `json:"body"`
			Actions []struct {
				Type  string `json:"type"`
				Title string `json:"title"`
				URL   string `json:"url"`
			} `json:"actions"`
		} `json:"content"`
	} `json:"attachments"`
}

// telegramBody is a message for Telegram's sendMessage.
type telegramBody struct {
	Chat    string `json:"chat_id"`
	Text    string `json:"text"`
	Preview struct {
		Off bool `json:"is_disabled"`
	} `json:"link_preview_options"`
}

// service is a stand-in that takes bodies of its documented shape and no other. It returns what
// people read, and where the link leads.
type service struct {
	path   string // of the address that it gives out, or of its API
	answer string
	reads  func(*json.Decoder) (text, link string, err error)
	env    func(address string) map[string]string // settings, beside those of all; a name that ends with _FILE names a file
}

var services = map[string]service{
	"slack": {"/services/T0/B0/secret", "ok", func(d *json.Decoder) (string, string, error) {
		var b slackBody
		if err := d.Decode(&b); err != nil {
			return "", "", err
		}
		if b.Text == "" || len(b.Text) > 3000 || len(b.Blocks) != 2 || b.Blocks[0].Type != "section" || b.Blocks[0].Text == nil ||
			b.Blocks[0].Text.Type != "plain_text" || b.Blocks[0].Text.Text == "" || b.Blocks[1].Type != "actions" || len(b.Blocks[1].Elements) != 1 {
			return "", "", fmt.Errorf("invalid_blocks")
		}
		button := b.Blocks[1].Elements[0]
		if button.Type != "button" || button.Text.Type != "plain_text" || len(button.Text.Text) > 75 || len(button.URL) > 3000 || strings.ContainsAny(b.Text, "<>") {
			return "", "", fmt.Errorf("invalid_blocks")
		}
		return b.Text + b.Blocks[0].Text.Text, button.URL, nil
	}, func(address string) map[string]string {
		return map[string]string{"SLACK_WEBHOOK_FILE": address + "/services/T0/B0/secret"}
	}},
	"teams": {"/workflows/secret", "", func(d *json.Decoder) (text, link string, err error) {
		var b teamsBody
		if err := d.Decode(&b); err != nil {
			return "", "", err
		}
		if b.Type != "message" || len(b.Attachments) != 1 || b.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" {
			return "", "", fmt.Errorf("no message with a card")
		}
		c := b.Attachments[0].Content
		if c.Type != "AdaptiveCard" || c.Version != "1.4" || c.Schema == "" || len(c.Body) == 0 || len(c.Actions) != 1 || c.Actions[0].Type != "Action.OpenUrl" ||
			c.Actions[0].Title == "" {
			return "", "", fmt.Errorf("no card")
		}
		for _, one := range c.Body {
			if one.Type != "RichTextBlock" || len(one.Inlines) != 1 || one.Inlines[0].Type != "TextRun" {
				return "", "", fmt.Errorf("no block of text")
			}
			text += one.Inlines[0].Text + "\n"
		}
		return text, c.Actions[0].URL, nil
	}, func(address string) map[string]string {
		return map[string]string{"TEAMS_WEBHOOK_FILE": address + "/workflows/secret"}
	}},
	"telegram": {"/bot12:secret/sendMessage", `{"ok":true,"result":{}}`, func(d *json.Decoder) (string, string, error) {
		var b telegramBody
		if err := d.Decode(&b); err != nil {
			return "", "", err
		}
		at := strings.LastIndex(b.Text, "\n")
		if b.Chat != "-100" || len(b.Text) > 4096 || at < 0 || !b.Preview.Off {
			return "", "", fmt.Errorf("bad request: %+v", b)
		}
		return b.Text[:at], b.Text[at+1:], nil
	}, func(address string) map[string]string {
		return map[string]string{"TELEGRAM_TOKEN_FILE": "12:secret", "TELEGRAM_CHAT": "-100", "TELEGRAM_API": address}
	}},
}

// Each recipe of examples/announce carries a question from the gateway's signed webhook to its
// service, once, though the service was busy first: who wants what, and a link to the question in
// the console, which answers nothing. Nothing of the arguments goes there, and what nobody signed
// goes nowhere.
func TestQuestionsAreAnnounced(t *testing.T) {
	desk.Need(t, "python3")
	for name, c := range services {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			type read struct{ text, link string }
			got := make(chan read, 16)
			busy := make(chan struct{}, 1)
			busy <- struct{}{}
			stand := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-busy:
					w.WriteHeader(http.StatusTooManyRequests)
					return
				default:
				}
				d := json.NewDecoder(io.LimitReader(r.Body, 1<<20))
				d.DisallowUnknownFields()
				text, link, err := c.reads(d)
				if err != nil || r.Method != http.MethodPost || r.URL.Path != c.path || r.Header.Get("Content-Type") != "application/json" {
					t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
					http.Error(w, "invalid_payload", http.StatusBadRequest)
					return
				}
				got <- read{text, link}
				_, _ = io.WriteString(w, c.answer)
			}))
			t.Cleanup(stand.Close)

			s := site.Start(t, site.Options{ApprovalWait: time.Minute, Rules: `@id("all") permit (principal, action, resource) when { context.consent };`})
			n := s.AddNode("<desk>*_", site.NewHandler())
			n.AwaitReady()
			key := "whsec_" + base64.StdEncoding.EncodeToString([]byte("a key of thirty-two bytes, or so"))
			dir := t.TempDir()
			env := append(os.Environ(), "LISTEN=127.0.0.1:0", "HANDRAIL_URL="+s.URL())
			settings := c.env(stand.URL)
			settings["HANDRAIL_KEY_FILE"] = key
			for k, v := range settings {
				if strings.HasSuffix(k, "_FILE") {
					file := filepath.Join(dir, k)
					must(t, os.WriteFile(file, []byte(v+"\n"), 0o600))
					v = file
				}
				env = append(env, k+"="+v)
			}
			relay := exec.Command("/usr/bin/python3", "../../examples/announce/"+name+"/relay.py")
			relay.Env = env
			var said strings.Builder
			relay.Stderr = &said
			out, err := relay.StdoutPipe()
			must(t, err)
			must(t, relay.Start())
			end := func() { _ = relay.Process.Kill(); _ = relay.Wait() }
			defer end()
			first, err := bufio.NewReader(out).ReadString('\n')
			must(t, err)
			address := strings.TrimSpace(strings.TrimPrefix(first, "listening on "))
			must(t, os.WriteFile(filepath.Join(s.Dir, "webhooks.json"), []byte(`{"version":1,"hooks":[{"url":"`+address+`","key":"`+key+`"}]}`), 0o600))
			s.Restart()
			n.AwaitReady()

			forged, err := http.Post(address, "application/json", strings.NewReader(`{"type":"approval.asked","approval":{"approval":"a-1","state":"pending"}}`))
			must(t, err)
			must(t, forged.Body.Close())
			if forged.StatusCode != http.StatusUnauthorized {
				t.Errorf("what nobody signed is answered by %d", forged.StatusCode)
			}
			ended := make(chan capabilities.Result, 1)
			go func() {
				ended <- s.Dispatcher.Call(t.Context(), dispatch.Request{
					Caller: dispatch.Caller{Principal: "robot", Role: "agent", Lane: "main"}, Tool: site.ToolPress, Args: []byte(`{"text":"the-argument"}`), Surface: "test",
				})
			}()
			var told read
			select {
			case told = <-got:
			case <-time.After(time.Minute):
				end()
				t.Fatalf("nothing came; the recipe says %s", &said)
			}
			var asked consent.Approval
			for _, a := range s.Consent.Approvals() {
				asked = a
			}
			if !strings.Contains(told.text, "robot") || !strings.Contains(told.text, string(site.ToolPress)) || !strings.Contains(told.text, "<desk>*_") ||
				!strings.Contains(told.text, asked.Risk) || strings.Contains(told.text+told.link, "the-argument") {
				t.Errorf("it says %q", told.text)
			}
			if told.link != s.URL()+"/console/approvals/"+asked.ID {
				t.Errorf("it leads to %s", told.link)
			}
			page, err := http.Get(told.link) // by who has the message and nothing else
			must(t, err)
			must(t, page.Body.Close())
			if a, err := s.Consent.Approval(asked.ID); err != nil || a.State != consent.StatePending || !strings.Contains(page.Request.URL.Path, "login") {
				t.Errorf("opening the link leads to %s and leaves %+v (%v)", page.Request.URL, a.State, err)
			}
			_, err = s.Consent.Answer(t.Context(), asked.ID, consent.Answer{By: "anna"})
			must(t, err)
			<-ended
			if len(got) > 0 {
				t.Errorf("it came %d times more", len(got))
			}
			end()
			if strings.Contains(said.String(), "secret") || !strings.Contains(said.String(), "429") {
				t.Errorf("the recipe says %s", &said)
			}
		})
	}
}
