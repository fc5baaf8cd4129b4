package memory

import (
	"regexp"

	"github.com/handrail-dev/handrail/capabilities"
)

// Words before a request: politeness, and what joins it to the sentence before.
const (
	ap       = `'\x00*` // an apostrophe, typed either way
	fillers  = `^[\s\x01-\x02¡¿*>–—-]*(?:(?:please|pls|plz|before you (?:start|begin|go on)|first|then|while i think of it|when you get a moment|argh|hey|hi|hello|ok|okay|alright|well|so|and|but|also|btw|by the way|oh|yes|yeah|no|thanks|great|just|now|one more thing|one thing|before i forget|could you|can you|would you|will you|you should|you can|i want you to|i'?\x00*d like you to|i would like you to|i need you to|always|bitte|ach|hallo|hallo du|noch was|noch eins|ubrigens|übrigens|und|aber|auch|also|ja|dann|danke|gut|wenigstens|kannst du(?: dir)?|könntest du(?: dir)?|koenntest du|du kannst(?: dir)?|du sollst(?: dir)?|ich möchte,? dass du(?: dir)?|s'\x00*il te pla[iî]t|s'\x00*il vous pla[iî]t|stp|svp|au fait|et|mais|bon|alors|ah|merci|peux-tu|pourrais-tu|tu peux|je veux que tu|j'\x00*aimerais que tu|por favor|porfa|oye|vale|bueno|y|pero|entonces|ah|gracias|por cierto|puedes|podr[ií]as|quiero que|me gustar[ií]a que)[\s,:!.…–—-]+)*`
	joint    = `(?:[\s,]+(?:that|the fact that|the following)\b[\s:,]*|\s*[:–—]\s*|\s+-\s+|[\s,]+)`
	jointDe  = `(?:[\s,]+(?:bitte[\s,]+)?(?:dass|daß|das folgende|folgendes)\b[\s:,]*|\s*[:–—]\s*|\s+-\s+|\s*,\s*)`
	jointFr  = `(?:[\s,]+(?:bien |aussi )?(?:que\s+|q\s+|qu'\x00*|du fait que\s+|ceci\s*:)|\s*[:–—]\s*|\s+-\s+|\s*,\s*)`
	jointEs  = `(?:[\s,]+(?:bien |también )?(?:de\s+)?(?:que|q|esto\s*:)\s+|\s*[:–—]\s*|\s+-\s+|\s*,\s*)`
	thatOnly = `(?:[\s,]+(?:down )?(?:that|the fact that)\b\s*|\s*[:–—]\s*)`
)

var (
	leads = compile(
		// English
		fillers+`(?:remember|rember|rmember|remeber|remmeber|never forget|do(?: not|n`+ap+
			`t|nt) forget|keep in mind|bear in mind|keep in memory|memori[sz]e)(?:,? please)?(?: (?:this|the following|for (?:me|later|next time)))?`+
			joint,
		fillers+
			`(?:note|take note|make a (?:mental )?note|store|save|record|write down|jot down|(?:write|jot|note) (?:this |it )?down for good|put (?:it )?(?:in|into) (?:your )?memory|add (?:it )?to (?:your )?(?:memory|notes)|commit to memory|i want you to know|be aware|know|store the fact|save (?:this |it )?for later|keep (?:this |it )?for later|update (?:your memory|what you know))(?:,? please)?`+
			thatOnly,
		fillers+
			`(?:for (?:your|future) (?:info|information|reference|records)|for the (?:future|record|next time)|for next time|from now on|going forward|fyi)\s*[,:–—-]?\s+`,
		// German
		fillers+
			`(?:merke?(?: dir| euch)?(?: bitte| wenigstens| mal| doch| auch)*|merken sie sich(?: bitte)?|notiere?(?: dir)?(?: bitte)?|behalte?(?: bitte)?(?: im (?:kopf|hinterkopf|gedächtnis)| in erinnerung)?|vergiss(?: bitte)? (?:nicht|nie)|denke?(?: bitte)?(?: künftig| in zukunft| immer)?(?: bitte)? (?:daran|dran)|speichere?(?: dir)?(?: bitte)?(?: ab)?|schreibe?(?: dir)?(?: bitte)? auf|erinnere? dich(?: bitte)?(?: daran)?|nimm zur kenntnis|du solltest wissen|(?:dir )?merken|(?:dir )?notieren)(?: folgendes)?`+
			jointDe,
		fillers+
			`(?:für (?:die zukunft|später|künftig|das nächste mal|deine unterlagen)|ab (?:jetzt|sofort)|künftig|zur info|nur zur info|fürs nächste mal)\s*[,:–—-]?\s+`,
		// French
		fillers+`(?:souviens-toi|souvenez-vous|rappelle-toi|rappelez-vous|n`+ap+
			`oublie(?:z)?(?: pas| jamais)|note(?:z)?|prends note|garde(?:z)? (?:en tête|en tete|en mémoire|en memoire|à l`+ap+`esprit|a l`+ap+
			`esprit)|retiens|retenez|mémorise|memorise|enregistre|sache|tiens compte|te souvenir|retenir|noter)(?:,? (?:s`+ap+
			`il te pla[iî]t|stp))?`+jointFr,
		fillers+`(?:pour (?:info|information|la suite|plus tard|l`+ap+
			`avenir|la prochaine fois)|désormais|desormais|dorénavant|dorenavant|à partir de maintenant|a partir de maintenant)\s*[,:–—-]?\s+`,
		// Spanish
		fillers+
			`(?:recuerda|recuerde|acuérdate|acuerdate|no (?:te )?olvides|no (?:se )?te olvide(?:s)?|no olvide|nunca olvides|apunta|apúntate|anota|anótate|ten(?: en cuenta| presente)|ten en mente|guarda(?: en (?:la )?memoria| para (?:luego|después|despues))?|memoriza|toma nota|que sepas|recordar|recuerdes|tengas en cuenta)(?:,? por favor)?`+
			jointEs,
		fillers+
			`(?:guarda esto(?: para luego)?\s*:|a partir de ahora|de ahora en adelante|para (?:el futuro|más tarde|mas tarde|tu información|tu informacion|la próxima(?: vez)?|la proxima(?: vez)?))\s*[,:–—-]?\s+`,
	)
	// The names of things to remember that stand after them.
	pointed  = `(?:that(?: one)?|this|it|all (?:of )?that)(?: instead)?`
	trailing = capabilities.Pattern(fillers + `(?:(?:that` + ap + `s worth remembering|worth remembering)|(?:remember|memori[sz]e|note|save|store|keep) ` + pointed + `(?: down)?(?: in mind| for (?:me|later|next time|the future)| in (?:your )?memory)?|präg(?:e)? dir das ein|dauerhaft merken|(?:das )?bitte merken|keep ` + pointed + ` in mind|bear ` + pointed + ` in mind|do(?: not|n` + ap + `t|nt) forget ` + pointed + `|make a (?:mental )?note(?: of ` + pointed + `)?|merke?(?: dir| es dir)? (?:das|dir das)|merk` + ap + `s dir|vergiss das (?:bitte )?nicht|behalte? das(?: bitte)?(?: im (?:kopf|hinterkopf))?|notiere? dir das|schreib dir das auf|denk (?:bitte )?(?:dran|daran)|(?:retiens|note|mémorise|garde)(?:-le|-la|-ça| ça| cela| bien ça)(?: en tête| en mémoire)?|souviens-t` + ap + `en|n` + ap + `oublie(?:z)? pas(?: ça| cela)?|ne l` + ap + `oublie pas|recuérdalo|recuerdalo|recuerda eso|acuérdate(?: de eso)?|no lo olvides|apúntalo|apuntalo|anótalo|guárdalo|tenlo en cuenta|tenlo presente)(?:,? (?:please|bitte|ok|okay|thanks|danke|merci|gracias|por favor|s` + ap + `il te pla[iî]t|stp))*[\s.!…]*(?:[,;–—-][^:]*)?$`)
	ending   = capabilities.Pattern(
		`^(.{6,}?)\s*[,;–—-]+\s*(?:so |and |please |bitte |und |also |et |y |por favor,? )*(?:(?:remember|memori[sz]e|note|keep) ` +
			pointed + `(?: down)?(?: in mind| for (?:me|later|next time))?|do(?: not|n` + ap + `t|nt) forget ` + pointed +
			`|remember it|präg(?:e)? dir das ein|merke? dir das|merk` + ap +
			`s dir|vergiss das nicht|behalte? das im kopf|(?:retiens|note|mémorise)(?:-le|-ça| ça| cela)|souviens-t` + ap + `en|n` + ap +
			`oublie pas|recuérdalo|recuerdalo|acuérdate|no lo olvides|apúntalo|tenlo en cuenta)(?:,? (?:please|bitte|ok|okay|thanks|danke|merci|gracias|por favor|s` +
			ap + `il te pla[iî]t|stp))*[\s.!…]*$`)
	// A request that was taken back.
	withdrawn = capabilities.Pattern(
		`^[\s,.…–—-]*(?:(?:oh|ah|ach|hm+|actually|no|nein|non|ok|wait|sorry|eigentlich|en fait|de hecho|perdón|doch|bitte|please)[\s,.!…–—-]+)*(?:forget (?:it|that|about it|about that|what i (?:just )?said)|never ?mind|scratch that|don` +
			ap +
			`t (?:remember|save|store|keep) (?:that|it)|do not (?:remember|save|store|keep) (?:that|it)|no need to (?:remember|keep|save) (?:that|it)|ignore that|vergiss (?:es|das)(?: wieder)?|doch nicht|lass (?:es|das|mal)|(?:das )?(?:musst|brauchst) du dir nicht (?:zu )?merken|merk dir das (?:doch |lieber )?nicht|laisse tomber|oublie(?:-le| ça| cela)?|peu importe|ne (?:le )?retiens pas(?: ça)?|olvídalo|olvidalo|olvida eso|déjalo|dejalo|no importa|mejor no|no hace falta)[\s,.!…]*(?:again|please|bitte|s` +
			ap +
			`il te pla[iî]t|por favor)?[\s.!…]*(?:[,;–—-].*)?$|^[\s,.…–—-]*(?:ha(?:ha)+|lol|jk|just kidding|kidding|only joking|scherz|quatsch|war nur spaß|spaß|je plaisante|je rigole|c` +
			ap + `est une blague|es broma|era broma|jaja)\b`)
	// A message that takes back what was kept before it says that in words of its own.
	forgets = capabilities.Pattern(
		`forget|scratch|n'?\x00*t (?:remember|save|store|keep)|not (?:remember|save|store|keep)|vergiss|merk|oublie|olv[ií]da`)
	// A wish to forget, and the words of it.
	forget = capabilities.Pattern(fillers + `(?:(?:forget|unlearn)(?: (?:everything|all|what(?:ever)?)(?: (?:that )?(?:i|you)(?:` + ap +
		`ve)? (?:have )?(?:told|said|know|remember|stored|saved)(?: (?:to )?you)?)?)?(?: that| about)?|(?:delete|remove|erase|drop) (?:from (?:your )?memory|what you (?:know|remember)|the (?:fact|memory|note))(?: (?:that|about|of))?|vergiss(?: bitte)?(?: alles| was)?(?:,? was (?:ich|du)(?: dir)?)?(?:,? dass| über)?|lösche?(?: bitte)?(?: aus (?:deinem|dem) gedächtnis|,? was du)(?:,? dass| über)?|oublie(?: tout)?(?: ce que (?:je|tu)(?: t` +
		ap +
		`ai dit| sais)?)?(?: que| sur| de)?|efface de (?:ta )?mémoire(?: que)?|olvida(?:te de)?(?: todo)?(?: lo que (?:te dije|sabes))?(?: que| sobre| de)?|borra de (?:tu )?memoria(?: que)?)\s+(\S.*)$`)
	// Words that are no fact: a story, a thing to do, a question.
	unfit = capabilities.Pattern(
		`^(?:when\b|how\b|the (?:time|days) (?:when|we|i|you)\b|those\b|to \pL|me to\b|what\b|where\b|whether\b|who\b|why\b|if\b|back when\b|last (?:time|summer|year|christmas)\b|us\b|me\b|him\b|her\b|them\b|your (?:instructions|training|manners|rules)\b|als\b|wie\b|wann\b|was\b|wo\b|ob\b|(?:[^,]{0,60} )?zu \pL+en[\s.!]*$|[^,]{2,40} an(?:zu)?rufen|quand\b|comment\b|ce que\b|où\b|si\b|de \pL|d` +
			ap + `\pL|cuando\b|cómo\b|qué\b|dónde\b|de \pL+r\b|comprar\b|llamar\b)|\bfor (?:the next|this) (?:minute|hour|moment)\b`)
	// A clause that says to the agent what a fact is good for.
	purpose = capabilities.Pattern(
		`(?i),\s*(?:so that (?:we|you|i)|so (?:you|please|don['’]t)|así (?:no|que no) me|ce sera|pour que tu|damit (?:du|ich|wir)|para que (?:no )?(?:me|tú|lo))\b.*$`)
	// Politeness around a fact.
	courtesy = capabilities.Pattern(
		`(?i)^(?:please|bitte|por favor)[\s,]+|[\s,]+(?:please|pls|bitte|ok|okay|thanks|thank you|danke|merci|gracias|por favor|s['’]il te pla[iî]t|stp|will you|would you|🙏|😊|🙂|😉|👍)$`)
	polite = capabilities.Pattern(
		`\b(?:could you|can you|would you|will you|kannst du|könntest du|peux-tu|pourrais-tu|tu peux|puedes|podr[ií]as)\b`)
	// A head that says in any words that what follows is to be remembered.
	headed = capabilities.Pattern(`^([^:]{3,140}?):\s+`)
	about  = capabilities.Pattern(`(?:^|[^\pL])(?:re?member|remeber|rember|memory|keep (?:for|in)|keep (?:this|it)|hold on to|note (?:to|for) (?:you|yourself)|so (?:that )?you (?:know|have)|rule of thumb|store|jot|write (?:this|it) down|for good|gedächtnis|erinnerung für dich|merk\pL*|präg\pL*|notiert?|vergessen|leg dir|ablegen|speicher\pL*|mémo|mémoire|retien\pL*|retenir|retenu|oublie\pL*|perds (?:\pL+ )?pas|vaut (?:pour tout|tout le temps)|graba esto|sepas|memoria|recuerdes?|olvid\pL*|guarda esto)(?:$|[^\pL])`)
	told   = capabilities.Pattern(
		`(?:^|[^\pL])(?:says?|said|wrote|writes|told|reads?|page|file|document|list|email|mail|letter|ticket|remind\pL*|reminder|i remember|do you|did|i forgot|had|steht|schr(?:ei|ie)b\pL*|sagt\pL*|datei|seite|liste|erinnere mich|ich (?:habe|hatte|erinnere)|dit|écrit|page|fichier|liste|rappelle-moi|j'\x00*ai oublié|je me souviens|dice|pone|página|archivo|lista|correo|recuérdame|recuerdo|se me olvidó|olvidé|translate|übersetze|traduis|traduce|summari[sz]e|commit|reply|answer|antworte|song|film|movie|title)(?:$|[^\pL])`)
	// A head whose facts are the sentences after it.
	promise = capabilities.Pattern(fillers +
		`(?:(?:remember|rember|memori[sz]e|note|keep in mind) )?(one|two|three|1|2|3|a few|some|eine|zwei|drei|un|une|deux|trois|una|dos|tres) (?:things?|facts?|rules?|sache|sachen|dinge|choses?|cosas?)(?:,? (?:to|for you to|you should|that you should|zum|à|que debes|para) ?(?:remember|rember|keep in mind|know|note|merken|retenir|recordar|recuerdes))?[^:?]{0,60}[.:]?\s*$`)
	item    = capabilities.Pattern(`(?:^|[\s,;])\(?[1-9][.)]\s+`)
	instead = capabilities.Pattern(`[^\pL](?:instead|stattdessen|plutôt|en su lugar|en vez de eso)[\s.!]*$`)
)

func compile(list ...string) (all []func() *regexp.Regexp) {
	for _, p := range list {
		all = append(all, capabilities.Pattern(p))
	}
	return all
}
