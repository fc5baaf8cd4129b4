package mcp

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"
)

// answer writes a call's response as plain JSON where nothing came before it, and as the event
// stream that the SDK writes where something did (progress, say). The SDK can do either, and only
// for all calls: in JSON it takes progress off the call's own stream, where a client that opened no
// other one loses it. Plain JSON is one write and one read, and saves client and gateway together a
// seventh of a call's processor time.
//
// It is held until the SDK's handler has returned: only then is it certain that
// it was the last event, which in a batch it may not be.
type answer struct {
	http.ResponseWriter
	held   []byte // one event, "data: " and all
	passed bool   // something went out as it came

	mu     sync.Mutex
	lifted []lifted // what was taken out of results and has not been written yet
}

// WriteHeader passes on a status that the SDK sets itself.
func (a *answer) WriteHeader(status int) {
	a.pass()
	a.ResponseWriter.WriteHeader(status)
}

// Write takes one event a call, as the SDK writes them, or a body of another type.
func (a *answer) Write(p []byte) (int, error) {
	if !a.passed && a.held == nil && isResponse(p) && a.Header().Get("Content-Type") == "text/event-stream" {
		a.held = bytes.Clone(p)
		return len(p), nil
	}
	if err := a.pass(); err != nil {
		return 0, err
	}
	return len(p), a.send(p)
}

// send writes p with what was lifted out of it.
func (a *answer) send(p []byte) error {
	w := a.whole(p)
	return w.writeTo(a.ResponseWriter)
}

// pass lets through what was held, and all that follows.
func (a *answer) pass() error {
	a.passed = true
	if a.held == nil {
		return nil
	}
	held := a.held
	a.held = nil
	return a.send(held)
}

// FlushError flushes what went out; what is held stays. http.ResponseController
// finds it by its name.
func (a *answer) FlushError() error {
	if a.held != nil {
		return nil
	}
	a.passed = true
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// end sends what is held, after the SDK's handler has returned.
func (a *answer) end() {
	if a.held == nil {
		return
	}
	body := a.whole(a.held[len(eventStart) : len(a.held)-len(eventEnd)])
	h := a.Header()
	h.Del("Connection") // it says keep-alive, which goes without saying
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(body.size))
	_ = body.writeTo(a.ResponseWriter) // who went away needs no answer
}

const (
	eventStart = "event: message\ndata: "
	eventEnd   = "\n\n"
)

// isResponse reports whether p is one whole event that holds a JSON-RPC response
// in the form in which the SDK writes it:
//
//	event: message
//	data: {"jsonrpc":"2.0","id":7,"result":…} and an empty line
func isResponse(p []byte) bool {
	data, ok := bytes.CutPrefix(p, []byte(eventStart+`{"jsonrpc":"2.0","id":`))
	if !ok || !bytes.HasSuffix(p, []byte(eventEnd)) || bytes.Count(p, []byte("\n")) != 3 {
		return false
	}
	if len(data) > 0 && data[0] == '"' { // up to the quote that no backslash escapes
		i := 1
		for i < len(data) && data[i] != '"' {
			if data[i] == '\\' {
				i++
			}
			i++
		}
		if i >= len(data) {
			return false
		}
		data = data[i+1:]
	} else {
		data = bytes.TrimLeft(data, "-0123456789.eE+")
	}
	return bytes.HasPrefix(data, []byte(`,"result":`)) || bytes.HasPrefix(data, []byte(`,"error":`))
}
