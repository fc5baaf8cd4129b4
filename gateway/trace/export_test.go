package trace

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/gateway/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// away is a collector that answers as told, and keeps what it got.
type away struct {
	*httptest.Server
	got chan *http.Request
	mu  sync.Mutex
	all [][]byte
}

func collectorThat(t *testing.T, answers func(n int, w http.ResponseWriter)) *away {
	a := &away{got: make(chan *http.Request, 1000)}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.all = append(a.all, body)
		n := len(a.all)
		a.mu.Unlock()
		answers(n, w)
		a.got <- r
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *away) bodies() [][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all
}

// running is an exporter that runs; stop ends it, and returns what it counted.
func running(t *testing.T, url string, env map[string]string) (e *Exporter, stop func() string) {
	t.Helper()
	c, err := FromEnvironment(url, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	reg := metrics.New()
	e = New(Options{Config: c, Version: "1.2", Instance: "g1", Metrics: reg, Gather: time.Millisecond, Pause: time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	stop = sync.OnceValue(func() string {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		w := httptest.NewRecorder()
		reg.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	})
	t.Cleanup(func() { stop() })
	return e, stop
}

func counted(t *testing.T, page string, outcomes map[string]string) {
	t.Helper()
	for outcome, n := range outcomes {
		if line := `handrail_trace_spans_total{outcome="` + outcome + `"} ` + n + "\n"; !strings.Contains(page, line) {
			t.Errorf("no %s in\n%s", line, page)
		}
	}
}

func ended() Call {
	return Call{Place: Below(Context{}), Began: time.Now(), Took: time.Millisecond, Code: "internal"}
} // two spans

// A collector gets what ended, with what lets the gateway in, and what is left when the gateway
// ends.
func TestExport(t *testing.T) {
	a := collectorThat(t, func(int, http.ResponseWriter) {})
	e, stop := running(t, a.URL+"/base", map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b,Other=c"})
	e.End(ended())
	r := <-a.got
	if r.URL.Path != "/base/v1/traces" || r.Header.Get("X-Key") != "a b" || r.Header.Get("Other") != "c" ||
		r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("User-Agent") != "handrail/1.2" {
		t.Errorf("%s %v", r.URL, r.Header)
	}
	for range 100 {
		e.End(ended())
	}
	unwanted := ended()
	unwanted.Sampled = false // its caller wants no trace
	e.End(unwanted)
	counted(t, stop(), map[string]string{"exported": "202", "dropped": "0", "refused": "0"})
	spans := 0
	for _, body := range a.bodies() {
		spans += len(told(t, body)[gatewayService])
	}
	if spans != 202 {
		t.Errorf("%d spans came", spans)
	}
}

// A collector that has no time is asked again, one that does not want a request is not.
func TestWhatACollectorAnswers(t *testing.T) {
	for name, one := range map[string]struct {
		answers  func(n int, w http.ResponseWriter)
		requests int
		counts   map[string]string
	}{
		"soon": {
			answers: func(n int, w http.ResponseWriter) {
				if n < 3 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			},
			requests: 3, counts: map[string]string{"exported": "2", "dropped": "0"},
		},
		"never":  {answers: func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, requests: 4, counts: map[string]string{"dropped": "2"}},
		"no key": {answers: func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) }, requests: 1, counts: map[string]string{"refused": "2"}},
		"not all": {
			answers:  func(_ int, w http.ResponseWriter) { _, _ = w.Write([]byte("\x0a\x02\x08\x01")) },
			requests: 1, counts: map[string]string{"exported": "1", "refused": "1"},
		},
		"more than there are": {
			answers:  func(_ int, w http.ResponseWriter) { _, _ = w.Write([]byte("\x0a\x03\x08\xac\x02")) },
			requests: 1, counts: map[string]string{"exported": "0", "refused": "2"},
		},
		"elsewhere": {
			answers: func(_ int, w http.ResponseWriter) {
				w.Header().Set("Location", "/v1/traces")
				w.WriteHeader(http.StatusTemporaryRedirect)
			},
			requests: 1, counts: map[string]string{"refused": "2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := collectorThat(t, one.answers)
			e, stop := running(t, a.URL, nil)
			e.End(ended())
			for range one.requests {
				<-a.got
			}
			counted(t, stop(), one.counts)
			if n := len(a.bodies()); n != one.requests {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// A collector that does not answer holds nobody up: what does not fit is dropped, and counted.
func TestACollectorThatHangs(t *testing.T) {
	hang := make(chan struct{})
	var once sync.Once
	release := func() { once.Do(func() { close(hang) }) }
	a := collectorThat(t, func(int, http.ResponseWriter) { <-hang })
	defer release()
	e, stop := running(t, a.URL, nil)
	e.End(ended())
	for len(a.bodies()) == 0 { // until the first is on its way
		time.Sleep(time.Millisecond)
	}
	for range maxQueue + 10 {
		e.End(ended())
	}
	release()
	for range 1 + maxQueue/maxBatch {
		<-a.got
	}
	counted(t, stop(), map[string]string{"exported": "2050", "dropped": "20"})
}
