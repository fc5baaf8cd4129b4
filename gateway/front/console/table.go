package console

// column is one column of a table.
type column struct {
	name  string
	class string // of its cells; "" for none
}

func columns(names ...string) []column {
	all := make([]column, len(names))
	for i, n := range names {
		all[i].name = n
	}
	return all
}

// table is a table that stays one on a narrow screen: each cell knows the name of its
// column there, and each row is a block. Its roles stand in it, because browsers drop
// them with the layout.
func table(caption string, cols []column, rows [][]html) html {
	return div("scroll", el("table", attrs{"role", "table"},
		el("caption", class("hidden"), text(caption)),
		el("thead", attrs{"role", "rowgroup"}, el("tr", attrs{"role", "row"}, each(cols, func(c column) html {
			return el("th", attrs{"scope", "col", "role", "columnheader"}, text(c.name))
		}))),
		el("tbody", attrs{"role", "rowgroup"}, each(rows, func(row []html) html {
			cells := make([]html, len(row))
			for i, cell := range row {
				a := attrs{"role", "cell", "data-name", cols[i].name}
				if cols[i].class != "" {
					a = append(a, "class", cols[i].class)
				}
				if cell.s == "" {
					a = append(a, "data-empty", "")
				}
				cells[i] = el("td", a, div("cell", cell))
			}
			return el("tr", attrs{"role", "row"}, cells...)
		}))))
}

// card is a box with a heading that names it.
func card(id, heading string, kids ...html) html {
	return el("section", attrs{"class", "card", "id", id, "aria-labelledby", id + "-h"}, append([]html{el("h2", attrs{"id", id + "-h"}, text(heading))}, kids...)...)
}

// input is a field with its label.
func input(id, name, label, value string, more ...string) html {
	return el("div", class("field"), el("label", attrs{"for", id}, text(label)), void("input", append(attrs{"id", id, "name", name, "value", value, "spellcheck", "false", "autocapitalize", "none", "autocomplete", "off"}, more...)))
}

// area is a field of many lines with its label.
func area(id, name, label, value string, more ...string) html {
	return el("div", class("field"), el("label", attrs{"for", id}, text(label)), el("textarea", append(attrs{"id", id, "name", name, "spellcheck", "false", "autocapitalize", "none"}, more...), kept(value)))
}

// choice is one of several, with its label; options are values and texts in turn.
func choice(id, name, label, chosen string, options ...string) html {
	var all []html
	for i := 0; i+1 < len(options); i += 2 {
		a := attrs{"value", options[i]}
		if options[i] == chosen {
			a = append(a, "selected", "")
		}
		all = append(all, el("option", a, text(options[i+1])))
	}
	return el("div", class("field"), el("label", attrs{"for", id}, text(label)), el("select", attrs{"id", id, "name", name}, all...))
}

// shownOnce is a text to be carried elsewhere, with a button that copies it.
func shownOnce(id, label, value string) html {
	return div("copied", el("pre", attrs{"tabindex", "0", "aria-label", label}, el("code", attrs{"id", id}, lines(value))), copyButton(id, label))
}

// copyButton copies the text of an element; copy.js does it, and without script there is none.
func copyButton(of, label string) html {
	return el("button", attrs{"class", "small scripted", "type", "button", "data-copy", of, "aria-label", "Copy: " + label}, text("Copy"))
}

// hiddenField is a value that a form carries.
func hiddenField(name, value string) html {
	return void("input", attrs{"type", "hidden", "name", name, "value", value})
}
