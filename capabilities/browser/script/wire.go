package script

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/handrail-dev/handrail/capabilities"
)

// Host and guest speak JSON, one object a line, each with exactly one member:
//
//	host  → guest  {"run":{"code":…,"tools":[…],"memory":…}}          first and once
//	guest → host   {"call":{"id":1,"tool":"click","args":{…}}}        then it waits
//	host  → guest  {"answer":{"id":1,"value":…}} or {"answer":{"id":1,"failure":{…}}}
//	guest → host   {"log":"…"}
//	guest → host   {"keep":{"name":"…","value":…}}
//	guest → host   {"done":{"value":…}} or {"done":{"failure":{…}}}   last
//
// A line is at most maxLine bytes.

// maxLine bounds a line: a result of maxValue, escaped at worst, or the largest
// answer of a tool.
const maxLine = 8 << 20

var errLine = errors.New("script: a line is too long")

type run struct {
	Code   string   `json:"code"`
	Tools  []string `json:"tools"`
	Memory uint64   `json:"memory"`
}

// Call is a step that the script asks for.
type Call struct {
	ID   int             `json:"id"`
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

type answer struct {
	ID      int             `json:"id"`
	Value   json.RawMessage `json:"value,omitempty"`
	Failure *failure        `json:"failure,omitempty"`
}

// Kept is a value that the script kept under a name, whether it comes to its end or not.
type Kept struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

type done struct {
	Value   json.RawMessage `json:"value,omitempty"`
	Failure *failure        `json:"failure,omitempty"`
}

// failure is why a step or the script failed. Call names the step whose failure
// ended the script: what it was is this side's own knowledge.
type failure struct {
	Code    capabilities.Code `json:"code,omitempty"`
	Message string            `json:"message"`
	Hint    string            `json:"hint,omitempty"`
	Line    int               `json:"line,omitempty"`
	Call    int               `json:"call,omitempty"`
	Large   bool              `json:"large,omitempty"` // the value was too large
	Memory  bool              `json:"memory,omitempty"`
}

// toGuest and toHost are one line each.
type toGuest struct {
	Run    *run    `json:"run,omitempty"`
	Answer *answer `json:"answer,omitempty"`
}

type toHost struct {
	Call *Call   `json:"call,omitempty"`
	Log  *string `json:"log,omitempty"`
	Keep *Kept   `json:"keep,omitempty"`
	Done *done   `json:"done,omitempty"`
}

func (m toGuest) valid() bool {
	return (m.Run != nil) != (m.Answer != nil)
}

func (m toHost) valid() bool {
	n := 0
	if m.Call != nil {
		n++
		if m.Call.ID <= 0 || m.Call.Tool == "" || len(m.Call.Args) == 0 {
			return false
		}
	}
	if m.Log != nil {
		n++
	}
	if m.Keep != nil {
		n++
		if m.Keep.Name == "" || len(m.Keep.Value) == 0 {
			return false
		}
	}
	if m.Done != nil {
		n++
		if (m.Done.Value == nil) == (m.Done.Failure == nil) {
			return false
		}
	}
	return n == 1
}

// readLine reads one line without its end. The bytes hold until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	var whole []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(whole)+len(part) > maxLine {
			return nil, errLine
		}
		if err == nil && whole == nil {
			return part[:len(part)-1], nil
		}
		whole = append(whole, part...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			if err == io.EOF && len(whole) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		return whole[:len(whole)-1], nil
	}
}

// decode reads one message strictly: no unknown member, nothing after it.
func decode[M interface{ valid() bool }](line []byte) (m M, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	var none M
	if err := d.Decode(&m); err != nil {
		return none, fmt.Errorf("script: a message that is none: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return none, errors.New("script: more than one message on a line")
	}
	if !m.valid() {
		return none, errors.New("script: a message without a meaning")
	}
	return m, nil
}

// encode returns the message as a line.
func encode(m any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	if b.Len() > maxLine {
		return nil, errLine
	}
	return b.Bytes(), nil
}
