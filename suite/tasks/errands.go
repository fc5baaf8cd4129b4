package tasks

import "github.com/handrail-dev/handrail/suite/browser"

// errands are the tasks of several calls.
func errands() []*browser.Behaviour {
	return []*browser.Behaviour{
		browser.B("task.form", "fills in a form of ten fields and sends it", "the page has all ten values", browser.HTML(page("form")),
			works(func(a *agent) {
				a.looks()
				a.calls("fill-form", map[string]any{"fields": []any{
					a.field("Ada Lovelace", `textbox "Full name"`), a.field("ada@example.com", `textbox "E-mail"`),
					a.field("+44 20 7946 0000", `textbox "Phone"`), a.field("1985-12-10", `"Date of birth"`),
					a.field("Norway", `combobox "Country"`), a.field("Engineering", `combobox "Department"`),
					a.field("true", `radio "Part time"`), a.field("3", `"Days a week"`),
					a.field("true", `checkbox "I accept the terms"`), a.field("Starts in May.", `textbox "Notes"`),
				}})
				a.acts("click", "ref", a.ref(`button "Send application"`))
				a.sees("Application A-1042 received")
			}),
			browser.Holds(`window.sent.join("|")`,
				"Ada Lovelace|ada@example.com|+44 20 7946 0000|1985-12-10|Norway|Engineering|part|3|yes|Starts in May.")),
		browser.B("task.table", "finds an order among eighty by the filter, opens it and notes it as paid", "that order alone is paid",
			browser.HTML(page("table")),
			works(func(a *agent) {
				a.looks()
				a.acts("type", "ref", a.ref(`"Filter orders"`), "text", "Quarry", "clear", true)
				a.sees("1 of 80 orders")
				a.acts("click", "ref", a.ref(`"Open order 5063"`))
				a.sees("Order 5063")
				a.acts("click", "ref", a.ref(`button "Mark as paid"`))
				a.sees("Paid today")
			}),
			browser.Holds(`orders.filter(o => o.paid).map(o => o.id).join()`, "5063")),
		browser.B("task.shop", "puts two things into a basket, changes how many, and reads the sum", "the basket has them",
			browser.HTML(page("shop")),
			works(func(a *agent) {
				a.looks()
				a.acts("click", "ref", a.ref(`button "Add Brass lamp to the basket"`))
				a.acts("click", "ref", a.ref(`button "Add Oak stool to the basket"`))
				a.acts("click", "ref", a.ref(`button "Basket (2)"`))
				a.sees("Your basket")
				a.calls("fill-form", map[string]any{"fields": []any{a.field("3", `"Pieces of Oak stool"`)}})
				a.acts("click", "ref", a.ref(`button "Update"`))
				a.sees("Total 291.00")
			}),
			browser.Holds(`JSON.stringify(basket)`, `{"Brass lamp":1,"Oak stool":3}`)),
		browser.B("task.wizard", "goes through three steps that each load", "the last one says what was chosen", browser.HTML(page("wizard")),
			works(func(a *agent) {
				a.looks()
				a.acts("click", "ref", a.ref(`button "Start"`))
				a.sees("Choose a plan")
				a.calls("click", map[string]any{"ref": a.ref(`radio "Team"`)})
				a.acts("click", "ref", a.ref(`button "Continue"`))
				a.sees("Name your workspace")
				a.calls("type", map[string]any{"ref": a.ref(`textbox "Workspace"`), "text": "Harbour", "clear": true})
				a.acts("click", "ref", a.ref(`button "Create"`))
				a.sees("Harbour is ready")
			}),
			browser.Holds(`location.hash + ' ' + document.querySelector('h1').textContent`, "#done Harbour is ready")),
		browser.B("task.article", "reads a long article and follows its one source", "the source is open", browser.HTML(page("article")),
			browser.Another("source", `<title>Source</title><h1>The harbour's log</h1><p>Kept since 1881.`),
			works(func(a *agent) {
				a.calls("read", nil)
				a.looks()
				a.acts("click", "ref", a.ref(`link "the harbour's log"`))
				a.sees("Kept since 1881")
			}),
			browser.Holds(`document.title`, "Source")),
	}
}
