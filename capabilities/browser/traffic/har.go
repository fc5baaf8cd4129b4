package traffic

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Bounds of a recording that is read.
const (
	maxEntries   = 200
	maxEntryBody = 1 << 20
)

// Exchange is one request and its answer.
type Exchange struct {
	Began           time.Time
	MS              float64 // how long it took
	Method, URL     string
	RequestHeaders  map[string]string
	RequestBody     string
	Status          int
	Answered        bool
	ResponseHeaders map[string]string
	ContentType     string
	Bytes           int64
	Body            []byte
	HasBody         bool
	Text            bool // the body is text
	Failure         string
}

// The file, as HAR 1.2 lays it out.
type (
	file struct {
		Log harLog `json:"log"`
	}
	harLog struct {
		Version string  `json:"version"`
		Creator creator `json:"creator"`
		Entries []entry `json:"entries"`
	}
	creator struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	entry struct {
		Started  string      `json:"startedDateTime"`
		Time     float64     `json:"time"`
		Request  harRequest  `json:"request"`
		Response harResponse `json:"response"`
		Cache    struct{}    `json:"cache"`
		Timings  timings     `json:"timings"`
	}
	timings struct {
		Send    float64 `json:"send"`
		Wait    float64 `json:"wait"`
		Receive float64 `json:"receive"`
	}
	pair struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	harRequest struct {
		Method      string    `json:"method"`
		URL         string    `json:"url"`
		HTTPVersion string    `json:"httpVersion"`
		Cookies     []pair    `json:"cookies"`
		Headers     []pair    `json:"headers"`
		Query       []pair    `json:"queryString"`
		PostData    *postData `json:"postData,omitempty"`
		HeadersSize int       `json:"headersSize"`
		BodySize    int       `json:"bodySize"`
	}
	postData struct {
		MIME string `json:"mimeType"`
		Text string `json:"text"`
	}
	harResponse struct {
		Status      int     `json:"status"`
		StatusText  string  `json:"statusText"`
		HTTPVersion string  `json:"httpVersion"`
		Cookies     []pair  `json:"cookies"`
		Headers     []pair  `json:"headers"`
		Content     content `json:"content"`
		Redirect    string  `json:"redirectURL"`
		HeadersSize int     `json:"headersSize"`
		BodySize    int64   `json:"bodySize"`
		Error       string  `json:"_error,omitempty"`
	}
	content struct {
		Size     int64  `json:"size"`
		MIME     string `json:"mimeType"`
		Text     string `json:"text,omitempty"`
		Encoding string `json:"encoding,omitempty"`
	}
)

// HAR writes a recording.
func HAR(version string, list []Exchange) ([]byte, error) {
	f := file{harLog{Version: "1.2", Creator: creator{"handrail", version}, Entries: []entry{}}}
	for _, x := range list {
		e := entry{Started: x.Began.UTC().Format(time.RFC3339Nano), Time: x.MS, Timings: timings{Wait: x.MS}}
		e.Request = harRequest{
			Method: x.Method, URL: x.URL, HTTPVersion: "unknown", Cookies: []pair{}, Headers: pairs(x.RequestHeaders), Query: query(x.URL),
			HeadersSize: -1, BodySize: len(x.RequestBody),
		}
		if x.RequestBody != "" {
			e.Request.PostData = &postData{named(x.RequestHeaders, "content-type"), x.RequestBody}
		}
		e.Response = harResponse{
			Status: x.Status, HTTPVersion: "unknown", Cookies: []pair{}, Headers: pairs(x.ResponseHeaders),
			Redirect: named(x.ResponseHeaders, "location"), HeadersSize: -1, BodySize: x.Bytes, Error: x.Failure,
			Content: content{Size: int64(len(x.Body)), MIME: x.ContentType},
		}
		switch {
		case x.HasBody && x.Text:
			e.Response.Content.Text = string(x.Body)
		case x.HasBody:
			e.Response.Content.Text, e.Response.Content.Encoding = base64.StdEncoding.EncodeToString(x.Body), "base64"
		}
		f.Log.Entries = append(f.Log.Entries, e)
	}
	return json.MarshalIndent(f, "", " ")
}

func pairs(headers map[string]string) []pair {
	all := []pair{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		all = append(all, pair{name, headers[name]})
	}
	return all
}

func named(headers map[string]string, name string) string {
	for have, value := range headers {
		if strings.EqualFold(have, name) {
			return value
		}
	}
	return ""
}

func query(address string) []pair {
	all := []pair{}
	if at, err := url.Parse(address); err == nil {
		for _, name := range slices.Sorted(maps.Keys(at.Query())) {
			for _, value := range at.Query()[name] {
				all = append(all, pair{name, value})
			}
		}
	}
	return all
}

// kept are headers of a recorded answer that a mock has again; the others are the connection's.
var kept = []string{"access-control-allow-origin", "access-control-allow-credentials", "cache-control", "location", "vary"}

// Replay returns the rules that answer what a recording holds as it was answered: one for each
// method and address, the first of several.
func Replay(text []byte) ([]Rule, error) {
	var f file
	if err := json.Unmarshal(text, &f); err != nil || f.Log.Version == "" {
		return nil, errors.New("it is no HAR file")
	}
	if len(f.Log.Entries) > maxEntries {
		return nil, fmt.Errorf("it holds %d requests; at most %d are taken", len(f.Log.Entries), maxEntries)
	}
	seen := map[string]bool{}
	var rules []Rule
	for i, e := range f.Log.Entries {
		at, err := url.Parse(e.Request.URL)
		if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || strings.Contains(e.Request.URL, "*") {
			continue // data: and the like ask nobody
		}
		if e.Response.Status < 100 || e.Response.Status > 599 || seen[e.Request.Method+" "+e.Request.URL] {
			continue // it was not answered, or is told
		}
		seen[e.Request.Method+" "+e.Request.URL] = true
		address, _, _ := strings.Cut(e.Request.URL, "#")
		r := Rule{Kind: Mock, URL: address, Method: e.Request.Method, Status: e.Response.Status, ContentType: e.Response.Content.MIME,
			Body: []byte(e.Response.Content.Text), Header: map[string]string{}}
		if e.Response.Content.Encoding == "base64" {
			if r.Body, err = base64.StdEncoding.DecodeString(e.Response.Content.Text); err != nil {
				return nil, fmt.Errorf("the body of its request %d is no base64", i+1)
			}
		}
		if len(r.Body) > maxEntryBody {
			return nil, fmt.Errorf("the body of its request %d is larger than %d bytes", i+1, maxEntryBody)
		}
		for _, h := range e.Response.Headers {
			if slices.Contains(kept, strings.ToLower(h.Name)) && !strings.ContainsAny(h.Value, "\r\n\x00") {
				r.Header[h.Name] = h.Value
			}
		}
		if r.Check() == nil {
			rules = append(rules, r)
		}
	}
	if len(rules) == 0 {
		return nil, errors.New("it holds no answered request of the web")
	}
	return rules, nil
}
