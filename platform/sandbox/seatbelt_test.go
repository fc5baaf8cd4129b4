package sandbox

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

var update = flag.Bool("update", false, "write the profiles of testdata anew")

// The profile of each class is what testdata shows: nothing but what the class has (S1-35).
func TestSeatbeltProfiles(t *testing.T) {
	for _, class := range Classes {
		o := &order{Path: "/usr/bin/sort", Argv: []string{"sort", "-r"}, Class: class, Limits: callRows[class], Write: []string{"/private/tmp/scratch"}}
		if class != capabilities.ClassT0 {
			o.Read, o.Write = []string{"/srv/texts"}, append(o.Write, "/srv/work")
		}
		if class == capabilities.ClassT2 {
			o.Door = netip.MustParseAddrPort("127.0.0.1:4711")
			o.Direct = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:8080"), netip.MustParseAddrPort("10.1.2.3:80")}
		}
		golden := filepath.Join("testdata", "seatbelt-"+string(class)+".sb")
		got := seatbeltProfile(o)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || got != string(want) {
			t.Errorf("%s: %v\n%s", class, err, got)
		}
		if words := seatbelt(o); !slices.Equal(words[len(words)-2:], []string{"/usr/bin/sort", "-r"}) || !slices.Contains(words, "WRITE0=/private/tmp/scratch") {
			t.Errorf("%q", words)
		}
		allows := func(what string) bool { return strings.Contains(got, "(allow "+what) }
		if allows("network") != (class == capabilities.ClassT2) || allows("process-fork") != (class != capabilities.ClassT0) || strings.Contains(got, "10.1.2.3") {
			t.Errorf("%s allows more than it has:\n%s", class, got)
		}
	}
}

// FuzzSeatbelt holds that no path changes a profile, whatever it is made of, and that each reaches
// sandbox-exec as it is.
func FuzzSeatbelt(f *testing.F) {
	f.Add("/srv/a", "/srv/b", "/bin/c")
	f.Add(`/srv/") (allow default) ("`, "/srv/\n(allow network*)", `/a\"b`)
	f.Add("/=", "/-p", "/(param \"READ0\")")
	plain := seatbeltProfile(&order{Path: "/p", Argv: []string{"p"}, Read: []string{"/r"}, Write: []string{"/w"}, Limits: Limits{Processes: 2}})
	f.Fuzz(func(t *testing.T, read, write, program string) {
		o := &order{Path: "/" + program, Argv: []string{"p", read}, Read: []string{read}, Write: []string{write}, Limits: Limits{Processes: 2}}
		words := seatbelt(o)
		want := []string{"-p", plain, "-D", "PROGRAM=/" + program, "-D", "READ0=" + read, "-D", "WRITE0=" + write, "/" + program, read}
		if !slices.Equal(words, want) {
			t.Errorf("%q", words)
		}
	})
}
