package named

import (
	"regexp"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Verb is what a clause asks for by its verb. The zero value is a clause that begins with none.
type Verb string

// The kinds of verbs.
const (
	Says    Verb = "says"    // tell, show, compare: it needs no more than what is looked at
	Opens   Verb = "opens"   // open, go to, take a screenshot
	Changes Verb = "changes" // write, delete, start: files, programs
	Acts    Verb = "acts"    // click, fill, type: what is on a page or on the screen
	Sends   Verb = "sends"   // send, print, buy: something leaves
	Keeps   Verb = "keeps"   // remember, note
)

// Clause is one request of a message.
type Clause struct {
	From, To int // where it stands in the message
	Verb     Verb
	Begins   bool // it begins a sentence of its own
	Points   bool // it says "it" or "them" of what stands before it
}

// joined is what stands between two requests: a word that joins, or the end of a sentence.
var joined = capabilities.Pattern(`(?i)(?:\s*,\s*|\s+)(?:and|then|und|dann|danach|anschließend|et|puis|ensuite|y|luego|después)\s+|` +
	`\s*;\s*|[.!?]+\s+|\s*\n\s*`)

// filler are words before a verb that say nothing.
var filler = capabilities.Pattern(`(?i)^(?:(?:then|after that|afterwards|next|also|please|finally|now|can you|could you|would you|bitte|dann|danach|` +
	`anschließend|auch|noch|kannst du|könntest du|puis|ensuite|après|aussi|s'il te plaît|peux-tu|luego|después|también|por favor|puedes)[\s,]+)*`)

var firstWord = regexp.MustCompile(`^[\pL']+`)

var unaccented = strings.NewReplacer("á", "a", "à", "a", "â", "a", "ä", "a", "é", "e", "è", "e", "ê", "e", "í", "i", "î", "i", "ó", "o",
	"ô", "o", "ö", "o", "ú", "u", "ù", "u", "û", "u", "ü", "u", "ç", "c", "ñ", "n", "ß", "ss", "’", "'")

// verbs are the words by which a request begins, without accents.
var verbs = map[Verb]string{
	Says: `tell say show summarise summarize read explain describe list give compare count sort translate find check look see answer quote
		group rank filter recommend advise name analyse analyze review extract convert calculate search google research investigate
		sag sage zeig zeige fass fasse lies erklar erklare beschreib beschreibe liste gib vergleich vergleiche zahl zahle sortier sortiere
		ubersetz ubersetze finde such suche pruf prufe schau nenn nenne recherchiere
		dis montre resume lis explique decris liste donne compare compte trie traduis trouve cherche recherche verifie regarde
		di muestra lee explica describe lista da compara cuenta ordena traduce encuentra busca comprueba mira investiga`,
	Opens: `open go visit navigate take offne geh mach mache ouvre va fais prends abre haz ve`,
	Changes: `write save add append edit change replace fix correct rename move copy delete remove create make put update insert close
		start launch run execute stop restart install turn set switch
		schreib schreibe speicher speichere fug fuge ander andere ersetz ersetze korrigier korrigiere benenn benenne verschieb verschiebe
		kopier kopiere losch losche entfern entferne erstell erstelle leg lege starte fuhr fuhre stopp stoppe schalt
		schalte stell stelle
		ecris enregistre sauvegarde ajoute modifie change remplace corrige renomme deplace copie supprime efface cree mets lance
		execute arrete active desactive regle
		escribe guarda anade cambia edita reemplaza corrige renombra mueve copia borra elimina crea pon ejecuta inicia deten activa
		desactiva`,
	Acts: `click press type select choose fill tick untick scroll drag submit log sign enter
		klick klicke druck drucke tipp tippe wahl wahle full fulle melde logg logge trag trage
		clique appuie tape choisis remplis connecte
		pulsa elige rellena`,
	Sends: `send mail email forward share post publish print upload tweet text call phone message invite pay buy order book reserve transfer
		notify reply fax
		schick schicke sende maile leite teil teile poste veroffentliche ruf lad lade uberweis uberweise bezahl bezahle kauf kaufe bestell
		bestelle buch buche reservier reserviere antworte benachrichtige
		envoie transfere partage publie poste imprime appelle paie achete commande reserve reponds
		envia manda reenvia comparte publica imprime llama paga compra pide reserva responde sube`,
	Keeps: `remember memorise memorize note keep don't merk merke notier notiere behalt behalte vergiss retiens souviens n'oublie memorise
		garde recuerda apunta anota memoriza`,
}

var verbOf = func() map[string]Verb {
	all := map[string]Verb{}
	for _, kind := range []Verb{Sends, Acts, Changes, Opens, Says, Keeps} {
		for word := range strings.FieldsSeq(verbs[kind]) {
			all[word] = kind
		}
	}
	return all
}()

// endings are what Spanish verbs have at their end for "it" and "me".
var endings = []string{"melo", "mela", "los", "las", "les", "lo", "la", "le", "me"}

// clicks is a click that is said by two words.
var clicks = capabilities.Pattern(`(?i)^(?:haz|fais|do|mach) (?:un |a |einen )?cli[ck]`)

// verb returns what a clause begins with, after words that say nothing; no verb stands alone.
func verb(clause string) Verb {
	clause = clause[len(filler().FindString(clause)):]
	if clicks().MatchString(clause) {
		return Acts
	}
	word := firstWord.FindString(clause)
	if word == "" || strings.TrimRight(clause[len(word):], " .!?") == "" {
		return verbOfForm(word, false)
	}
	return verbOfForm(word, true)
}

// verbOfForm knows a verb with "it" at its end without words after it, any other only with them.
func verbOfForm(word string, followed bool) Verb {
	word = unaccented.Replace(strings.ToLower(word))
	if v := verbOf[word]; v != "" && followed {
		return v
	}
	for _, end := range endings {
		if stem, ok := strings.CutSuffix(word, end); ok && len(stem) > 1 && verbOf[stem] != "" {
			return verbOf[stem]
		}
	}
	return ""
}

// Clauses takes a message apart where it asks for one thing after another: where what joins two
// requests has a verb behind it. Quotations, pages and files are data, and are never parted.
func Clauses(message string) []Clause {
	plain := masked(message)
	all := []Clause{{To: len(message), Verb: verb(plain)}}
	for _, m := range joined().FindAllStringIndex(plain, -1) {
		last := &all[len(all)-1]
		if m[0] < last.From {
			continue // one of several words before the verb
		}
		from := m[1] + len(filler().FindString(plain[m[1]:]))
		rest, mark := plain[from:], strings.TrimLeft(plain[m[0]:m[1]], " ")
		kind := verb(rest)
		if kind == "" || plainly().MatchString(mark) && goesOn(plain[last.From:m[0]]) {
			continue
		}
		marks := len(mark) - len(strings.TrimLeft(mark, ".!?"))
		last.To = m[0] + marks // a question keeps its mark
		all = append(all, Clause{
			From: from, To: len(message), Verb: kind, Begins: marks > 0 || strings.HasPrefix(mark, ";") || strings.HasPrefix(mark, "\n"),
			Points: pointing().MatchString(rest),
		})
	}
	return all
}

var (
	// plainly is a word that joins verbs of one request as well as two requests.
	plainly = capabilities.Pattern(`(?i)^(?:and|und|et|y)\s+$`)
	// asking is the beginning of a question.
	asking = capabilities.Pattern(`(?i)^\s*[¿¡]?(?:how|what|which|who|why|when|where|is|are|does|did|was|wie|wer|wo|wann|warum|welche[rsn]?|que|quoi|` +
		`quelle?s?|comment|où|quand|pourquoi|qui|combien|qué|cuál|cómo|dónde|cuándo|quién|cuánt[oa]s)[^\pL]`)
	// pointing is a verb, and then a word for what stands before it.
	pointing = capabilities.Pattern(`(?i)^[\pL']+(?: (?:it|them|both|those|these|sie|es|ihn|beide)|-(?:le|la|les))(?:[^\pL]|$)`)
	// infinitive is a verb after "to": "a tool to convert and rename files".
	infinitive = capabilities.Pattern(`(?i)(?:(want|like|need|you|have)\s+)?\bto\s+(\pL+)`)
)

// goesOn reports whether a verb after a plain "and" belongs to what stands before it.
func goesOn(before string) bool {
	if asking().MatchString(before) {
		return true
	}
	return slices.ContainsFunc(infinitive().FindAllStringSubmatch(before, -1), func(m []string) bool {
		return m[1] == "" && verbOf[strings.ToLower(m[2])] != ""
	})
}

// masked returns a message of the same length with signs in the place of what is data.
func masked(message string) string {
	sign := func(s string) string { return strings.Repeat("#", len(s)) }
	message = quoted().ReplaceAllStringFunc(message, sign)
	message = page().ReplaceAllStringFunc(message, func(s string) string {
		url := strings.TrimRight(s, ".,;:!?)")
		return sign(url) + s[len(url):]
	})
	return file().ReplaceAllStringFunc(message, func(s string) string {
		name := strings.TrimRight(s, ".")
		return sign(name) + s[len(name):]
	})
}
