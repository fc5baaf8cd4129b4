package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// endpoint is one row of the route table: it serves, authorises and documents.
type endpoint struct {
	method, path string
	action       principal.Action // empty: open to everybody
	// does is the admin work that the endpoint is (gateway/admin): what changes rights or secrets. Its
	// descriptor says what is recorded of a request. Empty: none.
	does capabilities.ToolID
	// decides says that its work asks policy by itself, and records what that denies.
	decides bool
	summary string
	query   []param
	in      reflect.Type // nil: no body
	out     reflect.Type // nil: see media
	media   string       // of the answer; default application/json
	run     func(*visit) error
}

// param is a query parameter.
type param struct {
	name, about string
	kind        string // string, integer or boolean
}

// visit is one request on its way through an endpoint.
type visit struct {
	w     http.ResponseWriter
	r     *http.Request
	who   principal.Identity
	began bool // the answer has begun: an error cannot be told any more
	works Works
}

// none is the body of requests that have none.
type none struct{}

// serveJSON makes the endpoint's run from a function of its body.
func serveJSON[In, Out any](e endpoint, fn func(*visit, In) (Out, error)) *endpoint {
	if t := reflect.TypeFor[In](); t != reflect.TypeFor[none]() {
		e.in = t
	}
	e.out = reflect.TypeFor[Out]()
	e.run = func(c *visit) error {
		var in In
		if e.in != nil {
			if err := c.decode(&in); err != nil {
				return err
			}
		}
		var out Out
		err := c.carryOut(&e, &in, func() (err error) {
			out, err = fn(c, in)
			return err
		})
		if err != nil {
			return err
		}
		c.began = true
		writeJSON(c.w, http.StatusOK, out)
		return nil
	}
	return &e
}

// decode reads the body: strict JSON (no duplicate or case-folded keys), and no
// field that is not known. No body is an empty object.
func (c *visit) decode(into any) error {
	data, err := io.ReadAll(c.r.Body)
	if err != nil {
		return front.BodyError(err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	clean, err := canonical.Parse(data, canonical.Limits{MaxBytes: front.MaxBody})
	if err != nil {
		return err
	}
	if clean[0] != '{' {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "the body must be a JSON object")
	}
	dec := json.NewDecoder(bytes.NewReader(clean))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "the field %q must not be a JSON %s", wrong.Field, wrong.Value)
		}
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "there is no field %.80s here", field)
		}
		return capabilities.Wrap(capabilities.CodeInvalidRequest, err, "the body does not fit this address")
	}
	return nil
}

// checkQuery refuses parameters that the endpoint does not know: one that was
// misspelled would be a filter that silently is none.
func (c *visit) checkQuery(e *endpoint) error {
	if c.r.URL.RawQuery == "" {
		return nil
	}
next:
	for name := range c.r.URL.Query() {
		for _, p := range e.query {
			if p.name == name {
				continue next
			}
		}
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "there is no parameter %.80q here", name)
	}
	return nil
}

func (c *visit) param(name string) string { return c.r.URL.Query().Get(name) }

// number reads a query parameter between 0 and most; absent is fallback.
func (c *visit) number(name string, fallback, most uint64) (uint64, error) {
	text := c.param(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n > most {
		return 0, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s must be a number from 0 to %d", name, most)
	}
	return n, nil
}

// flag reads a query parameter as a yes or no; absent is no.
func (c *visit) flag(name string) (bool, error) {
	switch c.param(name) {
	case "", "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	}
	return false, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s must be 1 or 0", name)
}
