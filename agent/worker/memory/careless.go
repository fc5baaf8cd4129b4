package memory

import "github.com/handrail-dev/handrail/capabilities"

// The words of requests that nobody wants kept: they hold for a moment, are only supposed, are of
// the agent, or point at something that will be gone.
const (
	begins = `(?:^|[^\pL])`
	ends   = `(?:$|[^\pL])`
)

var (
	// passing is what holds for now, or for one answer.
	passing = capabilities.Pattern(begins + `(?:` +
		`right now|just now|at the moment|for the moment|for now|for the time being|today only|for today|(?:just|only) today|` +
		`just this once|(?:just|only) this (?:once|time)|for (?:this|the next|these) (?:\pL+ )?(?:answer|reply|response|question|message|chat|` +
		`conversation|session|minutes?|hours?)|in this (?:answer|reply|chat|conversation|session)|until (?:i` + ap +
		`m back|i (?:say|tell|come|return)|later|tonight|tomorrow)|` +
		`im moment|momentan|zurzeit|zur zeit|vorerst|jetzt gerade|gerade (?:jetzt|eben)|für (?:heute|jetzt|den moment)|` +
		`(?:für|in) diese[mnrs]? (?:antwort|frage|nachricht|gespräch|chat|unterhaltung|sitzung)|nur (?:heute|diesmal|dieses mal)|` +
		`bis (?:gleich|später|heute abend|morgen)|` +
		`en ce moment|pour l` + ap + `instant|pour le moment|pour aujourd` + ap + `hui|(?:juste|seulement) (?:cette fois|aujourd` + ap +
		`hui)|(?:pour|dans) cette (?:réponse|question|conversation|session|fois)|jusqu` + ap + `à (?:ce soir|demain|plus tard)|` +
		`ahora mismo|por ahora|de momento|por el momento|por hoy|s[oó]lo (?:hoy|esta vez)|` +
		`(?:para|en) esta (?:respuesta|pregunta|conversación|sesión|vez)|hasta (?:luego|esta noche|mañana)` +
		`)` + ends)
	// supposing begins what is not so.
	supposing = capabilities.Pattern(fillers + `(?:suppose|supposing|imagine|pretend|assume|let` + ap +
		`s (?:say|pretend|imagine|suppose|assume)|in (?:this|the|our|my) (?:story|game|novel|scene|play)|` +
		`angenommen|nehmen wir an|stell dir vor|stellen wir uns vor|supposons|imaginons|imagine|faisons comme si|` +
		`supón|supongamos|imagina|imaginemos|hagamos como)` + ends)
	supposed = capabilities.Pattern(begins + `(?:hypothetically|hypothetisch|hypothétiquement|hipotéticamente)` + ends)
	// ofAgent is what is said of the agent, and is no wish how it is to work.
	ofAgent = capabilities.Pattern(`^(?:you(?:` + ap + `re| are) (?:only|just|merely|nothing but|not (?:a|an)|supposed)|` +
		`you(?:` + ap + `re| are) an? (?:program|machine|robot|computer|bot|model|ai|assistant)|` +
		`you (?:promised|said|told|forgot|broke|claimed|were)|` +
		`du (?:doch )?(?:nur|bloß)|du .*(?:versprochen|gesagt|behauptet|vergessen) hast|` +
		`tu n` + ap + `es qu|tu es (?:juste|seulement)|tu (?:m` + ap + `)?(?:avais|as) (?:dit|promis|oublié)|` +
		`(?:tú )?s[oó]lo eres|(?:tú )?eres s[oó]lo|(?:me )?(?:dijiste|prometiste))` + ends)
	// pointing has only a pronoun for what it is about, and an order for it.
	pointing = capabilities.Pattern(`^(?:(?:it|this|that|these|those|they) (?:should|must|has to|have to|needs? to|ought to|shouldn` + ap +
		`t|mustn` + ap + `t|can` + ap + `t|cannot)|(?:ça|cela|il|elle) (?:doit|devrait|ne doit)|(?:esto |eso )(?:debe|debería|tiene que)|` +
		`(?:es|das|dies) .{0,60}(?:soll|sollte|muss|darf)$)` + ends)
	// idiom is what only sounds like a wish.
	idiom = capabilities.Pattern(`^(?:remember (?:the|when)|one (?:time|day|night)|das eine mal|cette fois)` + ends)
	// negated is a head that asks for the contrary; forgetting is a negation by itself.
	negated = capabilities.Pattern(begins + `(?:not|don` + ap + `t|doesn` + ap + `t|needn` + ap +
		`t|no need|nicht|kein\pL*|pas|no hace falta|no necesitas|no tienes que)` + ends)
	forgetting = capabilities.Pattern(`forg[eo]t|vergiss|vergess|oubli|olvid|perds|verlier`)
)

// careless reports whether words are nothing that anybody wants kept, however they ask. A plain end
// is none of them: the fact is kept until then.
func careless(plain string) bool {
	plain = atStart().ReplaceAllString(atEnd().ReplaceAllString(plain, ""), " ")
	return passing().MatchString(plain) || supposing().MatchString(plain) || supposed().MatchString(plain) ||
		ofAgent().MatchString(plain) || pointing().MatchString(plain) || idiom().MatchString(plain)
}

// refuses reports whether the head of a fact says that it is not to be kept.
func refuses(head string) bool { return negated().MatchString(head) && !forgetting().MatchString(head) }
