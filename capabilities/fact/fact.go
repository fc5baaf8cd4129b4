package fact

import (
	"math"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"

	"github.com/handrail-dev/handrail/capabilities"
)

// Sensitivity is how private a fact is (S2-40). The zero value is invalid.
type Sensitivity string

// The sensitivities.
const (
	Low  Sensitivity = "low"  // kept without asking
	High Sensitivity = "high" // names, places, health, money: kept only after a person agreed
)

// MaxText is how long a fact may be, in bytes.
const MaxText = 4096

// Judgement is what is said of a text.
type Judgement struct {
	Sensitivity Sensitivity
	Credential  bool // it has a password, a key or a number to pay by, and is never kept
}

// Judge says how private a text is. A text that is too long is private.
func Judge(text string) Judgement {
	j := Judgement{Sensitivity: Low}
	if len(text) > MaxText {
		j.Sensitivity = High
		return j
	}
	plain := Fold(text)
	if credential(text, plain) {
		return Judgement{High, true}
	}
	if private().MatchString(plain) || contact().MatchString(text) || person(text) {
		j.Sensitivity = High
	}
	return j
}

// Fold returns a text in lower case and without accents, so that words of it can be compared.
func Fold(text string) string {
	folded, _, err := transform.String(transform.Chain(norm.NFKD, runes.Remove(runes.In(unicode.Mn))), text)
	if err != nil {
		folded = text
	}
	return strings.NewReplacer("ß", "ss", "’", "'", "`", "'").Replace(strings.ToLower(folded))
}

// The words by which a text is private; those that end in * have any ending.
var private = words(
	// health
	"allerg*", "alergi*", "asthma*", "asma", "diabet*", "insulin*", "migraine*", "migran*", "illness*", "disease*", "cancer*", "krebs*",
	"depress*", "depri*",
	"anxiety", "angst*", "therap*", "terap*", "medication*", "medicine*", "medikament*", "medicament*", "medicac*", "pills", "tablet* against",
	"doctor*", "arzt*", "aerzt*",
	"arztin*", "zahnarzt*", "hausarzt*", "dentist*", "dentiste*", "medecin*", "medico", "medica", "surgeon*", "hospital*", "krankenhaus*",
	"hopital*", "clinic*", "klinik*", "clinique*",
	"pregnan*", "schwanger*", "enceinte", "embaraz*", "blood *", "blut*", "tension arterielle", "vaccin*", "vacun*", "geimpft", "impf*",
	"disab*", "behinder*", "handicap*", "discapac*",
	"adhd", "adhs", "tdah", "autis*", "hiv", "vih", "surgery", "krank*", "malad*", "enferm*", "coeliac*", "celiac*", "celiaqu*", "coeliaque*",
	"zoliakie", "gluten*", "glutenfre*", "lactose*",
	"laktose*", "lactosa", "intoleran*", "epilep*", "dyslexi*", "burnout", "diagnos*", "symptom*", "wheelchair*",
	"rollstuhl*", "heart condition", "hearing aid*", "pacemaker*", "sober", "alcoholi*",
	"insomni*", "schlafstor*", "arthrit*", "rheuma*", "colour-?blind*", "color-?blind*", "farbenblind*", "daltoni*", "back pain",
	"knee", "bad back", "rucken*", "smok*", "weigh", "weight",
	// money
	"salary", "salaries", "gehalt*", "salaire*", "sueldo*", "salario*", "income*", "einkommen*", "revenu*", "debt*", "schulden", "dette*",
	"deuda*", "mortgage*", "hypothek*", "hipoteca*",
	"loan*", "kredit*", "credito*", "rent is", "rent costs", "my rent", "miete*", "loyer*", "alquiler*", "bank", "bank account*", "konto*",
	"kontonummer*", "account number*", "iban*", "tax *", "taxes",
	"steuer*", "impot*", "impuesto*", "pension*", "rente", "savings", "ersparnis*", "ahorro*", "earn*", "verdien*", "gano", "gagne*",
	"bankrupt*", "insolven*", "inherit*", "erbe", "herencia", "budget is",
	// people
	"wife*", "husband*", "girlfriend*", "boyfriend*", "fiance*", "spouse*", "partner is", "partner's", "son", "sons", "son's", "daughter*",
	"sister*", "brother*", "mother*", "father*", "mum", "mum's", "mom",
	"mom's", "dad", "dad's", "parents", "aunt*", "uncle*", "cousin*", "nephew*", "niece*", "grandm*", "grandf*", "grandp*", "kids", "child",
	"children", "boss", "boss's", "colleague*", "coworker*", "co-worker*", "flatmate*", "roommate*",
	"neighbour*", "neighbor*", "landlord*", "best friend*", "friend is", "friend's", "married", "divorce*", "ehefrau", "ehemann", "meine frau",
	"mein mann", "freundin*", "mein freund", "meinem freund", "tochter*", "sohn*", "schwester*", "bruder*",
	"mutter*", "vater*", "mama", "papa", "eltern", "oma", "opa", "tante", "onkel", "cousine", "neffe*", "nichte*", "kinder", "mein kind",
	"chef", "chefin", "chefs", "kolleg*", "nachbar*", "vermieter*", "verheiratet", "geschieden", "verlobt",
	"femme", "mari", "copine", "copain", "fille", "filles", "fils", "soeur*", "frere*", "mere", "pere", "maman", "parents", "tante", "oncle",
	"neveu*", "enfant*", "patron", "patronne", "collegue*", "voisin*", "marie", "mariee", "divorce*",
	"esposa", "esposo", "marido", "mujer", "novio", "novia", "hijo*", "hija*", "hermano*", "hermana*", "madre", "padre", "padres", "mama",
	"abuel*", "tio", "tia", "primo", "prima", "sobrin*", "jefe", "jefa", "companer*", "vecin*", "casad*", "divorciad*",
	"my name*", "my surname*", "my full name*", "my maiden name*", "i am called", "i'm called", "call me", "mein name*", "ich heisse",
	"nenn mich", "je m'appelle", "appelle-moi", "mon nom", "mon prenom", "me llamo", "mi nombre", "llamame", "mi apellido",
	"birthday*", "born", "date of birth", "geburtsdatum", "date de naissance", "fecha de nacimiento", "geburtstag*", "geboren",
	"anniversaire*", "nee le", "ne le", "cumpleanos", "naci", "nacio", "years old", "jahre alt", "tengo * anos", "j'ai * ans", "age is",
	// places and how to reach somebody
	"address", "addresses", "adresse*", "direccion", "i live", "we live", "lives in", "living in", "live in", "live at", "live on", "wohne*",
	"wohnt", "wohnung*", "habite*", "vivo", "vive en", "vivimos", "moved to", "move to", "umgezogen", "ziehe nach", "demenag*", "mude a",
	"mudado",
	"postcode*", "zip code*", "postleitzahl*", "plz", "code postal", "codigo postal", "street", "strasse*", "avenue", "rue", "calle",
	"hometown", "my flat", "my house", "my apartment", "apartment", "ma maison", "mi casa", "mi piso", "grew up",
	"aufgewachsen", "spare key*", "ersatzschlussel*", "alarm*",
	"phone", "phone number*", "telephone*", "telefon*", "handynummer*", "mobile number*", "numero de telephone", "mon numero", "mi numero",
	"number is", "email*", "e-mail*", "mail address*", "passport*", "reisepass*", "ausweis*", "passeport*", "pasaporte*", "social security*",
	"versicherungsnummer*", "licence plate*", "license plate*", "kennzeichen",
	"from home in", "my office is in", "school is", "goes to school", "kindergarten", "kita", "work at", "works at", "works for", "work for",
	"arbeite bei", "arbeitet bei", "travaille chez", "trabajo en", "trabaja en", "employer*", "arbeitgeber*",
	// convictions and who one loves
	"religio*", "christian*", "christ", "catholi*", "katholi*", "protestant*", "evangelisch*", "muslim*", "musulman*", "islam*", "jew",
	"jewish", "jude", "judisch*", "juif*", "juive*", "judi*", "buddhis*", "budis*", "hindu*", "atheis*", "church*", "kirche*", "freikirche*",
	"landeskirche*", "eglise*", "iglesia*", "mosque*", "moschee*", "synagog*", "pray*", "ramadan", "halal", "kosher", "koscher",
	"vote", "voted", "voto", "votas", "partido *", "je vote", "parti politique", "partei *", "votes", "voting", "wahle", "gewahlt", "politic*",
	"politisch*", "politiqu*", "conservative*", "liberal*", "socialis*", "sozialdemokrat*", "communis*", "union member*", "gewerkschaft*",
	"syndicat*", "sindicato*", "party member*", "parteimitglied*",
	"gay", "lesb*", "bisexual*", "bisexuell*", "schwul*", "homosex*", "queer", "transgender", "pronoun*", "pronomen", "non-binary",
	"nonbinary", "asylum*", "asyl*", "nationality", "staatsangehorig*", "nationalite", "nacionalidad", "immigra*", "convict*", "prison",
	"gefangnis", "criminal record",
)

func words(list ...string) func() *regexp.Regexp {
	for i, w := range list {
		w = strings.ReplaceAll(w, " * ", ` \S+ `)
		list[i] = strings.ReplaceAll(w, "*", `[\pL'-]*`)
	}
	return capabilities.Pattern(`(?:^|[^\pL\d])(?:` + strings.Join(list, "|") + `)(?:$|[^\pL\d])`)
}

var (
	// contact is how to reach a person: an e-mail address, or a number of a telephone.
	contact = capabilities.Pattern(`[\w.+-]+@[\w-]+\.[\w.-]+|(?:\+|\b00)\d[\d ()/-]{6,}\d|\b0\d{2,4}[ /-]?\d{3}[\d -]{2,}\d\b`)
	// named is a name that does what people do; other words in capitals are things as often.
	named = capabilities.Pattern(
		`(?:^|[^\pL])(\p{Lu}\p{Ll}+(?: \p{Lu}\p{Ll}+)?)(?:'s|’s)? (?:is (?:my|our|allergic|vegan|vegetarian|married|the (?:boss|one))|likes|loves|hates|prefers|drinks|eats|lives|works|wants|has (?:a|two|three) (?:cat|dog|kid|child)|mag|liebt|hasst|trinkt|isst|wohnt|arbeitet|ist (?:mein|meine|unser|unsere)|aime|deteste|déteste|préfère|prefere|habite|travaille|est (?:mon|ma|notre)|prefiere|odia|bebe|come|vive|trabaja|es (?:mi|nuestro|nuestra)|likes)(?:$|[^\pL])`)
)

// person reports whether a name does something in a text.
func person(text string) bool {
	for _, m := range named().FindAllStringSubmatch(text, -1) {
		switch m[1] {
		case "I", "It", "This", "That", "He", "She", "They", "We", "You", "The", "Everyone", "Everybody", "Nobody", "Team", "Es", "Das", "Der",
			"Die", "Er", "Sie", "Wir", "Il", "Elle", "On", "Ce", "El", "Ella", "Eso", "Esto", "Mein", "My", "Our":
		default:
			return true
		}
	}
	return false
}

var (
	secretShaped = capabilities.Pattern(
		`-----BEGIN|\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}|\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{12,}|\bxox[abprs]-[\w-]{10,}|\bAKIA[A-Z0-9]{12,}|\bAIza[\w-]{20,}|\beyJ[\w-]{10,}\.|\bya29\.|://[^/\s:@]+:[^/\s@]+@`)
	// access is a name and what goes with it, as "admin / x".
	access = capabilities.Pattern(`(?:zugang|login|log-in|acces|acceso|credentials|access|konto|account)[^.!?\n]{0,40}\S+ ?/ ?\S*[\d!#$%&*]`)
	iban   = capabilities.Pattern(`\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b`)
	digits = capabilities.Pattern(`\b\d(?:[ -]?\d){12,18}\b`)
	blob   = capabilities.Pattern(`[A-Za-z0-9+/_=-]{24,}`)
)

func credential(text, plain string) bool {
	if secretShaped().MatchString(text) || access().MatchString(plain) || iban().MatchString(text) || secretNamed(plain) {
		return true
	}
	for _, d := range digits().FindAllString(text, -1) {
		if luhn(d) {
			return true
		}
	}
	for _, b := range blob().FindAllString(text, -1) {
		if strings.ContainsAny(b, "0123456789") && strings.ContainsAny(b, "abcdefghijklmnopqrstuvwxyz") && !strings.Contains(b, "/") &&
			entropy(b) > 3.6 {
			return true
		}
	}
	return false
}

// luhn reports whether the digits are those of a card (ISO/IEC 7812-1, annex B).
func luhn(s string) bool {
	sum, double := 0, false
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] < '0' || s[i] > '9' {
			continue
		}
		d := int(s[i] - '0')
		if double {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum, double = sum+d, !double
	}
	return sum%10 == 0
}

// entropy returns how many bits each character of s is worth.
func entropy(s string) float64 {
	count := map[rune]float64{}
	for _, r := range s {
		count[r]++
	}
	bits, n := 0.0, float64(len(s))
	for _, c := range count {
		bits -= c / n * math.Log2(c/n)
	}
	return bits
}
