package gateway

import (
	"context"
	"database/sql"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/store"
)

// runners are the methods that take a query, and which argument that is.
var runners = map[string]int{
	"Exec": 0, "Query": 0, "QueryRow": 0, "ExecContext": 1, "QueryContext": 1, "QueryRowContext": 1,
}

var statement = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\s`)

// everyQuery returns the statements that the rooms write as constants, and where.
func everyQuery(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(filepath.WalkDir(".", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == "store" || d.Name() == "testdata" {
			return fs.SkipDir
		}
		files := token.NewFileSet()
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return err
		}
		var sources []*ast.File // all of one package, whatever system they are for
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			sources = append(sources, f)
		}
		known := types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		check := types.Config{Error: func(error) {}, Importer: nobody{}} // constants need no other package
		_, _ = check.Check(dir, files, sources, &known)
		for _, f := range sources {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				at, ok := runners[method.Sel.Name]
				if !ok || len(call.Args) <= at {
					return true
				}
				if v := known.Types[call.Args[at]].Value; v != nil && v.Kind() == constant.String && statement.MatchString(constant.StringVal(v)) {
					all[constant.StringVal(v)] = files.Position(call.Pos()).String()
				}
				return true
			})
		}
		return nil
	}))
	return all
}

type nobody struct{}

func (nobody) Import(path string) (*types.Package, error) {
	return nil, fmt.Errorf("%s is not read", path)
}

// onlyOfLite are the queries that have another text for PostgreSQL beside them.
var onlyOfLite = []string{"knowledge_words MATCH"}

// everyRoomsQueries has PostgreSQL read each statement that a room writes.
func everyRoomsQueries(t *testing.T, s *store.Store) {
	t.Helper()
	conn, err := s.Read().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	queries := everyQuery(t)
	if len(queries) < 200 {
		t.Fatalf("found %d queries only: the test is broken", len(queries))
	}
	bad := 0
	for text, at := range queries {
		if slices.ContainsFunc(onlyOfLite, func(part string) bool { return strings.Contains(text, part) }) {
			continue
		}
		if err := prepares(t.Context(), conn, text); err != nil && !strings.Contains(err.Error(), "42P18") { // its values have types, these marks none
			bad++
			t.Errorf("%s: %v\n%s", at, err, text)
		}
	}
	t.Logf("%d queries, %d of which PostgreSQL does not read", len(queries), bad)
}

func prepares(ctx context.Context, conn *sql.Conn, text string) error {
	if _, err := conn.ExecContext(ctx, "PREPARE one AS "+text); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, "DEALLOCATE one")
	return err
}
