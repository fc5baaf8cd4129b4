package darwin

import (
	_ "embed"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

//go:embed testdata/prototypes.txt
var prototypes string

//go:embed api_darwin.go
var declarations string

// kinds are the Go types that C's stand for, on both of the Mac's processors.
var kinds = map[string]string{
	"void": "", "Boolean": "bool", "bool": "bool", "float": "float32", "double": "float64", "CFTimeInterval": "float64",
	"int32_t": "int32", "int64_t": "int64", "uint32_t": "uint32", "size_t": "uint", "pid_t": "int32", "UInt8": "byte", "UniChar": "uint16",
	"CFIndex": "int", "CFTypeID": "uint", "CFHashCode": "uint", "UniCharCount": "uint", "CFStringEncoding": "uint32", "CFNumberType": "int",
	"CFRunLoopRunResult": "int32", "CFRunLoopMode": "ref", "CFRange": "span", "CGRect": "rect", "CGPoint": "point", "CGError": "int32", "AXError": "int32",
	"CGDirectDisplayID": "uint32", "CGWindowID": "uint32", "CGWindowListOption": "uint32", "CGEventSourceStateID": "int32", "CGEventType": "uint32",
	"CGMouseButton": "uint32", "CGKeyCode": "uint16", "CGScrollEventUnit": "uint32", "CGEventFlags": "uint64", "CGEventField": "uint32",
	"CGEventTapLocation": "uint32", "CGEventTapPlacement": "uint32", "CGEventTapOptions": "uint32", "CGEventMask": "uint64",
	"AXCopyMultipleAttributeOptions": "uint32", "AXValueType": "uint32", "CGEventTapCallBack": "uintptr", "AXObserverCallback": "uintptr",
}

// fits reports whether a Go type is what a C type is handed over as.
func fits(t *testing.T, c, goType string) bool {
	c = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(c), "const "))
	base, pointer := strings.CutSuffix(c, "*")
	base = strings.TrimSpace(base)
	if !pointer {
		if strings.HasSuffix(base, "Ref") {
			return goType == "ref"
		}
		kind, known := kinds[base]
		if !known {
			t.Errorf("what is %s?", base)
		}
		return goType == kind
	}
	// An address: of something of a known type, or of anything.
	switch {
	case base == "void", base == "void *", base == "void*", base == "CFArrayCallBacks":
		return slices.Contains([]string{"uintptr", "unsafe.Pointer", "ref", "*ref", "*byte", "*float64"}, goType)
	case strings.HasSuffix(base, "Ref"):
		return goType == "*ref"
	}
	return goType == "*"+kinds[base]
}

// name writes a type as Go does.
func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return "*" + name(e.X)
	case *ast.SelectorExpr:
		return name(e.X) + "." + e.Sel.Name
	}
	return "?"
}

func types(list *ast.FieldList) (all []string) {
	if list == nil {
		return nil
	}
	for _, f := range list.List {
		for range max(1, len(f.Names)) {
			all = append(all, name(f.Type))
		}
	}
	return all
}

// Every function of the system is declared as its header declares it, and found by
// the name that stands beside it.
func TestPrototypes(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "api_darwin.go", declarations, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*ast.FuncType{} // by field
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "api" {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			if fn, ok := f.Type.(*ast.FuncType); ok {
				for _, n := range f.Names {
					found[n.Name] = fn
				}
			}
		}
		return false
	})
	fields := map[string]string{} // by C name
	for _, m := range regexp.MustCompile(`"([A-Za-z_]\w+)", &a\.(\w+)[,)]`).FindAllStringSubmatch(declarations, -1) {
		if fields[m[1]] != "" {
			t.Errorf("%s is found twice", m[1])
		}
		fields[m[1]] = m[2]
	}
	line := regexp.MustCompile(`^(.*?)(\w+)\((.*)\);$`)
	checked := map[string]bool{}
	for l := range strings.Lines(prototypes) {
		if strings.HasPrefix(l, "#") {
			continue
		}
		m := line.FindStringSubmatch(strings.TrimSpace(l))
		if m == nil {
			t.Fatalf("no declaration: %q", l)
		}
		c, field := m[2], fields[m[2]]
		fn := found[field]
		if fn == nil {
			t.Errorf("%s is not declared", c)
			continue
		}
		checked[field] = true
		var wanted []string
		for _, p := range strings.Split(m[3], ",") {
			if p = strings.TrimSpace(p); p != "void" {
				wanted = append(wanted, p[:strings.LastIndexAny(p, " *")+1])
			}
		}
		has := types(fn.Params)
		if len(has) != len(wanted) {
			t.Errorf("%s has %d arguments, not %d", c, len(wanted), len(has))
			continue
		}
		for i, w := range wanted {
			if !fits(t, w, has[i]) {
				t.Errorf("%s: argument %d is %s, which is no %s", c, i+1, w, has[i])
			}
		}
		if out := append(types(fn.Results), ""); !fits(t, m[1], out[0]) {
			t.Errorf("%s gives %s, which is no %q", c, m[1], out[0])
		}
	}
	for field := range found {
		if !checked[field] {
			t.Errorf("%s has no declaration of Apple's in testdata/prototypes.txt", field)
		}
	}
	if len(checked) < 75 {
		t.Errorf("%d functions", len(checked))
	}
}

// Structures that are handed over by value are flat and as large as the system's.
func TestStructures(t *testing.T) {
	if unsafe.Sizeof(rect{}) != 32 || unsafe.Sizeof(point{}) != 16 {
		t.Error(unsafe.Sizeof(rect{}), unsafe.Sizeof(point{}))
	}
	if !strings.Contains(declarations, "type span struct{ at, length int }") {
		t.Error("CFRange is two long integers")
	}
}
