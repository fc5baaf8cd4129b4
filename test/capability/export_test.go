package capability

// For tests: the words that behaviours are written in.
var (
	B     = b
	HTML  = html
	Do    = call
	Holds = holds
	In    = in
)

// Once fails the first time only.
func Once() step {
	failed := false
	return func(r *run) {
		if !failed {
			failed = true
			r.fail("the first time")
		}
	}
}

// HopsOf gives the hops of the first call of that tool.
func (t *Trace) HopsOf(tool string) []hop {
	for _, c := range t.Calls {
		if c.Tool == tool {
			return c.Hops
		}
	}
	return nil
}

// CheckTrace is what every trace has to pass.
var CheckTrace = checkTrace
