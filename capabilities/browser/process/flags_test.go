package process

import "testing"

// Chrome's language is the node's, whatever its locale is worth otherwise.
func TestLanguageOf(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"":         {},
		"de_CH":    {"LANG": "de_CH.UTF-8"},
		"fr_FR":    {"LANG": "de_CH.UTF-8", "LC_MESSAGES": "fr_FR"},
		"de:en":    {"LANG": "en_US.UTF-8", "LANGUAGE": "de:en", "LC_ALL": "C"},
		"it_IT@eu": {"LC_ALL": "it_IT@eu", "LANG": "C"},
	} {
		if got := languageOf(func(name string) string { return env[name] }); got != want {
			t.Errorf("%v: %q, want %q", env, got, want)
		}
	}
	if got := languageOf(func(string) string { return "C.UTF-8" }); got != "" {
		t.Errorf("the plain locale: %q", got)
	}
}
