package rest

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/governance"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// Governance answers with numbers about the recorded calls; the gateway implements it.
type Governance interface {
	Coverage(context.Context, governance.Span) (api.Coverage, error)
	Isolation(context.Context, governance.Span) (api.Isolation, error)
	Drift(context.Context, governance.Span) (api.DriftMonitor, error)
	Privilege(context.Context, governance.Span) (api.Privilege, error)
	Friction(context.Context, governance.Span) (api.Friction, error)
	KPIs(context.Context, governance.Span) (api.KPIs, error)
	Compliance(context.Context, governance.Span) (api.Compliance, error)
	Profiles(context.Context, governance.Span) (api.Profiles, error)
	Changes(context.Context, governance.Span) (api.Changes, error)
	Since(context.Context, time.Time) (uint64, error)
}

var spanParams = []param{
	{"from", "RFC 3339 time or date; default: a week before to", "string"}, {"to", "not in it; default: now", "string"},
	{"tool", "of this tool alone", "string"}, {"format", "json (default) or csv", "string"},
}

// rowParams are those of views that have rows to choose from.
var rowParams = []param{
	{"limit", "rows, at most; default: all. The answer says how many there are", "integer"},
	{"offset", "rows to leave out before them", "integer"},
}

// sumParam is that of views that are apart by time.
var sumParam = param{
	"sum", "1: rows add up all of the time, the largest first, each with its trend; default: a row for each time of the grain", "boolean",
}

// span reads which time, tool and rows a view is about.
func (c *visit) span() (governance.Span, error) {
	in := governance.Span{Tool: capabilities.ToolID(c.param("tool")), Key: c.param("key")}
	switch c.param("sum") {
	case "1", "true":
		in.Sum = true
	case "", "0", "false":
	default:
		return in, capabilities.Errorf(capabilities.CodeInvalidRequest, "sum must be 1 or 0")
	}
	for _, one := range [...]struct {
		name string
		to   *int
	}{{"limit", &in.Limit}, {"offset", &in.Offset}} {
		s := c.param(one.name)
		if s == "" {
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return in, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s must be a number of rows, such as 25", one.name)
		}
		*one.to = n
	}
	for _, one := range [...]struct {
		name string
		to   *time.Time
	}{{"from", &in.From}, {"to", &in.To}} {
		s := c.param(one.name)
		if s == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t, err = time.Parse(time.DateOnly, s)
		}
		if err != nil {
			return in, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s must be a time such as 2026-11-20T09:00:00Z, or a date", one.name)
		}
		*one.to = t
	}
	return in, nil
}

// viewOf makes the endpoint of a view, which answers as JSON, or with its rows as CSV.
func viewOf[T any](s *Server, name, summary string, of func(Governance, context.Context, governance.Span) (T, error), rows func(*T) any,
	more ...param) *endpoint {
	e := s.raw(endpoint{
		method: get, path: "/v1/governance/" + name, action: principal.ActReadLedger, summary: summary,
		query: append(slices.Clip(more), spanParams...),
	}, func(c *visit) error {
		in, err := c.span()
		if err != nil {
			return err
		}
		format := c.param("format")
		if format != "" && format != "json" && format != "csv" {
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "format must be json or csv")
		}
		if s.opts.Governance == nil {
			return capabilities.Errorf(capabilities.CodeNotFound, "this gateway keeps no such numbers")
		}
		out, err := of(s.opts.Governance, c.r.Context(), in)
		if err != nil {
			return err
		}
		c.began = true
		if format != "csv" {
			writeJSON(c.w, http.StatusOK, out)
			return nil
		}
		h := c.w.Header()
		h.Set("Content-Type", "text/csv; charset=utf-8")
		h.Set("Content-Disposition", `attachment; filename="handrail-governance-`+name+`.csv"`)
		h.Set("Cache-Control", "no-store")
		return writeCSV(csv.NewWriter(c.w), rows(&out))
	})
	e.out = reflect.TypeFor[T]()
	return e
}

// writeCSV writes a slice of flat structs, a row for each, under the names that their fields
// have in JSON.
func writeCSV(out *csv.Writer, list any) error {
	all := reflect.ValueOf(list)
	fields := slices.DeleteFunc(reflect.VisibleFields(all.Type().Elem()), func(f reflect.StructField) bool { return f.Tag.Get("csv") == "-" })
	var names []string
	for _, f := range fields {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	if err := out.Write(names); err != nil {
		return err
	}
	for i := range all.Len() {
		row := make([]string, len(fields))
		for k, f := range fields {
			row[k] = csvText(all.Index(i).FieldByIndex(f.Index).Interface())
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// csvText is one field. Programs that open such files take what begins like a formula for one, so
// that is marked as text.
func csvText(v any) string {
	switch v := v.(type) {
	case time.Time:
		return v.Format(time.RFC3339)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []float64:
		b, _ := json.Marshal(v)
		return string(b)
	}
	s := fmt.Sprint(v)
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) && reflect.TypeOf(v).Kind() == reflect.String {
		return "'" + s
	}
	return s
}

// governanceTable are the views of S1-56 and the KPIs of S1-57.
func (s *Server) governanceTable() []*endpoint {
	apart := append(slices.Clip(rowParams), sumParam)
	return []*endpoint{
		viewOf(s, "coverage", "The keys that tools declare, are granted and use", Governance.Coverage,
			func(o *api.Coverage) any { return o.Rows }, rowParams...),
		viewOf(s, "isolation", "Calls by isolation class, device and time", Governance.Isolation, func(o *api.Isolation) any { return o.Rows },
			apart...),
		viewOf(s, "drift", "Drift: things seen that were not granted, by time", Governance.Drift,
			func(o *api.DriftMonitor) any { return o.Rows }, apart...),
		viewOf(s, "privilege", "The use of privileged keys, or of one other key, by principal, tool and time", Governance.Privilege,
			func(o *api.Privilege) any { return o.Rows },
			append(apart, param{"key", "this key, such as data.capture.audio; default: all that are privileged", "string"})...),
		viewOf(s, "friction", "Denials, questions and reductions, by the rule that determined them", Governance.Friction,
			func(o *api.Friction) any { return o.Rows }, rowParams...),
		viewOf(s, "kpis", "The six numbers that governance is steered by, with their definitions", Governance.KPIs,
			func(o *api.KPIs) any { return o.All() }),
		viewOf(s, "compliance", "Masking and retention held against the records of a time, with its range of the ledger", Governance.Compliance,
			func(o *api.Compliance) any { return o.Checks }),
		viewOf(s, "profiles", "The profiles of tools and the policies that they were decided under", Governance.Profiles,
			func(o *api.Profiles) any { return o.Rows }, rowParams...),
		viewOf(s, "changes", "Denials, questions and reductions since policy changed last, beside those before", Governance.Changes,
			func(o *api.Changes) any { return o.Rows }, rowParams...),
	}
}
