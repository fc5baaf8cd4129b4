package browser

// For tests: the words that behaviours are written in.
var (
	B     = b
	HTML  = html
	Do    = call
	Holds = holds
	In    = in
)

// Try makes these the behaviours of a run.
func (o *Options) Try(list ...*behaviour) {
	o.of, o.Behaviours = list, nil
	for _, b := range list {
		o.Behaviours = append(o.Behaviours, &b.Behaviour)
	}
}

// Once fails the first time only.
func Once() step {
	failed := false
	return func(r *run) {
		if !failed {
			failed = true
			r.Fail("the first time")
		}
	}
}
