package remote

import "testing"

// A text that somebody wrote finds the tool, the node and the grant that they meant, or several.
func TestChoose(t *testing.T) {
	all := []Named{{ID: "n9ep1rqg", Label: "desk"}, {ID: "n9fx77", Label: "Desk 2"}, {ID: "ncn28", Label: ""}}
	for text, want := range map[string]string{"n9ep1rqg": "n9ep1rqg", "DESK": "n9ep1rqg", "desk 2": "n9fx77", "nc": "ncn28", "n9f": "n9fx77", "n9": "", "des": "", "nope": ""} {
		if got, err := Choose("node", text, all); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q: %v", text, got, err)
		}
	}
}
