package fact

import (
	"strings"
	"testing"
)

// TestJudge: what is private is asked about, and a secret is kept by nobody (S2-40).
func TestJudge(t *testing.T) {
	for text, want := range map[string]Judgement{
		"I prefer tabs":                              {Low, false},
		"the project is called Heron":                {Low, false},
		"Deploys are frozen in December":             {Low, false},
		"our default branch is called main":          {Low, false},
		"Das Projekt heißt Reiher":                   {Low, false},
		"je préfère les réponses courtes":            {Low, false},
		"prefiero respuestas cortas":                 {Low, false},
		"the operating system is Debian":             {Low, false},
		"I keep my passwords in KeePass":             {Low, false},
		"I am allergic to nuts":                      {High, false},
		"Ich bin schwanger":                          {High, false},
		"mi hermana se llama Lucía":                  {High, false},
		"Anna likes tea without sugar":               {High, false},
		"my rent is 700":                             {High, false},
		"I moved to Leipzig":                         {High, false},
		"j'habite à Lyon":                            {High, false},
		"write to mara@example.org":                  {High, false},
		"my phone is +49 170 1234567":                {High, false},
		"call me Sam":                                {High, false},
		"the door code is 4711":                      {High, true},
		"My password is hunter2":                     {High, true},
		"Mein Passwort lautet Sonnenblume7":          {High, true},
		"mon mot de passe est soleil":                {High, true},
		"la contraseña es girasol":                   {High, true},
		"use sk-abcdefghijklmnopqrstuv":              {High, true},
		"my card is 4111 1111 1111 1111":             {High, true},
		"the account is DE89 3704 0044 0532 0130 00": {High, true},
		"git clone https://sam:pw@example.org/x":     {High, true},
		strings.Repeat("a", MaxText+1):               {High, false},
	} {
		if got := Judge(text); got != want {
			t.Errorf("%.60q: %+v, want %+v", text, got, want)
		}
	}
}

// TestASecretsNameIsNoSecret: a word that names a secret, among other things, is judged by what is
// said of it, and never inside another word.
func TestASecretsNameIsNoSecret(t *testing.T) {
	for _, text := range []string{
		"my opinion is that tabs are better", "Spinach is fine in any soup", "the parking token is red", "the token is red",
		"I think the tokenizer is slow", "our tokens are blue", "a token is about four characters", "the token budget is 4000 per answer",
		"the design token prefix is hr", "the combination of tea and milk is fine", "the login page is slow", "the secret of good bread is time",
		"the bearer is tired", "the seed is chia", "la clave es la paciencia", "das Token ist abgelaufen", "the conclave is over",
		"the PIN is required",
	} {
		if Judge(text).Credential {
			t.Errorf("%q is taken for a secret", text)
		}
	}
	for _, text := range []string{
		"the token is swordfish", "the token is swordfish for now", "my token is a7Hq9-zzKK81. I like tea", "the token for staging is abcdef", "the token you gave me is x7Hq9pp",
		"my GitHub token is 'abc def'", "token=swordfish", "the secret: swordfish", "my bank pin is 7 7 0 4", "the pin is four two one nine",
		"the combination is left three right two", "la clave es girasol", "mein Token ist Sonnenblume", "my login is samuel",
		"Adminpasswort: sonne", "the parking token is not red and the token is a7Hq9zz", "bearer: a7Hq9-zzKK81",
	} {
		if !Judge(text).Credential {
			t.Errorf("%q is taken for none", text)
		}
	}
}

// FuzzJudge: every text is judged, and no words after it make it less private.
func FuzzJudge(f *testing.F) {
	for _, s := range []string{"", "my password is x", "I live in Köln", "ß\u0301", "\xff", "4111 1111 1111 1111", "the token is swordfish", "pin: 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a := Judge(s)
		if a.Sensitivity != Low && a.Sensitivity != High || a.Credential && a.Sensitivity == Low {
			t.Errorf("%+v", a)
		}
		if len(s) < MaxText-20 {
			if b := Judge(s + ". I like tea."); a.Credential && !b.Credential || a.Sensitivity == High && b.Sensitivity == Low {
				t.Errorf("%q: %+v, then %+v", s, a, b)
			}
		}
	})
}
