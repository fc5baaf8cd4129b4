package bridge

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/handrail-dev/handrail/gateway/client"
)

// event is what a reader keeps of a server-sent event stream to go on later.
type event struct {
	id    string
	retry time.Duration
}

var errEventTooLarge = errors.New("an event is larger than the bridge takes")

// readEvents calls pass with the data of each "message" event (WHATWG HTML,
// server-sent events) until the stream ends. An end in the middle is not an
// error: the last event tells where to go on.
func readEvents(r io.Reader, pass func(data []byte)) (event, error) {
	var last event
	var data bytes.Buffer
	var name string
	reader := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readEventLine(reader, client.MaxReply-data.Len())
		if errors.Is(err, errEventTooLarge) {
			return last, err
		}
		if err != nil {
			return last, nil
		}
		if len(line) == 0 {
			if data.Len() > 0 && (name == "" || name == "message") {
				pass(bytes.TrimSuffix(data.Bytes(), []byte("\n")))
			}
			data = bytes.Buffer{}
			name = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			data.Write(value)
			data.WriteByte('\n')
		case "event":
			name = string(value)
		case "id":
			last.id = string(value)
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 32); err == nil {
				last.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// readEventLine returns one line of at most limit bytes without its end.
func readEventLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, errEventTooLarge
		}
		if err == nil && line == nil {
			return bytes.TrimRight(part, "\r\n"), nil
		}
		line = append(line, part...)
		if err == nil {
			return bytes.TrimRight(line, "\r\n"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

func mediaType(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
}

// isRPC tells JSON-RPC messages from the REST surface's error form.
func isRPC(data []byte) bool {
	data = bytes.TrimSpace(data)
	if len(data) > 0 && data[0] == '[' {
		return true
	}
	if head, ok := readHead(data); ok && string(head.version) == `"2.0"` {
		return true // without decoding a page or an image
	}
	var head struct {
		Version string `json:"jsonrpc"`
	}
	return json.Unmarshal(data, &head) == nil && head.Version == "2.0"
}

// neverSent reports whether the connection could not even be made.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
