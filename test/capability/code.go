package capability

func code() []*Behaviour { return nil }
