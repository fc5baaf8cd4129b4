package gate

import (
	"slices"
	"strings"
	"unicode"

	"github.com/handrail-dev/handrail/agent/worker/named"
	"github.com/handrail-dev/handrail/capabilities"
)

// seldom are tools that an intent allows and that few of its messages need: only those with one of
// these words, or with several that follow one another. A word counts as a whole: "add" is no part
// of "address". New files and notes are mostly read, and are no words of it. The words are of four
// languages. A tool that is not here is likely.
var seldom = map[capabilities.ToolID]string{
	"tool.fs.write": made + `, copy, kopier, kopiere, kopieren, copie, copier, copiez, copia, copiar, translate, übersetz, übersetze,
		übersetzen, traduis, traduire, traduisez, traduce, traducir`,
	"tool.fs.edit":        changed,
	"tool.fs.apply-patch": "patch, diff, parche, correctif",

	"tool.browser.screenshot":    pictured,
	"tool.browser.tabs":          "tab, tabs, onglet, onglets, pestaña, pestañas, reiter",
	"tool.browser.handle-dialog": "dialog, dialogs, alert, confirm, bestätige, bestätigen, dialogue, confirme, diálogo, confirma",
	"tool.browser.press-key":     keys,

	"tool.desktop.screenshot": pictured,
	"tool.desktop.mouse": `drag, zieh, ziehe, ziehen, glisse, glisser, arrastra, arrastrar, scroll, scrolle, scrollen, roll, rolle, mouse,
		maus, souris, ratón, draw, zeichne, zeichnen, dessine, dessiner, dibuja, dibujar`,
	"tool.desktop.keyboard": keys + `, type, write, enter, tippe, tippen, schreib, schreibe, schreiben, eingeben, gib, tape, taper, écris,
		ecris, écrire, saisis, saisir, escribe, escribir, teclea, teclear`,
}

const (
	made = `write, writes, writing, save, create, make a, make an, make me, put, note down, add, export, schreib, schreibe, schreiben,
		speicher, speichere, speichern, erstell, erstelle, erstellen, anlegen, leg, lege, notier, notiere, notieren, füg, füge, fügen,
		exportiere, exportieren, écris, ecris, écrire, écrivez, enregistre, enregistrer, enregistrez, crée, cree, créer, créez, ajoute,
		ajouter, ajoutez, mets, exporte, escribe, escribir, guarda, guardar, crea, crear, anota, anotar, añade, añadir, pon, exporta`
	changed = `edit, change, replace, fix, update, correct, rename, append, add, insert, remove, delete, modify, rewrite, bearbeite,
		bearbeiten, änder, ändere, ändern, ersetz, ersetze, ersetzen, korrigier, korrigiere, korrigieren, aktualisiere, aktualisieren,
		umbenennen, benenn, benenne, häng, hänge, anhängen, füg, füge, fügen, einfügen, entfern, entferne, entfernen, lösch, lösche,
		löschen, modifie, modifier, modifiez, remplace, remplacer, remplacez, corrige, corriger, corrigez, ajoute, ajouter, ajoutez,
		supprime, supprimer, supprimez, renomme, renommer, renommez, cambia, cambiar, reemplaza, reemplazar, corregir, actualiza,
		actualizar, modifica, modificar, añade, añadir, borra, borrar, elimina, eliminar, renombra, renombrar`
	pictured = `screenshot, screenshots, picture, image, photo, capture, captura, bild, bildschirmfoto, foto, look, looks, looking,
		aussieht, sieht, siehst`
	keys = `key, keys, press, shortcut, taste, tasten, drück, drücke, drücken, touche, touches, appuie, appuyer, appuyez, tecla, teclas,
		pulsa, pulsar, pulse, ctrl, strg, esc, escape`
)

// phrases are the entries of seldom, each between blanks.
var phrases = func() map[capabilities.ToolID][]string {
	all := make(map[capabilities.ToolID][]string, len(seldom))
	for id, list := range seldom {
		for entry := range strings.SplitSeq(list, ",") {
			all[id] = append(all[id], " "+strings.TrimSpace(entry)+" ")
		}
	}
	return all
}()

// Likely leaves those of a turn's tools that its message is likely to need. It narrows what a
// person is asked about ahead and nothing else: a tool that it leaves out is asked about when it
// is called.
func Likely(message string, tools []capabilities.ToolID) []capabilities.ToolID {
	text := strings.ToLower(named.Replace(message, " ", " ", " "))
	words := " " + strings.Join(strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) }), " ") + " "
	return slices.DeleteFunc(slices.Clone(tools), func(id capabilities.ToolID) bool {
		all, known := phrases[id]
		return known && !slices.ContainsFunc(all, func(phrase string) bool { return strings.Contains(words, phrase) })
	})
}
