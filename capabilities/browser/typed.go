package browser

import (
	"encoding/json"
	"net/url"
	"strings"
	"sync"
)

// typedSecrets are the passwords and codes that calls put into a lane's pages.
// Pages send them on, and some log them: what the records of console and network
// give leaves them out, in every usual spelling.
type typedSecrets struct {
	mu    sync.Mutex
	texts []string
	hide  *strings.Replacer
}

// Bounds: what is shorter would be found everywhere.
const (
	minTyped = 4
	maxTyped = 64
)

// noteTyped remembers a secret for the life of the lane, in memory only.
func (l *lane) noteTyped(text string) {
	if len(text) < minTyped {
		return
	}
	s := &l.typed
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.texts {
		if known == text {
			return
		}
	}
	if len(s.texts) >= maxTyped {
		s.texts = s.texts[1:]
	}
	s.texts = append(s.texts, text)
	var pairs []string
	for _, t := range s.texts {
		form := url.QueryEscape(t)
		quoted, _ := json.Marshal(t)
		for _, spelling := range []string{t, form, strings.ReplaceAll(form, "+", "%20"), url.PathEscape(t), string(quoted[1 : len(quoted)-1])} {
			pairs = append(pairs, spelling, hidden)
		}
	}
	s.hide = strings.NewReplacer(pairs...)
}

// concealTyped takes what was typed in secret out of a text.
func (l *lane) concealTyped(text string) string {
	s := &l.typed
	s.mu.Lock()
	hide := s.hide
	s.mu.Unlock()
	if hide == nil {
		return text
	}
	return hide.Replace(text)
}
