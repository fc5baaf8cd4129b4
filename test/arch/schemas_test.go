package arch

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// S3-28: wire schemas have a folder for each domain, by the domain's nature (S3-22); the protocol
// layer beside them declares InProcessTool, RemoteTool and ToolManifest.
func TestSchemasHaveAFolderForEachDomain(t *testing.T) {
	const base = "capabilities/catalog/"
	all := readTree(t)
	domains := 0
	declared := map[string]bool{}
	for _, name := range all.files {
		rest, ok := strings.CutPrefix(name, base)
		if !ok || strings.HasPrefix(rest, "testdata/") {
			continue
		}
		if strings.HasPrefix(rest, "tools/") && strings.HasSuffix(rest, ".go") && strings.Count(rest, "/") == 1 {
			file, err := parser.ParseFile(token.NewFileSet(), name, all.read(t, name), 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok {
					declared[spec.Name.Name] = true
				}
				return true
			})
		}
		if path.Ext(name) != ".json" {
			continue
		}
		parts := strings.Split(rest, "/")
		if len(parts) != 3 || parts[2] != "tools.json" || parts[0] != "tool" && parts[0] != "plumbing" {
			t.Errorf("%s: schemas lie in %stool/DOMAIN/tools.json, or in %splumbing/DOMAIN/tools.json", name, base, base)
			continue
		}
		nature, domain := parts[0], parts[1]
		domains++
		if nature == "tool" && tools.Plumbing(domain) {
			t.Errorf("%s: the domain %s is plumbing, whatever tools it has (S3-23, S3-29)", name, domain)
		}
		var file struct {
			Family string
			Common struct{ Nature string }
			Tools  []struct{ Tool, Nature string }
		}
		if err := json.Unmarshal(all.read(t, name), &file); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if file.Family != domain || len(file.Tools) == 0 {
			t.Errorf("%s is of the family %q and has %d tools", name, file.Family, len(file.Tools))
		}
		for _, one := range file.Tools {
			if one.Nature == "" {
				one.Nature = file.Common.Nature
			}
			if one.Nature != nature {
				t.Errorf("%s: %s is of the nature %q", name, one.Tool, one.Nature)
			}
		}
	}
	if domains < 10 {
		t.Errorf("%d domains: the test is broken", domains)
	}
	for _, typ := range []string{"InProcessTool", "RemoteTool", "ToolManifest"} {
		if !declared[typ] {
			t.Errorf("%stools declares no %s", base, typ)
		}
	}
}
