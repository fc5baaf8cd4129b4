package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// answersOf is an API whose operations are named after what they answer.
const answersOf = `{"openapi":"3.0.3","info":{"version":"1"},"servers":[{"url":"%s/v1"}],"paths":{
"/get/{what}":{"get":{"operationId":"get","parameters":[{"name":"what","in":"path","required":true,"schema":{"type":"string"}}]}},
"/post/{what}":{"post":{"operationId":"post","parameters":[{"name":"what","in":"path","required":true,"schema":{"type":"string"}}],"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"n":{"type":"integer"}}}}}}}}}}`

// answering is a server that answers as the last part of a path says, and counts requests.
type answering struct {
	*httptest.Server
	document  atomic.Value // string
	calls     atomic.Int32
	mu        sync.Mutex
	elsewhere string
}

func startAnswering(t *testing.T) *answering {
	t.Helper()
	a := &answering{}
	mux := http.NewServeMux()
	mux.HandleFunc("/openapi.json", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, a.document.Load().(string)) })
	mux.HandleFunc("/v1/{method}/{what}", a.answer)
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	a.document.Store(fmt.Sprintf(answersOf, a.URL))
	return a
}

func (a *answering) answer(w http.ResponseWriter, r *http.Request) {
	a.calls.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	say := func(status int, kind, text string) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
	switch what := r.PathValue("what"); what {
	case "json":
		w.Header().Add("Link", `</v1/get/json?page=2>; rel="next", <https://other.example/last>; rel=last`)
		say(200, "application/json; charset=utf-8", `{"list":[1,2.5,"ä",null],"echo":`+string(append([]byte{}, orNull(body)...))+`}`)
	case "digits":
		say(200, "application/json", `{"id":12345678901234567890}`)
	case "text":
		say(200, "text/plain", "hello\nworld")
	case "bytes":
		say(200, "image/png", "\x89PNG\r\n\x1a\n")
	case "nothing":
		w.WriteHeader(204)
	case "large":
		say(200, "application/json", `["`+strings.Repeat("x", 2<<20)+`"]`)
	case "flood":
		w.Header().Set("Content-Type", "application/octet-stream")
		for chunk := make([]byte, 1<<20); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	case "429":
		w.Header().Set("Retry-After", "17")
		say(429, "text/plain", "slow down")
	case "422":
		say(422, "application/json", `{"message":"n is \u202e too large","long":"`+strings.Repeat("x", 10000)+`"}`)
	case "auth":
		if r.Header.Get("X-Key") != "correct horse" {
			say(401, "text/plain", "who are you? you said "+r.Header.Get("X-Key"))
			return
		}
		say(200, "application/json", `{"said":"`+r.Header.Get("X-Key")+`"}`)
	case "hang":
		<-r.Context().Done()
	case "cut":
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = c.Close()
		}
	case "same":
		http.Redirect(w, r, "/v1/get/json", http.StatusFound)
	case "away":
		a.mu.Lock()
		to := a.elsewhere
		a.mu.Unlock()
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	default:
		var status int
		if _, err := fmt.Sscan(what, &status); err != nil {
			status = 404
		}
		say(status, "text/plain", "as you say")
	}
}

func orNull(body []byte) []byte {
	if len(body) == 0 {
		return []byte("null")
	}
	return body
}

func apiHost(t *testing.T, record tools.Provider) (*Host, error) {
	t.Helper()
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Options{Dir: t.TempDir(), Catalog: cat, Start: &inside{make: echoServer}, Allowed: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	_, err = manage(h, capHost, map[string]any{"provider": record.Name, "record": json.RawMessage(text)})
	return h, err
}

func hostedAPI(t *testing.T, a *answering) *Host {
	t.Helper()
	h, err := apiHost(t, tools.Provider{Name: "things", Kind: tools.KindOpenAPI, URL: a.URL + "/openapi.json"})
	if err != nil {
		t.Fatal(err)
	}
	approve(t, h, "things")
	return h
}

func ask(h *Host, method, what string) (capabilities.Output, error) {
	args := `{"what":"` + what + `"}`
	if method == "post" {
		args = `{"body":{"n":1},"what":"` + what + `"}`
	}
	return h.Handle(context.Background(), invocation(capabilities.CapabilityID("tyrum.things."+method), args))
}

// An HTTP API's answer is a result of the one shape: data, text or bytes, with its status and
// where it leads (S3-13).
func TestAnAPIAnswers(t *testing.T) {
	a := startAnswering(t)
	h := hostedAPI(t, a)
	d, ok := h.Tool("tool.things.get")
	if !ok {
		t.Fatal("it is not there")
	}
	for what, want := range map[string]string{
		"json":    `{"data":{"echo":null,"list":[1,2.5,"ä",null]},"links":[{"name":"next","uri":"` + a.URL + `/v1/get/json?page=2"},{"name":"last","uri":"https://other.example/last"}],"status":200}`,
		"same":    `{"data":{"echo":null,"list":[1,2.5,"ä",null]},"links":[{"name":"next","uri":"` + a.URL + `/v1/get/json?page=2"},{"name":"last","uri":"https://other.example/last"}],"status":200}`,
		"digits":  `{"mime":"application/json","status":200,"text":"{\"id\":12345678901234567890}"}`,
		"text":    `{"status":200,"text":"hello\nworld"}`,
		"bytes":   `{"mime":"image/png","status":200}`,
		"nothing": `{"status":204}`,
	} {
		out, err := ask(h, "get", what)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		text, err := json.Marshal(out.Result)
		if err != nil || string(text) != want || !out.Untrusted || out.Effect != capabilities.EffectConfirmed {
			t.Errorf("%s: %s %v", what, text, err)
		}
		if bad := d.ValidateResult(text); bad != nil {
			t.Errorf("%s: %v", what, bad)
		}
		if what == "bytes" && (len(out.Blobs) != 1 || out.Blobs[0].MIME != "image/png") {
			t.Errorf("%+v", out.Blobs)
		}
	}
	out, err := ask(h, "post", "json")
	if text, _ := json.Marshal(out.Result); err != nil || !strings.Contains(string(text), `"echo":{"n":1}`) || out.Effect != capabilities.EffectUnverifiable {
		t.Errorf("%s %v", text, err)
	}
}

// Each way to fail has its code, and its fix where there is one.
func TestAnAPIFails(t *testing.T) {
	a := startAnswering(t)
	h := hostedAPI(t, a)
	for what, want := range map[string]struct {
		code      capabilities.Code
		retryable bool
		words     string
	}{
		"400":   {capabilities.CodeInvalidArguments, false, "details.body"},
		"401":   {capabilities.CodeForbidden, false, "a secret for a header"},
		"403":   {capabilities.CodeForbidden, false, "a secret for a header"},
		"404":   {capabilities.CodeNotFound, false, ""},
		"409":   {capabilities.CodeConflict, false, ""},
		"422":   {capabilities.CodeInvalidArguments, false, "details.body"},
		"429":   {capabilities.CodeOverloaded, true, "17 seconds"},
		"500":   {capabilities.CodeExecutionFailed, true, ""},
		"501":   {capabilities.CodeExecutionFailed, false, ""},
		"502":   {capabilities.CodeExecutionFailed, true, ""},
		"503":   {capabilities.CodeExecutionFailed, true, ""},
		"504":   {capabilities.CodeExecutionFailed, true, ""},
		"large": {capabilities.CodeResultTooLarge, false, "smaller"},
		"flood": {capabilities.CodeResultTooLarge, false, "smaller"},
		"cut":   {capabilities.CodeExecutionFailed, true, ""},
	} {
		_, err := ask(h, "get", what)
		e := capabilities.AsError(err)
		if err == nil || e.Code != want.code || e.Retryable() != want.retryable || !strings.Contains(e.PublicHint(), want.words) {
			t.Errorf("%s: %v, hint %q, retryable %v", what, err, e.PublicHint(), e.Retryable())
		}
		if text, err := json.Marshal(e.Details); err != nil || len(text) > 6<<10 || strings.Contains(string(text), "\u202e") {
			t.Errorf("%s: %d bytes of details: %v", what, len(text), err)
		}
	}
	// A proxy's word says nothing of what the API did; the API's own does.
	for what, code := range map[string]capabilities.Code{"500": capabilities.CodeExecutionFailed, "502": capabilities.CodeUnknownOutcome, "503": capabilities.CodeExecutionFailed, "504": capabilities.CodeUnknownOutcome} {
		out, err := ask(h, "post", what)
		e := capabilities.AsError(err)
		text, _ := json.Marshal(e.Details)
		if e.Code != code || code == capabilities.CodeUnknownOutcome && (e.Retryable() || out.Effect != capabilities.EffectUnverifiable || !strings.Contains(string(text), `"status":`+what)) {
			t.Errorf("post %s: %v, retryable %v, %s", what, err, e.Retryable(), text)
		}
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), 100*time.Millisecond, &capabilities.Error{Code: capabilities.CodeDeadlineExceeded})
	defer cancel()
	out, err := h.Handle(ctx, invocation("tyrum.things.post", `{"what":"hang"}`))
	if capabilities.CodeOf(err) != capabilities.CodeDeadlineExceeded || out.Effect != capabilities.EffectUnverifiable {
		t.Errorf("%+v %v", out, err)
	}
	a.Close()
	if _, err := ask(h, "get", "json"); capabilities.CodeOf(err) != capabilities.CodeExecutionFailed || !strings.Contains(err.Error(), "cannot be reached") || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("%v", err)
	}
}

// A redirect to another place is told and not followed, and a request that changes something is
// never sent twice.
func TestAnAPIRedirects(t *testing.T) {
	a, other := startAnswering(t), startAnswering(t)
	h := hostedAPI(t, a)
	a.mu.Lock()
	a.elsewhere = other.URL + "/v1/get/json"
	a.mu.Unlock()
	for _, method := range []string{"get", "post"} {
		out, err := ask(h, method, "away")
		text, _ := json.Marshal(out.Result)
		if err != nil || !strings.Contains(string(text), `"location"`) || !strings.Contains(string(text), other.URL) || !strings.Contains(string(text), `"status":307`) {
			t.Errorf("%s %v", text, err)
		}
	}
	if n := other.calls.Load(); n != 0 {
		t.Errorf("the other place was called %d times", n)
	}
	if _, err := ask(h, "post", "same"); err != nil || a.calls.Load() != 3 {
		t.Errorf("%d calls, %v", a.calls.Load(), err)
	}
}

// An API near the node is reached only where an admin named it: a document that leads there, or a
// name that does, is none.
func TestAnAPIReachesOnlyWhatWasNamed(t *testing.T) {
	a := startAnswering(t)
	port := a.URL[strings.LastIndexByte(a.URL, ':'):]
	document := json.RawMessage(fmt.Sprintf(answersOf, a.URL))
	record := tools.Provider{Name: "things", Kind: tools.KindOpenAPI, Manifest: document}
	for name, change := range map[string]func(*tools.Provider){
		"nothing": func(*tools.Provider) {},
		"another": func(p *tools.Provider) { p.Net = []string{"127.0.0.2", "127.0.0.1:1"} },
		"a name":  func(p *tools.Provider) { p.Manifest = json.RawMessage(fmt.Sprintf(answersOf, "http://localhost"+port)) },
	} {
		p := record
		change(&p)
		h, err := apiHost(t, p)
		if err != nil {
			t.Fatal(err)
		}
		approve(t, h, "things")
		if _, err := ask(h, "get", "json"); capabilities.CodeOf(err) != capabilities.CodeURLBlocked || !strings.Contains(capabilities.AsError(err).PublicHint(), "--net") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if a.calls.Load() != 0 {
		t.Error("it was called")
	}
	for name, change := range map[string]func(*tools.Provider){
		"server":   func(p *tools.Provider) { p.Server = a.URL + "/v1" },
		"net port": func(p *tools.Provider) { p.Net = []string{"127.0.0.1" + port} },
	} {
		p := record
		change(&p)
		h, err := apiHost(t, p)
		if err != nil {
			t.Fatal(err)
		}
		approve(t, h, "things")
		if _, err := ask(h, "get", "text"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A document that says something else under the same address is not called by the old approval;
// one that cannot be read any more takes nothing away.
func TestAnAPIWhoseDocumentChanges(t *testing.T) {
	a := startAnswering(t)
	h := hostedAPI(t, a)
	record, err := json.Marshal(tools.Provider{Name: "things", Kind: tools.KindOpenAPI, URL: a.URL + "/openapi.json"})
	if err != nil {
		t.Fatal(err)
	}
	check := func() error {
		_, err := manage(h, capHost, map[string]any{"provider": "things", "record": json.RawMessage(record)})
		return err
	}
	a.document.Store("down")
	if err := check(); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
		t.Errorf("%v", err)
	}
	if _, err := ask(h, "get", "text"); err != nil {
		t.Errorf("what was approved is gone: %v", err)
	}
	a.document.Store(strings.Replace(fmt.Sprintf(answersOf, a.URL), `"/get/{what}"`, `"/post/{what}/../get/{what}"`, 1))
	if err := check(); err != nil {
		t.Fatal(err)
	}
	a.document.Store(strings.Replace(fmt.Sprintf(answersOf, a.URL), "/v1\"", "/v2\"", 1))
	if err := check(); err != nil {
		t.Fatal(err)
	}
	before := a.calls.Load()
	if _, err := ask(h, "get", "text"); capabilities.CodeOf(err) != capabilities.CodeNodeNotReady || a.calls.Load() != before {
		t.Errorf("%v", err)
	}
}

// A server that accepts and says nothing costs its own call alone.
func TestAnAPIThatNeverAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h, err := apiHost(t, tools.Provider{Name: "things", Kind: tools.KindOpenAPI, Server: "http://" + l.Addr().String(), Manifest: json.RawMessage(fmt.Sprintf(answersOf, "https://a.example"))})
	if err != nil {
		t.Fatal(err)
	}
	approve(t, h, "things")
	cause := &capabilities.Error{Code: capabilities.CodeCancelled}
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		if c, err := l.Accept(); err == nil {
			defer c.Close()
			buf := make([]byte, 1)
			_, _ = c.Read(buf)
			cancel(cause)
			_, _ = io.Copy(io.Discard, c)
		}
	}()
	if _, err := h.Handle(ctx, invocation("tyrum.things.get", `{"what":"x"}`)); capabilities.CodeOf(err) != capabilities.CodeCancelled {
		t.Errorf("%v", err)
	}
}

// A credential is sent to the API and told to nobody: not in what is recorded of the provider,
// not in an answer or a refusal that repeats it. Without it nothing is sent.
func TestAnAPIsCredential(t *testing.T) {
	a := startAnswering(t)
	h, err := apiHost(t, tools.Provider{
		Name: "things", Kind: tools.KindOpenAPI, URL: a.URL + "/openapi.json", Headers: []tools.Credential{{Name: "X-Key", Secret: "things-key"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	approve(t, h, "things")
	if _, err := ask(h, "get", "auth"); capabilities.CodeOf(err) != capabilities.CodeSecretUnavailable || a.calls.Load() != 0 {
		t.Errorf("%v", err)
	}
	deliver := func(value string) {
		inv := invocation(capCredential, `{"provider":"things","name":"X-Key"}`)
		inv.Secret = capabilities.NewSecret([]byte(value))
		if _, err := h.Handle(context.Background(), inv); err != nil {
			t.Fatal(err)
		}
	}
	deliver("wrong battery")
	_, err = ask(h, "get", "auth")
	e := capabilities.AsError(err)
	details, _ := json.Marshal(e.Details)
	if e.Code != capabilities.CodeForbidden || !strings.Contains(e.PublicHint(), "X-Key") || strings.Contains(string(details), "battery") || !strings.Contains(string(details), "[secret]") {
		t.Errorf("%v %s %s", err, e.PublicHint(), details)
	}
	deliver("correct horse")
	out, err := ask(h, "get", "auth")
	text, _ := json.Marshal(out.Result)
	if err != nil || strings.Contains(string(text), "horse") || !strings.Contains(string(text), `"said":"[secret]"`) {
		t.Errorf("%s %v", text, err)
	}
	kept, err := h.keep.root.ReadFile("things.json")
	if err != nil || strings.Contains(string(kept), "horse") {
		t.Errorf("the value lies on the disk: %v", err)
	}
}
