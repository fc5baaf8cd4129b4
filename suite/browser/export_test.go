package browser

// For tests: a word that behaviours are written in.
var In = in

// Try makes these the behaviours of a run.
func (o *Options) Try(list ...*behaviour) {
	o.Of, o.Behaviours = list, nil
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
