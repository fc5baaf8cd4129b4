package darwin

import (
	_ "embed"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

//go:embed testdata/corelocation.txt
var locationMessages string

//go:embed location_darwin.go
var locationSource string

// messageKinds are the Go types that results and arguments of messages stand for, on
// both of the Mac's processors.
var messageKinds = map[string]string{
	"void": "", "BOOL": "bool", "CLAuthorizationStatus": "int32", "NSInteger": "int", "NSTimeInterval": "float64", "CLLocationDistance": "float64",
	"CLLocationAccuracy": "float64", "CLLocationDirection": "float64", "CLLocationSpeed": "float64", "CLLocationCoordinate2D": "place",
	"id": "ID", "instancetype": "ID", "SEL": "SEL",
}

func messageKind(t *testing.T, c string) string {
	c = strings.TrimSpace(c)
	if strings.HasSuffix(c, "*") {
		return "ID"
	}
	kind, ok := messageKinds[c]
	if !ok {
		t.Errorf("what is %q?", c)
	}
	return kind
}

// Every message is one that Apple declares, with as many arguments, taken for what it returns; and
// what is said to be sent is.
func TestLocationMessages(t *testing.T) {
	type declared struct {
		result    string
		arguments []string
		used      bool
	}
	known := map[string]*declared{}
	head, part := regexp.MustCompile(`^[+-] \(([^)]*)\)(.*);$`), regexp.MustCompile(`(\w+):\(([^)]*)\)\w+`)
	for l := range strings.Lines(locationMessages) {
		if l = strings.TrimSpace(l); strings.HasPrefix(l, "#") {
			continue
		}
		m := head.FindStringSubmatch(l)
		if m == nil {
			t.Fatalf("no declaration: %q", l)
		}
		name, d := m[2], &declared{result: messageKind(t, m[1])}
		if parts := part.FindAllStringSubmatch(m[2], -1); parts != nil {
			name = ""
			for _, p := range parts {
				name += p[1] + ":"
				d.arguments = append(d.arguments, messageKind(t, p[2]))
			}
		}
		known[name] = d
	}
	file, err := parser.ParseFile(token.NewFileSet(), "location_darwin.go", locationSource, 0)
	if err != nil {
		t.Fatal(err)
	}
	selector := func(e ast.Expr) string {
		call, ok := e.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return ""
		}
		if f, ok := call.Fun.(*ast.Ident); !ok || f.Name != "sel" {
			return ""
		}
		s, _ := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
		return s
	}
	sent := 0
	check := func(name, as string, arguments int) {
		d := known[name]
		if d == nil {
			t.Errorf("%s has no declaration of Apple's in testdata/corelocation.txt", name)
			return
		}
		sent++
		d.used = true
		if as != d.result && !(as == "ID" && d.result == "") { // nobody looks at nothing
			t.Errorf("%s is taken for %q, and gives %q", name, as, d.result)
		}
		if arguments != len(d.arguments) {
			t.Errorf("%s is sent with %d arguments of %d", name, arguments, len(d.arguments))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt: // a selector by a name: ask := sel("…")
			for _, e := range n.Rhs {
				if name := selector(e); name != "" {
					check(name, "ID", 0)
				}
			}
		case *ast.KeyValueExpr: // a method of ours
			if k, ok := n.Key.(*ast.Ident); ok && k.Name == "Cmd" {
				name := selector(n.Value)
				check(name, "", strings.Count(name, ":"))
			}
		case *ast.CallExpr:
			switch f := n.Fun.(type) {
			case *ast.SelectorExpr: // object.Send(selector, …)
				if f.Sel.Name == "Send" && len(n.Args) > 0 && selector(n.Args[0]) != "" {
					check(selector(n.Args[0]), "ID", len(n.Args)-1)
				}
			case *ast.IndexExpr: // objc.Send[type](object, selector, …)
				if len(n.Args) > 1 && selector(n.Args[1]) != "" {
					check(selector(n.Args[1]), name(f.Index), len(n.Args)-2)
				}
			}
		}
		return true
	})
	for name, d := range known {
		if !d.used {
			t.Errorf("%s is declared for nothing", name)
		}
	}
	if sent < 20 {
		t.Errorf("only %d messages were found: this test looks for the wrong calls", sent)
	}
	// A fraction must be one when it is sent.
	if !strings.Contains(locationSource, "accuracy := float64(") || !strings.Contains(locationSource, "type place struct{ latitude, longitude float64 }") {
		t.Error("CLLocationAccuracy and CLLocationCoordinate2D are doubles")
	}
}

func TestReading(t *testing.T) {
	at := time.Date(2026, 11, 22, 9, 30, 0, 250_000_000, time.UTC)
	full := sighting{latitude: 48.8566, longitude: 2.3522, horizontal: 12, altitude: -3, vertical: 4, course: 0, speed: 1.5, at: float64(at.UnixMilli()) / 1000}
	p, ok := full.position()
	if !ok || p.Latitude != 48.8566 || p.Longitude != 2.3522 || p.Accuracy != 12 || !p.At.Equal(at) {
		t.Errorf("%+v, %v", p, ok)
	}
	if p.Altitude == nil || *p.Altitude != -3 || *p.AltitudeAccuracy != 4 || p.Heading == nil || *p.Heading != 0 || *p.Speed != 1.5 {
		t.Errorf("%+v", p)
	}
	bare := sighting{latitude: 1, longitude: 2, horizontal: 0, vertical: -1, course: -1, speed: -1}
	if p, ok := bare.position(); !ok || p.Altitude != nil || p.AltitudeAccuracy != nil || p.Heading != nil || p.Speed != nil || p.At.IsZero() {
		t.Errorf("%+v, %v", p, ok)
	}
	for _, r := range []sighting{{horizontal: -1}, {horizontal: math.NaN()}, {latitude: math.NaN()}, {longitude: math.NaN()}} {
		if p, ok := r.position(); ok {
			t.Errorf("%+v is %+v", r, p)
		}
	}
}

func TestLocationPermission(t *testing.T) {
	refused := func(err error) bool {
		var m *platform.MissingError
		return errors.As(err, &m) && m.Permission && strings.Contains(m.Fix, "Privacy_LocationServices")
	}
	for status, want := range map[int32]bool{0: false, 1: true, 2: true, 3: false, 4: false} {
		if got := permitted(status); refused(got) != want || !want && got != nil {
			t.Errorf("status %d: %v", status, got)
		}
	}
	for code, want := range map[int]bool{0: false, 1: true, 2: false} {
		if got := failing(code); refused(got) != want || !want && got != nil {
			t.Errorf("code %d: %v", code, got)
		}
	}
	if !refused(unanswered(0)) || !errors.Is(unanswered(3), platform.ErrNoFix) {
		t.Error("a question without an answer is no missing fix")
	}
}
