package mail

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"mime"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post is a mail server of another maker, which lets "handrail" in.
type post struct {
	t        *testing.T
	addr     string
	roots    *x509.CertPool
	password string
	got      chan letter

	mu      sync.Mutex
	refuses int // deliveries that it puts off first
	auths   int
}

// letter is what came, and whether it came inside TLS.
type letter struct {
	from   string
	to     []string
	data   []byte
	secure bool
	who    string
}

type session struct {
	p    *post
	conn *smtp.Conn
	letter
}

// certified makes a certificate for names, good for who trusts roots.
func certified(t *testing.T, host string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if ip := net.ParseIP(host); ip != nil {
		about.IPAddresses = []net.IP{ip}
	} else {
		about.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	must(t, err)
	leaf, err := x509.ParseCertificate(der)
	must(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// kind is how a server is reached.
type kind int

const (
	startTLS kind = iota
	implicit
	noTLS
)

func open(t *testing.T, k kind, host string) *post {
	t.Helper()
	cert, roots := certified(t, host)
	p := &post{t: t, roots: roots, password: "pass word", got: make(chan letter, 16)}
	s := smtp.NewServer(p)
	s.Domain, s.AllowInsecureAuth = "post.test", k == noTLS
	s.ErrorLog = quiet{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p.addr = l.Addr().String()
	switch secured := (&tls.Config{Certificates: []tls.Certificate{cert}}); k {
	case startTLS:
		s.TLSConfig = secured
	case implicit:
		l = tls.NewListener(l, secured)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-served })
	return p
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

func (p *post) NewSession(c *smtp.Conn) (smtp.Session, error) { return &session{p: p, conn: c}, nil }

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		s.p.mu.Lock()
		s.p.auths++
		s.p.mu.Unlock()
		if user != "handrail" || password != s.p.password {
			return &smtp.SMTPError{Code: 535, Message: "wrong: " + password}
		}
		s.who = user
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error { s.from = from; return nil }

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error { s.to = append(s.to, to); return nil }

func (s *session) Data(r io.Reader) (err error) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.p.refuses > 0 {
		s.p.refuses--
		return &smtp.SMTPError{Code: 451, Message: "later"}
	}
	_, s.secure = s.conn.TLSConnectionState()
	if s.data, err = io.ReadAll(r); err == nil {
		s.p.got <- s.letter
	}
	return err
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

// config reads a file for that server.
func (p *post) config(scheme, password string) *Config {
	p.t.Helper()
	c, err := load(p.t, fmt.Sprintf(`{"version":1,"server":"%s://%s","from":"handrail@example.com","to":["ann@example.com","bob@example.com"],`+
		`"user":"handrail","password_file":"mail.password"}`, scheme, p.addr), password)
	must(p.t, err)
	return c
}

func load(t testing.TB, text, password string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mail.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mail.password"), []byte(password), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(filepath.Join(dir, "mail.json"))
}

// question is one that names itself as badly as it can.
var question = consent.Approval{
	ID: "a-0123456789abcdef", State: consent.StatePending, Principal: "robot\r\nBcc: eve@example.com", Tool: "tool.browser.click",
	Title: "Clicks\r\n.\r\nMAIL FROM:<eve@example.com>", NodeLabel: "desk\nX-Evil: 1 Ünïcode \u202e", Risk: "high",
	Arguments: map[string]any{"text": "the-argument"}, Paths: []string{"/the/path"}, Hosts: []string{"the-host.example"},
	Lane: "the-lane", Expires: time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC),
}

func page(id string) string { return "https://gateway.example/console/approvals/" + id }

// tells runs a sender that hears of the question once, and returns what it logs.
func tells(t *testing.T, c *Config, roots *x509.CertPool, approval func(string) (consent.Approval, error)) *logged {
	t.Helper()
	log := &logged{said: make(chan string, 64)}
	b := &book{changed: make(chan struct{})}
	s, err := New(Options{
		Config: c, Ledger: b, Approval: approval, Page: page, Roots: roots, Backoff: time.Millisecond, Log: slog.New(slog.NewJSONHandler(log, nil)),
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	b.add("gateway.approval.answered", `{"approval":"a-0123456789abcdef"}`)
	b.add("gateway.approval.asked", `{"approval":"a-0123456789abcdef"}`)
	return log
}

func pending(string) (consent.Approval, error) { return question, nil }

func (p *post) takes() letter {
	p.t.Helper()
	select {
	case l := <-p.got:
		return l
	case <-time.After(time.Minute):
		p.t.Fatal("nothing came")
		return letter{}
	}
}

// A message goes to all that are named, inside TLS, signed in, and says what people need and
// nothing of the arguments; names in it stay words.
func TestAQuestionIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		kind   kind
		scheme string
		secure bool
	}{"starttls": {startTLS, "smtp", true}, "implicit": {implicit, "smtps", true}, "this host": {noTLS, "smtp", false}} {
		t.Run(name, func(t *testing.T) {
			p := open(t, c.kind, "127.0.0.1")
			p.refuses = 2
			log := tells(t, p.config(c.scheme, "pass word\n"), p.roots, pending)
			l := p.takes()
			if l.from != "handrail@example.com" || fmt.Sprint(l.to) != "[ann@example.com bob@example.com]" || l.secure != c.secure || l.who != "handrail" {
				t.Errorf("%+v", l)
			}
			m, err := netmail.ReadMessage(bytes.NewReader(l.data))
			must(t, err)
			for name := range m.Header {
				if !strings.Contains(" From To Subject Date Message-Id Auto-Submitted Mime-Version Content-Type Content-Transfer-Encoding ", " "+name+" ") {
					t.Errorf("it has a header %s", name)
				}
			}
			subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
			must(t, err)
			if !strings.Contains(subject, "tool.browser.click") || m.Header.Get("Auto-Submitted") == "" {
				t.Errorf("%q", subject)
			}
			text := string(l.data)
			for _, secret := range []string{"the-argument", "the-host", "/the/path", "the-lane", "pass word"} {
				if strings.Contains(text, secret) {
					t.Errorf("it says %s:\n%s", secret, text)
				}
			}
			body, err := io.ReadAll(quoted(m.Body))
			must(t, err)
			lines := strings.Split(string(body), "\r\n")
			if !strings.HasPrefix(lines[0], "robot") || !strings.Contains(lines[0], "desk") || !strings.Contains(string(body), "\r\n"+page(question.ID)+"\r\n") ||
				!strings.Contains(string(body), "Risk: high") {
				t.Errorf("%s", body)
			}
			for _, line := range lines {
				if strings.HasPrefix(line, "Bcc") || strings.HasPrefix(line, ".") || strings.HasPrefix(line, "X-Evil") || strings.HasPrefix(line, "MAIL") {
					t.Errorf("a name became the line %q", line)
				}
			}
			log.await(t, "mail.sent")
			if strings.Contains(log.all(), "pass word") {
				t.Error("the log has the password")
			}
		})
	}
}

// Nothing is sent where TLS is missing or is another's, nor to who does not let us in; it is said,
// without what the server says.
func TestWhatIsNotSent(t *testing.T) {
	stranger := func(t *testing.T, p *post) *Config { c := p.config("smtp", "pass word"); c.Plain = false; return c }
	for name, c := range map[string]struct {
		kind   kind
		host   string
		config func(*testing.T, *post) *Config
		trust  bool
		reason string
		auths  int
	}{
		"no TLS elsewhere":         {noTLS, "127.0.0.1", stranger, true, "no STARTTLS", 0},
		"a certificate of nobody":  {startTLS, "127.0.0.1", stranger, false, "certificate", 0},
		"a certificate of another": {startTLS, "mail.example.com", stranger, true, "certificate", 0},
		"implicit, of nobody":      {implicit, "127.0.0.1", func(t *testing.T, p *post) *Config { return p.config("smtps", "pass word") }, false, "certificate", 0},
		"the password is wrong":    {startTLS, "127.0.0.1", func(t *testing.T, p *post) *Config { return p.config("smtp", "guess") }, true, "refused it: 535", 1},
		"TLS is asked of plain":    {noTLS, "127.0.0.1", func(t *testing.T, p *post) *Config { return p.config("smtps", "pass word") }, true, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, c.kind, c.host)
			roots := p.roots
			if !c.trust {
				_, roots = certified(t, "127.0.0.1")
			}
			log := tells(t, c.config(t, p), roots, pending)
			log.await(t, "mail.given_up")
			said := log.all()
			if !strings.Contains(said, c.reason) || strings.Contains(said, "guess") || strings.Contains(said, "pass word") {
				t.Errorf("it logs %s", said)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.got) > 0 || p.auths != c.auths {
				t.Errorf("%d came, %d tried to sign in", len(p.got), p.auths)
			}
		})
	}
}

// A server that hangs, or that never ends a line, holds up nothing: it is left when the sender
// ends, and read within bounds.
func TestHostileServers(t *testing.T) {
	for name, says := range map[string]func(net.Conn){
		"hangs": func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"floods": func(c net.Conn) {
			for {
				if _, err := c.Write(bytes.Repeat([]byte("220-"), 1<<14)); err != nil {
					return
				}
			}
		},
		"injects before TLS": func(c net.Conn) {
			_, _ = c.Write([]byte("220 hi\r\n"))
			buf := make([]byte, 512)
			_, _ = c.Read(buf)
			_, _ = c.Write([]byte("250-hi\r\n250 STARTTLS\r\n"))
			_, _ = c.Read(buf)
			_, _ = c.Write([]byte("220 go\r\n250-hi\r\n250 AUTH PLAIN\r\n235 in\r\n250 ok\r\n"))
			_, _ = c.Read(buf)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			met := make(chan struct{}, 16)
			var serving sync.WaitGroup
			serving.Go(func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					met <- struct{}{}
					serving.Go(func() { defer c.Close(); says(c) })
				}
			})
			defer serving.Wait()
			defer l.Close()
			p := &post{t: t, addr: l.Addr().String()}
			c := p.config("smtp", "pass word")
			c.Plain = false
			s, err := New(Options{Config: c, Ledger: &book{changed: make(chan struct{})}, Approval: pending, Page: page})
			must(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- s.deliver(ctx, []byte("x")) }()
			<-met
			if name == "hangs" {
				cancel()
			}
			select {
			case err := <-ended:
				if err == nil {
					t.Error("it was delivered")
				}
			case <-time.After(time.Minute):
				t.Error("it hangs")
			}
			cancel()
		})
	}
}

// A question that was answered before a message could be sent is told to nobody.
func TestAnAnsweredQuestionIsNotTold(t *testing.T) {
	p := open(t, startTLS, "127.0.0.1")
	asked := make(chan struct{}, 8)
	tells(t, p.config("smtp", "pass word"), p.roots, func(id string) (consent.Approval, error) {
		defer func() { asked <- struct{}{} }()
		if id != question.ID {
			return consent.Approval{}, errors.New("another")
		}
		over := question
		over.State = consent.StateAllowed
		return over, nil
	})
	<-asked
	if len(p.got) > 0 {
		t.Error("a message came")
	}
}

func TestFiles(t *testing.T) {
	const good = `{"version":1,"server":"smtp://mail.example.com","from":"h@example.com","to":["ann@example.com"],"user":"u","password_file":"mail.password"}`
	c, err := load(t, good, "secret\r\n")
	must(t, err)
	if c.Host != "mail.example.com" || c.Port != "587" || c.Implicit || c.Plain || string(c.Password.Reveal()) != "secret" {
		t.Errorf("%+v", c)
	}
	if text := fmt.Sprintf("%v %+v %#v", c, *c, c); strings.Contains(text, "secret\"") || strings.Contains(text, "115 101") {
		t.Errorf("it prints as %s", text)
	}
	if c, err := load(t, strings.Replace(good, "smtp://mail.example.com", "smtps://127.0.0.1", 1), "x"); err != nil || !c.Implicit || c.Plain || c.Port != "465" {
		t.Errorf("%+v (%v)", c, err)
	}
	if c, err := Load(filepath.Join(t.TempDir(), "none.json")); c != nil || err != nil {
		t.Errorf("%+v (%v)", c, err)
	}
	for what, text := range map[string]string{
		"another version": strings.Replace(good, `"version":1`, `"version":2`, 1),
		"an unknown key":  strings.Replace(good, `"user"`, `"pass":"x","user"`, 1),
		"http":            strings.Replace(good, "smtp:", "http:", 1),
		"a name":          strings.Replace(good, "smtp://", "smtp://u:p@", 1),
		"nobody":          strings.Replace(good, `["ann@example.com"]`, `[]`, 1),
		"a line break":    strings.Replace(good, "ann@example.com", `ann@example.com\r\nRCPT TO:<eve@example.com>`, 1),
		"two in one":      strings.Replace(good, "ann@example.com", "ann@example.com, eve@example.com", 1),
		"a name beside":   strings.Replace(good, "ann@example.com", "Ann <ann@example.com>", 1),
		"no password":     strings.Replace(good, `,"password_file":"mail.password"`, ``, 1),
		"another file":    strings.Replace(good, "mail.password", "none.password", 1),
		"large":           strings.Replace(good, "ann@", strings.Repeat("a", maxFile)+"@", 1),
	} {
		if c, err := load(t, text, "secret"); err == nil || capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%s: %+v (%v)", what, c, err)
		}
	}
	for what, password := range map[string]string{"empty": "\n", "two lines": "a\nb", "large": strings.Repeat("a", maxPassword+1)} {
		if _, err := load(t, good, password); err == nil {
			t.Errorf("a password that is %s was taken", what)
		}
	}
}

// FuzzMessage: whatever somebody named, the message has our headers, and the body after them.
func FuzzMessage(f *testing.F) {
	f.Add("robot", "tool.a.b", "Does\r\n\r\n.\r\n", "desk\x00\u2028", "high")
	f.Add("=?utf-8?q?x?=", "\r\nBcc: x@y", strings.Repeat("ü", 500), "\xff", "")
	c := &Config{From: "h@example.com", To: []string{"ann@example.com"}}
	f.Fuzz(func(t *testing.T, who, tool, title, node, risk string) {
		a := question
		a.Principal, a.Tool, a.Title, a.NodeLabel, a.Risk = capabilities.PrincipalID(who), capabilities.ToolID(tool), title, node, risk
		m, err := netmail.ReadMessage(bytes.NewReader(compose(c, &a, page(a.ID), time.Now())))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(quoted(m.Body))
		if err != nil || len(m.Header) != 9 || strings.Count(string(body), "\n") != 8 || !strings.Contains(string(body), page(a.ID)) {
			t.Errorf("%d headers, %q (%v)", len(m.Header), body, err)
		}
	})
}

// book is a ledger that a test writes.
type book struct {
	mu      sync.Mutex
	packets []ledger.Packet
	changed chan struct{}
}

func (b *book) add(kind ledger.Kind, body string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.packets = append(b.packets, ledger.Packet{Seq: uint64(len(b.packets) + 1), Kind: kind, Principal: "agent", Body: json.RawMessage(body)})
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *book) Changed() <-chan struct{} { b.mu.Lock(); defer b.mu.Unlock(); return b.changed }

func (b *book) Tip() (uint64, chain.Hash) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return uint64(len(b.packets)), chain.Hash{}
}

func (b *book) Packets(_ context.Context, q ledger.Query) ([]ledger.Packet, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []ledger.Packet
	for _, p := range b.packets {
		if p.Seq > q.After && strings.HasPrefix(string(p.Kind), string(q.Kind)) {
			out = append(out, p)
		}
	}
	return out, nil
}

// logged keeps what is logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
	said chan string
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	l.text.Write(p)
	l.mu.Unlock()
	select {
	case l.said <- string(p):
	default:
	}
	return len(p), nil
}

func (l *logged) all() string { l.mu.Lock(); defer l.mu.Unlock(); return l.text.String() }

func (l *logged) await(t *testing.T, what string) {
	t.Helper()
	patience := time.After(time.Minute)
	for {
		select {
		case line := <-l.said:
			if strings.Contains(line, what) {
				return
			}
		case <-patience:
			t.Fatalf("it does not log %s: %s", what, l.all())
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func quoted(r io.Reader) io.Reader { return quotedprintable.NewReader(r) }
