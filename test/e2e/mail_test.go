package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/test/site"
)

// mailbox is a mail server of another maker; each message that comes is sent on it.
type mailbox chan string

func (m mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return m, nil }

func (m mailbox) Mail(string, *smtp.MailOptions) error { return nil }
func (m mailbox) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (m mailbox) Reset()                               {}
func (m mailbox) Logout() error                        { return nil }

func (m mailbox) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err == nil {
		m <- string(text)
	}
	return err
}

// A question is told by e-mail as mail.json says: with its address in the console, which answers
// nothing, and without the call's arguments.
func TestAQuestionIsTold(t *testing.T) {
	box := make(mailbox, 8)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := smtp.NewServer(box)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	s := site.Start(t, site.Options{ApprovalWait: time.Minute, Rules: `@id("all") permit (principal, action, resource) when { context.consent };`})
	n := s.AddNode("desk", site.NewHandler())
	n.AwaitReady()
	must(t, os.WriteFile(filepath.Join(s.Dir, "mail.json"), fmt.Appendf(nil, `{"version":1,"server":"smtp://%s","from":"handrail@example.com","to":["ann@example.com"]}`, l.Addr()), 0o600))
	s.Restart()
	n.AwaitReady()
	ended := make(chan capabilities.Result, 1)
	go func() {
		ended <- s.Dispatcher.Call(context.WithoutCancel(t.Context()), dispatch.Request{
			Caller: dispatch.Caller{Principal: "robot", Role: "agent", Lane: "main"}, Tool: site.ToolPress, Args: []byte(`{"text":"the-argument"}`), Surface: "test",
		})
	}()
	var letter string
	select {
	case letter = <-box:
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
	}
	asked := s.Consent.Approvals()[0]
	if !strings.Contains(letter, "/console/approvals/"+asked.ID) || !strings.Contains(letter, "robot wants "+string(site.ToolPress)) || strings.Contains(letter, "the-argument") {
		t.Errorf("%s", letter)
	}
	_, err = s.Consent.Answer(t.Context(), asked.ID, consent.Answer{By: "anna"})
	must(t, err)
	<-ended
}
