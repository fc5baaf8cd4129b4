package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-canary-0815"

// at runs an endpoint and counts what it is asked. Tries follow each other at once.
func at(t *testing.T, answer http.HandlerFunc) (*Endpoint, *atomic.Int32) {
	t.Helper()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	e := Open(server.URL+"/v1/", capabilities.NewSecret([]byte(key)))
	e.first = time.Nanosecond
	t.Cleanup(e.Close)
	return e, &asked
}

// TestOnlyWhatMayPassIsTriedAgain: a request is sent again while the endpoint is busy or cannot be
// reached, three times at most; never what it refuses for good, and never to another address.
func TestOnlyWhatMayPassIsTriedAgain(t *testing.T) {
	for status, want := range map[int]int32{200: 1, 400: 1, 401: 1, 404: 1, 302: 1, 408: 3, 409: 3, 429: 3, 500: 3, 503: 3} {
		e, asked := at(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/x" || r.Header.Get("Authorization") != "Bearer "+key || r.Header.Get("Accept") != "application/json" {
				t.Errorf("asked %s with %v", r.URL, r.Header)
			}
			w.Header().Set("Location", "/v1/elsewhere")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":{"message":"refused"}}`)
		})
		err := e.Ask(t.Context(), "/x", struct{}{}, &struct{}{})
		var refused *Error
		if errors.As(err, &refused) != (status != 200) || refused != nil && refused.Status != status || asked.Load() != want {
			t.Errorf("%d: %v after %d requests, want %d", status, err, asked.Load(), want)
		}
	}
	n := 0
	busy, asked := at(t, func(w http.ResponseWriter, _ *http.Request) {
		if n++; n < 3 {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, `{"a":7}`)
	})
	var got struct{ A int }
	if err := busy.Ask(t.Context(), "/x", struct{}{}, &got); err != nil || got.A != 7 || asked.Load() != 3 {
		t.Errorf("%v, %+v after %d requests", err, got, asked.Load())
	}
}

// TestAnEndpointSaysHowLongToWait: its own word counts for a busy endpoint, up to a minute.
func TestAnEndpointSaysHowLongToWait(t *testing.T) {
	p := &pauses{asked: 7 * time.Second}
	p.InitialInterval, p.Multiplier, p.MaxInterval = time.Second, 2, 2*time.Second
	p.Reset()
	var waits []time.Duration
	for range 3 {
		waits = append(waits, p.NextBackOff())
	}
	if want := []time.Duration{7 * time.Second, 2 * time.Second, 2 * time.Second}; fmt.Sprint(waits) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", waits, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e, asked := at(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "9999999999")
		w.WriteHeader(http.StatusTooManyRequests)
		cancel()
	})
	if err := e.Ask(ctx, "/x", struct{}{}, &struct{}{}); !errors.Is(err, context.Canceled) || asked.Load() != 1 {
		t.Errorf("%v after %d requests", err, asked.Load())
	}
}

// TestTheKeyIsInNoError: endpoints repeat keys, in every form of a refusal; addresses may hold
// passwords.
func TestTheKeyIsInNoError(t *testing.T) {
	for _, body := range []string{
		`{"error":{"message":"no such key ` + key + `"}}`, `{"error":"no such key ` + key + `"}`, `{"message":"no such key ` + key + `"}`,
		`{"detail":"no such key ` + key + `"}`, `no such key ` + key,
	} {
		e, _ := at(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, body)
		})
		err := e.Ask(t.Context(), "/x", struct{}{}, &struct{}{})
		if err == nil || !strings.Contains(err.Error(), "no such key [secret]") || strings.Contains(fmt.Sprintf("%+v %#v", err, e), key) {
			t.Errorf("%s: %v", body, err)
		}
	}
	gone := Open("http://me:"+key+"@127.0.0.1:1/v1", capabilities.Secret{})
	gone.first = time.Nanosecond
	defer gone.Close()
	if err := gone.Ask(t.Context(), "/x", struct{}{}, &struct{}{}); err == nil || strings.Contains(err.Error(), key) {
		t.Error(err)
	}
}

// TestAnswersAreBounded: what is larger than this package reads is an error.
func TestAnswersAreBounded(t *testing.T) {
	e, _ := at(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/stream") {
			fmt.Fprint(w, "data: a\n\ndata: ")
		}
		part := strings.Repeat("a", 1<<20)
		for range MaxBody>>20 + 1 {
			if _, err := fmt.Fprint(w, part); err != nil {
				return
			}
		}
	})
	if err := e.Ask(t.Context(), "/x", struct{}{}, &struct{}{}); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	heard := 0
	if err := e.Stream(t.Context(), "/stream", struct{}{}, func([]byte) error { heard++; return nil }); !errors.Is(err, ErrTooLarge) || heard != 1 {
		t.Errorf("%v after %d events", err, heard)
	}
	r := &bounded{strings.NewReader("abcdef"), 4}
	if n, err := r.Read(make([]byte, 9)); n != 4 || err != nil {
		t.Error(n, err)
	}
	if _, err := r.Read(make([]byte, 9)); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}
