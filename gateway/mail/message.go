package mail

import (
	"bytes"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"strings"
	"time"
	"unicode"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
)

// maxWord bounds what a name takes of a message, in bytes.
const maxWord = 80

// word is what somebody named as it may stand in a message: visible, on one line, and short.
func word(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, consent.Plain(s))
	s = strings.Join(strings.Fields(s), " ")
	return capabilities.Clip(s, maxWord)
}

// compose returns the message about a question, ready for DATA. page is where it is answered.
func compose(c *Config, a *consent.Approval, page string, now time.Time) []byte {
	where := word(a.NodeLabel)
	if where == "" {
		where = "the gateway"
	}
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, value) }
	header("From", "<"+c.From+">")
	header("To", "<"+strings.Join(c.To, ">, <")+">")
	header("Subject", mime.QEncoding.Encode("utf-8", fmt.Sprintf("Handrail: %s waits for an answer", word(string(a.Tool)))))
	header("Date", now.UTC().Format("Mon, 02 Jan 2006 15:04:05 -0700"))
	header("Message-ID", fmt.Sprintf("<%s@%s>", a.ID, domain(c.From)))
	header("Auto-Submitted", "auto-generated") // RFC 3834: no answering machine answers
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	body := quotedprintable.NewWriter(&b)
	// A write to a buffer does not fail.
	_, _ = fmt.Fprintf(body, "%s wants %s (%s) on %s.\r\nRisk: %s\r\nUntil: %s\r\n\r\n"+
		"To look at it and to answer, sign in here:\r\n%s\r\n\r\nNothing can be answered by this message.\r\n",
		word(string(a.Principal)), word(string(a.Tool)), word(a.Title), where, word(a.Risk), a.Expires.UTC().Format(time.RFC1123), page)
	_ = body.Close()
	return b.Bytes()
}

// domain is the part of an address after the last @.
func domain(address string) string { return address[strings.LastIndex(address, "@")+1:] }
