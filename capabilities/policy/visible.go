package policy

// Visible is the rule for every action of every surface (S1-33): there if it is
// declared, policy allows it, and it maps to something that carries it out. Pages
// show a control by it, lists a tool, and what it hides the API refuses by it.
func Visible(declared, allowed, mapped bool) bool { return declared && allowed && mapped }
