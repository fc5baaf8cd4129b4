package owner

import (
	"testing"

	"github.com/handrail-dev/handrail/capabilities/policy"
)

// FuzzParse: whatever a file holds, it is refused without a value, or becomes rules
// that load.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		string(DefaultFile()), `{"version":1,"capabilities":{"desktop":"ask","browser.evaluate":"never"}}`,
		`{"version":1,"domains":{"only":["*.example.com"],"never":["bücher.example"]},"apps":{"ask":["KeePassXC"]}}`,
		`{"version":1,"folders":{"never":["/home/a"]},"quiet_hours":[{"from":"22:00","to":"07:00","days":["fri"],"capabilities":["desktop"],"mode":"ask"}]}`,
		`{"version":1,"domains":{"never":["a\" || true"]}}`, `{"version":1,"domains":{"never":["::1","[::1]","1.2.3.4"]}}`, `{`, ``,
	} {
		f.Add([]byte(s))
	}
	cat := mustCatalog(f)
	loader, err := policy.NewLoader(cat)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data, cat)
		if err != nil {
			if file != nil {
				t.Fatal("a value with an error")
			}
			return
		}
		text := file.compile(cat, facts{quiet: ^uint32(0), app: ModeAsk, folder: ModeNever})
		if len(text) > policy.MaxSourceBytes {
			return // more names than the policy library takes: refused when it is loaded
		}
		if _, err := loader.Load([]policy.Source{{Name: generated, Data: text}}); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	})
}
