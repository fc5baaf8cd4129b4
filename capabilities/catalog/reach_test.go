package catalog

import (
	"reflect"
	"strings"
	"testing"
)

// The descriptors say what dispatch once read off the names of arguments: every recorded argument
// that names an address, an application or files is one that is reached.
func TestDescriptorsSayWhatTheyReach(t *testing.T) {
	kinds := map[string]ReachKind{"url": ReachAddress, "app": ReachApp, "application": ReachApp, "path": ReachPath, "paths": ReachPath, "cwd": ReachPath}
	cat, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range cat.All() {
		said := map[string]ReachKind{}
		for _, r := range d.Reach {
			said[r.Arg] = r.Kind
			if (r.Closed != nil) != (r.Kind == ReachAddress) {
				t.Errorf("%s: %s has hints about closed addresses: %v", d.Tool, r.Arg, r.Closed != nil)
			}
		}
		want := map[string]ReachKind{}
		for _, arg := range d.Evidence.Args {
			if kind, ok := kinds[arg[strings.LastIndex(arg, "/")+1:]]; ok {
				want[arg] = kind
			}
		}
		if !reflect.DeepEqual(said, want) {
			t.Errorf("%s reaches %v, its arguments name %v", d.Tool, said, want)
		}
	}
	upload, _ := cat.Get("tool.browser.upload-file")
	got := upload.Reaches([]byte(`{"paths":["a","b"]}`))
	if len(got) != 2 || got[0].Text != "a" || got[1].Text != "b" || got[1].Kind != ReachPath {
		t.Errorf("%+v", got)
	}
	if got := upload.Reaches([]byte(`{}`)); got != nil {
		t.Errorf("%+v", got)
	}
}

func TestReachIsChecked(t *testing.T) {
	cat, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for name, reach := range map[string][]Reach{
		"an argument that is not recorded": {{Arg: "/node_id", Kind: ReachApp}},
		"an unknown kind":                  {{Arg: "/url", Kind: "door"}},
		"twice":                            {{Arg: "/url", Kind: ReachAddress}, {Arg: "/url", Kind: ReachApp}},
		"a closed application":             {{Arg: "/url", Kind: ReachApp, Closed: &Closed{"a", "b"}}},
		"no hint":                          {{Arg: "/url", Kind: ReachAddress, Closed: &Closed{"a", ""}}},
		"a hint with a hidden character":   {{Arg: "/url", Kind: ReachAddress, Closed: &Closed{"a", "b\u202e"}}},
	} {
		d, _ := cat.Get("tool.browser.navigate")
		data, err := d.canonical()
		if err != nil {
			t.Fatal(err)
		}
		mine := reread(t, data)
		mine.Reach = reach
		if err := mine.Validate(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
