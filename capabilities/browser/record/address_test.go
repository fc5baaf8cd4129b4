package record

import "testing"

func TestWithoutUser(t *testing.T) {
	for raw, want := range map[string]string{
		"http://u:p@h:8/x?a@b":   "http://h:8/x?a@b",
		"https://u@h":            "https://h",
		"http://a@b@h/":          "http://h/",
		"http://h?u=a@b":         "http://h?u=a@b",
		"http://h#x@y":           "http://h#x@y",
		"http://h/@me":           "http://h/@me",
		"about:blank":            "about:blank",
		"data:text/html,a://b@c": "data:text/html,a://b@c",
		"mailto:a@b":             "mailto:a@b",
		"":                       "",
	} {
		if got := WithoutUser(raw); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}
