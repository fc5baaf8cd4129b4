package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// recorders are the functions that take a packet's body last.
var recorders = []string{"Record", "record", "recordBy", "recordNode", "AppendIn", "Append", "draft"}

// mapBodies lists the lines at which a file writes a packet whose body is a map: as the field Body,
// or as the last argument of what records, in so many words or by a variable or parameter.
func mapBodies(fset *token.FileSet, file *ast.File, more ...string) []int {
	var lines []int
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		maps := map[string]bool{} // what the function has under a name
		isMap := func(e ast.Expr) bool {
			if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.AND {
				e = u.X
			}
			switch e := e.(type) {
			case *ast.CompositeLit:
				_, is := e.Type.(*ast.MapType)
				return is
			case *ast.CallExpr:
				if made, ok := e.Fun.(*ast.Ident); ok && made.Name == "make" && len(e.Args) > 0 {
					_, is := e.Args[0].(*ast.MapType)
					return is
				}
			case *ast.Ident:
				return maps[e.Name]
			}
			return false
		}
		note := func(e ast.Expr) {
			if isMap(e) {
				lines = append(lines, fset.Position(e.Pos()).Line)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field: // of parameters and results
				if _, is := n.Type.(*ast.MapType); is {
					for _, name := range n.Names {
						maps[name.Name] = true
					}
				}
			case *ast.ValueSpec:
				_, is := n.Type.(*ast.MapType)
				for i, name := range n.Names {
					if is || i < len(n.Values) && isMap(n.Values[i]) {
						maps[name.Name] = true
					}
				}
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					if name, ok := to.(*ast.Ident); ok && i < len(n.Rhs) && len(n.Lhs) == len(n.Rhs) && isMap(n.Rhs[i]) {
						maps[name.Name] = true
					}
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Body" {
					note(n.Value)
				}
			case *ast.CallExpr:
				name := ""
				switch of := n.Fun.(type) {
				case *ast.Ident:
					name = of.Name
				case *ast.SelectorExpr:
					name = of.Sel.Name
				}
				if slices.Contains(recorders, name) && len(n.Args) > 0 {
					note(n.Args[len(n.Args)-1])
				} else if slices.Contains(more, name) {
					for _, arg := range n.Args {
						note(arg)
					}
				}
			}
			return true
		})
	}
	return lines
}

// carriers are the functions of some files that have a parameter named body, which they record.
func carriers(files []source) []string {
	var names []string
	for _, s := range files {
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				for _, p := range f.Type.Params.List {
					if slices.ContainsFunc(p.Names, func(n *ast.Ident) bool { return n.Name == "body" }) {
						names = append(names, f.Name.Name)
					}
				}
			}
		}
	}
	return names
}

// The body of a packet is a type with a name, which its writer and every reader use: a map would
// let each of them spell the members anew.
func TestNoPacketIsAMap(t *testing.T) {
	for text, want := range map[string]int{
		`Draft{Body: map[string]any{"a": 1}}`:                                       1,
		`Draft{Body: packet.Started{}}`:                                             0,
		`s.opts.Record(tx, "k", by, map[string]any{"a": 1})`:                        1,
		`body := map[string]any{}; body["a"] = 1; s.opts.Record(tx, "k", by, body)`: 1,
		`body := make(map[string]any); s.record(tx, body)`:                          1,
		`var body map[string]any; l.Append(ctx, Draft{Body: body})`:                 1,
		`func(more map[string]any) { b.opts.Record(tx, "k", by, more) }(nil)`:       1,
		`n.change(ctx, id, "k", map[string]any{"a": 1}, func() {})`:                 1,
		`body := packet.Started{}; s.opts.Record(tx, "k", by, &body)`:               0,
		`seen := map[string]bool{}; use(seen); s.opts.Record(tx, "k", by, body{})`:  0,
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "x.go", "package x\nfunc f() { "+text+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := mapBodies(fset, file, "change"); len(got) != want {
			t.Errorf("%s: %s maps, not %d", text, strconv.Itoa(len(got)), want)
		}
	}
	all := readTree(t)
	rooms := map[string][]source{}
	for _, s := range all.code {
		if covers("gateway/**", s.dir()) && !s.isTest() {
			rooms[s.dir()] = append(rooms[s.dir()], s)
		}
	}
	for _, files := range rooms {
		if !slices.ContainsFunc(files, func(s source) bool { return slices.Contains(s.imports, module+"/gateway/store") }) {
			continue // it keeps nothing, so it records nothing
		}
		more := carriers(files)
		for _, s := range files {
			for _, line := range mapBodies(all.fset, s.syntax, more...) {
				t.Errorf("%s:%d: the body of a packet is a map: give it a type, in gateway/ledger/packet", s.file, line)
			}
		}
	}
}

// ownWire are the files of the REST surface that have a type of the wire themselves: the replay of
// a call is an answer of gateway/rules with the result beside it, and OAuth's steps are a list.
var ownWire = []string{"gateway/front/rest/replay.go", "gateway/front/rest/clients.go"}

// Bodies of the REST surface have one type, in gateway/api: a server or a client with one of
// its own would be a second truth.
func TestTypesOfTheWireHaveOneRoom(t *testing.T) {
	all := readTree(t)
	needed := map[string]bool{}
	for _, s := range all.code {
		if s.isTest() || s.dir() != "gateway/front/rest" && s.dir() != "gateway/client" {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			f, ok := n.(*ast.Field)
			if !ok || f.Tag == nil || !strings.Contains(f.Tag.Value, "json:") {
				return true
			}
			if needed[s.file] = true; !slices.Contains(ownWire, s.file) {
				t.Errorf("%s:%d: a type of the wire stands in gateway/api", s.file, all.fset.Position(f.Pos()).Line)
			}
			return true
		})
	}
	for _, file := range ownWire {
		if !needed[file] {
			t.Errorf("%s has no type of the wire any more: take it out of ownWire", file)
		}
	}
}
