package gate

import (
	"slices"
	"strings"
	"unicode"

	"github.com/handrail-dev/handrail/agent/worker/named"
	"github.com/handrail-dev/handrail/capabilities"
)

// seldom are tools that an intent allows and that few of its messages need: only those with a
// word that begins so. The words are of four languages. A tool that is not here is likely.
var seldom = map[capabilities.ToolID][]string{
	"tool.fs.write":       append([]string{"copy", "kopier", "copie", "copia", "translat", "übersetz", "tradui", "traduc"}, made...),
	"tool.fs.edit":        changed,
	"tool.fs.apply-patch": {"patch", "diff", "parche", "correctif"},

	"tool.browser.screenshot":    pictured,
	"tool.browser.tabs":          {"tab", "onglet", "pestaña", "reiter"},
	"tool.browser.handle-dialog": {"dialog", "alert", "confirm", "bestätig", "dialog", "diálogo"},
	"tool.browser.press-key":     keys,

	"tool.desktop.screenshot": pictured,
	"tool.desktop.mouse": {
		"drag", "zieh", "glisse", "arrastr", "scroll", "roll", "mouse", "maus", "souris", "ratón", "draw", "zeichn", "dessin", "dibuj",
	},
	"tool.desktop.keyboard": append([]string{
		"type", "write", "enter", "tipp", "schreib", "eingeb", "gib", "tape", "écri", "ecri", "saisi", "escrib", "teclea",
	}, keys...),
}

var (
	made = []string{
		"writ", "wrote", "save", "creat", "make", "new", "put", "note", "add", "export",
		"schreib", "speicher", "erstell", "anleg", "leg", "neu", "notier", "füg",
		"écri", "ecri", "enregistr", "crée", "créer", "cree", "nouveau", "nouvelle", "ajout", "mets",
		"escrib", "guard", "crea", "nuev", "anota", "añad", "pon",
	}
	changed = []string{
		"edit", "chang", "replac", "fix", "updat", "correct", "renam", "append", "add", "insert", "remov", "delet", "modif", "rewrit",
		"bearbeit", "änder", "ersetz", "korrigier", "aktualisier", "umbenenn", "häng", "füg", "entfern", "lösch",
		"remplac", "corrig", "ajout", "supprim", "renomm", "cambi", "reemplaz", "actualiz", "añad", "borr", "elimin", "renombr",
	}
	pictured = []string{"screenshot", "picture", "image", "photo", "captur", "bild", "foto", "look", "aussieht", "sieht"}
	keys     = []string{"key", "press", "shortcut", "taste", "drück", "touche", "appuie", "tecla", "puls", "ctrl", "strg", "esc"}
)

// Likely leaves those of a turn's tools that its message is likely to need. It narrows what a
// person is asked about ahead and nothing else: a tool that it leaves out is asked about when it
// is called.
func Likely(message string, tools []capabilities.ToolID) []capabilities.ToolID {
	text := strings.ToLower(named.Replace(message, " ", " ", " "))
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	return slices.DeleteFunc(slices.Clone(tools), func(id capabilities.ToolID) bool {
		stems, known := seldom[id]
		return known && !slices.ContainsFunc(words, func(word string) bool {
			return slices.ContainsFunc(stems, func(stem string) bool { return strings.HasPrefix(word, stem) })
		})
	})
}
