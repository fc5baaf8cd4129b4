package egress

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

// A page that tried many hosts must not take the reasons from every later call.
func TestForgetsOldFailures(t *testing.T) {
	e := &Proxy{failures: map[string]failed{}}
	for i := range maxFailures + 10 {
		why := fmt.Errorf("%d", i)
		host := fmt.Sprintf("h%d.example", i)
		if e.note(host+":80", why); e.Failure("http://"+host+"/", time.Time{}) != why {
			t.Fatalf("failure %d was not noted", i)
		}
	}
	if len(e.failures) > maxFailures {
		t.Errorf("%d failures are kept", len(e.failures))
	}
}

// The proxy by itself: what Chrome does not do, another client might.
func TestProxy(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" || r.Header.Get("Proxy-Connection") != "" {
			t.Error("headers of the hop went on")
		}
		io.WriteString(w, "origin")
	}))
	defer origin.Close()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") }))
	defer other.Close()
	rules, err := NewRules([]string{origin.URL})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 10)
	e, err := New(rules, slog.New(slog.DiscardHandler), func(host string) { seen <- host }, func() Domains { return nil })
	if err != nil {
		t.Fatal(err)
	}
	e.Use(nil)
	defer e.Close()
	proxy := &url.URL{Scheme: "http", Host: e.Addr()}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy)}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	res, err := client.Get(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(res.Body); string(b) != "origin" || <-seen != "127.0.0.1" {
		t.Errorf("got %q", b)
	}
	res.Body.Close()
	if res, err := client.Get(other.URL); err == nil {
		res.Body.Close()
		t.Error("an unnamed origin gave an answer")
	}
	if e.Failure(other.URL, time.Time{}) == nil {
		t.Error("the refusal was not noted")
	}
	if res, err := http.Get("http://" + e.Addr() + "/"); err != nil || res.StatusCode != http.StatusBadRequest {
		t.Error("a request that is no proxy request:", err)
	} else {
		res.Body.Close()
	}
	e.Close()
	e.Close()
	if res, err := client.Get(origin.URL); err == nil {
		res.Body.Close()
		t.Error("a closed proxy answers")
	}
}
