package fact

import (
	"strings"
	"unicode"

	"github.com/handrail-dev/handrail/capabilities"
)

// is stands between the name of a secret and its value.
const is = `(?:\bis\b|\bare\b|'s\b|\bist\b|\blautet\b|\bsind\b|\best\b|\bes\b|\bson\b|[:=])`

var (
	// alwaysSecret are names of nothing but secrets: a word after them is one.
	alwaysSecret = capabilities.Pattern(
		`(?:pass ?-?word|passwort|kennwort|mot de passe|\bmdp\b|contrasena|passphrase|passcode|pass code|\bpin[ -]?code|` +
			`api[ -]?key|api[ -]?schlussel|access key|secret key|private key|schlussel der api|\bcle api|\bcle d'api|\bclave api|` +
			`client secret|recovery (?:code|phrase|key)|\bseed phrase|wiederherstellungs\pL+|\b2fa\b|\botp\b|\bcvv\b|\bcvc\b|security code|` +
			`\b(?:door|gate|alarm|lock|safe|entry|garage)(?:'s)? (?:code|combination|pin)|(?:tur|alarm|safe|schloss|garagen)-?code|` +
			`zahlenkombination|code (?:de |d'|du |de la )?(?:porte|alarme|entree|coffre|immeuble|carte)|\bdigicode|` +
			`\bcodigo (?:de )?(?:la |el |del )?(?:puerta|alarma|caja fuerte|portal|entrada|garaje)|credit card|kreditkarte|` +
			`\bcarte (?:bancaire|de credit)|\btarjeta(?: de credito)?\b|zugangsdaten)` +
			`[^.!?\n]{0,40}?` + is + `\s*(\S+)`)
	// oftenSecret are names of other things, too: what stands between them and the value, and the
	// value itself, tell which.
	oftenSecret = capabilities.Pattern(
		`(?:^|[^\pL\d])(token|secret|pin|puk|clave|login|combination|bearer|seed)s?((?:[^\pL\d.!?\n][^.!?\n]{0,39}?)?)\s*` +
			`(` + is + `)\s*(\S+)([^.!?\n]*)`)
	// goesOn begins what stands after the one word that is said of a secret.
	goesOn = capabilities.Pattern(`^ *(?:$|[,;)"'–—-]|(?:and|und|et|y|but|aber|mais|pero|for|fur|pour|para|on|in|at|auf|bei|sur|dans|en|now|jetzt|btw|too|` +
		`since|until|bis|please|pls|bitte|stp|ok|thanks|danke|merci|gracias)\b)`)
	// whose begins what a secret is for.
	whose = capabilities.Pattern(`^\W*(?:for|fur|vom|von|pour|para)\b`)
)

// talk is what follows the name of a secret without being one.
var talk = setOf("in kept stored on the a an not too always never very changed " +
	"rotated managed at im auf nicht zu dans sur pas trop en muy no " +
	"guardado guardada my what where required expired needed")

// said is what is said of a token, a login or a combination that is a thing.
var said = setOf("red blue green yellow black white brown grey gray orange purple " +
	"pink silver gold golden lost gone found old new short long big " +
	"small slow fast quick fine good bad nice great wrong right ok " +
	"okay broken invalid valid free cheap dear ready missing empty full round " +
	"square optional enough over done abgelaufen expire expiree caducado caducada invalide down up here there " +
	"out off rot blau grun gelb schwarz weiss braun grau alt neu kurz lang gut schlecht " +
	"langsam schnell falsch richtig kaputt weg verloren rouge bleu bleue " +
	"vert verte jaune noir noire blanc blanche vieux vieille nouveau court " +
	"lent lente perdu perdue bon bonne mauvais rojo roja azul verde " +
	"amarillo negro negra blanco blanca viejo vieja nuevo nueva corto lento " +
	"lenta perdido perdida bueno buena malo mala la el le les der die das un une una uno ein eine that dass que")

// numbers are digits and turns in words.
var numbers = setOf("zero one two three four five six seven eight nine null " +
	"eins zwei drei vier funf sechs sieben acht neun deux trois quatre " +
	"cinq sept huit neuf cero dos tres cuatro cinco seis siete ocho nueve left links")

func setOf(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// secretNamed reports whether a folded text names a secret and says what it is.
func secretNamed(plain string) bool {
	for _, m := range alwaysSecret().FindAllStringSubmatch(plain, -1) {
		if !talk[strings.Trim(m[1], ".,;")] {
			return true
		}
	}
	for at := 0; ; {
		m := oftenSecret().FindStringSubmatchIndex(plain[at:])
		if m == nil {
			return false
		}
		group := func(i int) string { return plain[at+m[2*i] : at+m[2*i+1]] }
		if value(group(1), group(2), group(3), group(4), group(5)) {
			return true
		}
		at += m[3] // the next name may stand in what was looked at
	}
}

// value reports whether a word after a name that is not always a secret's is one: by its shape, or
// as the one word that is said of it.
func value(name, between, by, word, rest string) bool {
	if strings.ContainsAny(word[len(word)-1:], ".!?;") {
		rest = "" // the sentence ends with it
	}
	quoted := strings.ContainsAny(word[:1], "\"'`«“„")
	word = strings.Trim(word, ".,;:!?\"'`«»“”„()")
	letters := strings.ContainsFunc(word, unicode.IsLetter)
	digits := strings.ContainsFunc(word, unicode.IsDigit)
	odd := strings.ContainsAny(word, "_#$%&*+=@/\\") || len(word) >= 20
	between = strings.TrimSpace(between)
	switch own := between == "" || whose().MatchString(between); {
	case word == "" || talk[word]:
		return false
	case digits && letters && len(word) >= 6, odd && digits:
		return true
	case !own:
		return false
	case digits, odd, quoted, numbers[word], by == "=":
		return true
	case said[word], name == "bearer", name == "seed":
		return false
	}
	return by == ":" || rest == "" || goesOn().MatchString(rest)
}
