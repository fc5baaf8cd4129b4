package naming

import "testing"

func TestWhatAPersonMeans(t *testing.T) {
	all := []Thing{{"n1abc", "desk"}, {"n1abd", "Desk lamp"}, {"n2", "study"}, {"n3", "study"}, {"n4", ""}}
	for text, want := range map[string]string{
		"n1abc": "n1abc", "DESK": "n1abc", "desk l": "n1abd", "n1ab": "n1abc n1abd", "n2": "n2", "study": "n2 n3", "N4": "n4", "n9": "", "stud": "n2 n3",
	} {
		got := ""
		for _, n := range Meant(text, all) {
			if got != "" {
				got += " "
			}
			got += n.ID
		}
		if got != want {
			t.Errorf("%q means %q, want %q", text, got, want)
		}
	}
}
