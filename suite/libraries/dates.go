package libraries

// dates: pickers of days, months and periods.
func dates() []*library {
	return []*library{
		lib("flatpickr", "flatpickr",
			does("pick", "opens the calendar and clicks a day", "it is the date", clickOn("#d"), click(`"March 17, 2026"`),
				is(`p.formatDate(p.selectedDates[0],'Y-m-d')`, "2026-03-17")),
			does("month", "goes to the next month and clicks a day", "it is the date", clickOn("#d"),
				clickOn(".flatpickr-calendar.open .flatpickr-next-month"), click(`"April 9, 2026"`), is(`d.value`, "2026-04-09")),
			does("fill", "fills the field with a date", "the picker takes it", filled("2026-05-04", `"Date"`), key("Enter"),
				is(`p.selectedDates[0]&&p.formatDate(p.selectedDates[0],'Y-m-d')`, "2026-05-04")),
			does("period", "clicks the first and the last day", "both are the period", clickOn("#r"), click(`"March 2, 2026"`),
				click(`"March 6, 2026"`), is(`q.selectedDates.map(x=>q.formatDate(x,'Y-m-d')).join()`, "2026-03-02,2026-03-06")),
			does("time", "opens the calendar and fills the hour", "it is the hour", clickOn("#dt"),
				filledOn("17", ".flatpickr-calendar.open .flatpickr-hour"), key("Enter"), is(`dt.value`, "2026-03-10 17:00")),
		),
		lib("pikaday", "pikaday",
			does("pick", "opens the calendar and clicks a day", "it is the date", click(`"Date"`), click(`button "17"`),
				is(`d.value`, "2026-3-17")),
			does("month", "chooses a month from the list and clicks a day", "it is the date", click(`"Date"`),
				chosenOn(".pika-select-month", "June"), click(`button "9"`), is(`d.value`, "2026-6-9")),
			does("next", "goes to the next month and clicks a day", "it is the date", click(`"Date"`), click("Next Month"),
				click(`button "8"`), is(`d.value`, "2026-4-8")),
		),
		lib("air-datepicker", "air-datepicker",
			does("pick", "opens the calendar and clicks a day", "it is the date", click(`"Date"`), click(`"17"`),
				is(`d.value`, "2026-03-17")),
			does("next", "goes to the next month and clicks a day", "it is the date", click(`"Date"`),
				clickOn(".air-datepicker-nav--action[data-action=next]"),
				is(`/April/.test(document.querySelector('.air-datepicker-nav--title').textContent)`, true),
				click(`"17"`), is(`d.value`, "2026-04-17")),
		),
	}
}
