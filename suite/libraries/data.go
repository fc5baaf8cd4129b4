package libraries

import (
	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
)

// data: tables that sort, filter, are edited, and draw only what is seen.
func data() []*library {
	double := func(words ...string) step {
		return browser.Do("click", suite.With("ref", browser.At(words), "count", 2))
	}
	return []*library{
		lib("tabulator", "tabulator-tables",
			does("sort", "clicks a column's head", "the rows are sorted by it", click(`"Number"`),
				is(`tb.getSorters()[0].field`, "n"), is(`tb.getRows('active')[0].getData().n`, 0)),
			does("filter", "types into the filter of a column", "only what holds it is left",
				clickOn(".tabulator-header-filter input"), typedHere("499"), is(`tb.getDataCount('active')`, 1)),
			does("edit", "clicks a cell, types and presses Enter", "the row has it", click(`"Row 2"`), key("Control+a"),
				key("X"), key("Enter"), is(`tb.getRow(2).getData().name`, "X")),
			does("scroll", "turns the wheel over the rows", "later rows are in the outline",
				browser.Do("hover", suite.With("selector", ".tabulator-tableholder", "wheel_y", 2000)),
				is(`document.querySelector('.tabulator-tableholder').scrollTop`, 2000), shows("Row 80")),
		),
		lib("ag-grid", "ag-grid-community",
			does("sort", "clicks a column's head", "the rows are sorted by it", click(`"Number"`),
				is(`api.getDisplayedRowAtIndex(0).data.n`, 0)),
			does("edit", "double clicks a cell, types and presses Enter", "the row has it", double(`"Row 2"`),
				key("Control+a"), key("X"), key("Enter"),
				is(`api.getDisplayedRowAtIndex(2).data.name`, "X")),
			does("select", "checks a row", "it is selected",
				browser.Do("click", suite.With("selector", "[row-index='1'] input[type=checkbox]")),
				is(`api.getSelectedRows().map(x=>x.name).join()`, "Row 1")),
			does("scroll", "turns the wheel over the rows", "later rows are in the outline",
				browser.Do("hover", suite.With("x", 200, "y", 200, "wheel_y", 4200)),
				is(`!!document.querySelector('[row-index="105"]')`, true), shows("Row 105")),
		),
		lib("datatables", "datatables.net",
			does("search", "types into the search", "only what holds it is left", typed("Row 59", "Search"),
				is(`dt.rows({search:'applied'}).data().toArray().map(x=>x.join()).sort().join(' ')`, "Row 47,59 Row 59,23")),
			does("sort", "clicks a column's head", "the rows are sorted by it", click("Number"),
				is(`dt.order()[0].slice(0,2).join()`, "1,asc")),
			does("length", "chooses how many rows a page has", "it is so", chosen([]string{"combobox"}, "50"), is(`dt.page.len()`, 50)),
			does("page", "goes to the next page", "it is the page", click("Next"), is(`dt.page()`, 1)),
		),
		lib("gridjs", "gridjs",
			does("search", "types into the search", "only what holds it is left", typed("Row 19", "Type a keyword"),
				is(`document.querySelectorAll('tbody tr').length`, 1)),
			does("page", "goes to the next page", "its rows are shown", click(`"Next"`),
				is(`document.querySelector('tbody td').textContent`, "Row 5")),
			does("sort", "presses the button of a column", "the rows are sorted by it", clickOn("th[data-column-id=number] button"),
				is(`document.querySelectorAll('tbody td')[1].textContent`, "0")),
		),
	}
}
