package tooldoc

// requested are the lessons of the tools that are listed on request.
var requested = []lesson{
	{
		tool: "read",
		says: "Only what is shown is read, shadow roots and frames of the same origin included; fields and buttons are left out. What a page says costs a half or less of what its outline does.",
		rows: []row{
			{"ref, selector", "only this part of the page: one table, one article"},
			{"main_content", "`false` reads all of it, menus and footers too; default: the main content, where one stands out"},
			{"start_index", "where to begin, for the next part: `next_index` of the answer before"},
			{"max_chars", "at most so many characters; default 20000"},
			{"links", "lists each place it leads to once, beside the links in the text"},
		},
		at: "/", args: `{}`,
		bad: []wrong{{at: "/", args: `{"selector": "#nothing"}`}},
	},
}
