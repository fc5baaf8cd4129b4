package record

// ring holds the newest entries of a record, numbered from 1 for the life of the
// tab. It is not safe for concurrent use.
type ring[T any] struct {
	max     int
	first   int64 // number of entries[0]; 0 while nothing was ever pushed
	entries []T
}

// push appends v and returns its number; over max, the oldest goes.
func (r *ring[T]) push(v T) (seq int64) {
	if r.first == 0 {
		r.first = 1
	}
	if len(r.entries) >= r.max {
		r.drop() // append copies what is left once the array is used up
	}
	r.entries = append(r.entries, v)
	return r.last()
}

// drop forgets the oldest entry and returns it.
func (r *ring[T]) drop() (v T) {
	if len(r.entries) > 0 {
		v = r.entries[0]
		var none T
		r.entries[0] = none
		r.entries = r.entries[1:]
		r.first++
	}
	return v
}

// last is the number of the newest entry, 0 if there was none.
func (r *ring[T]) last() int64 {
	if r.first == 0 {
		return 0
	}
	return r.first + int64(len(r.entries)) - 1
}

// get returns the entry with that number.
func (r *ring[T]) get(seq int64) (v T, ok bool) {
	if i := seq - r.first; r.first > 0 && i >= 0 && i < int64(len(r.entries)) {
		return r.entries[i], true
	}
	return v, false
}

// clear forgets the entries; numbers go on.
func (r *ring[T]) clear() {
	if r.first > 0 {
		r.first += int64(len(r.entries))
	}
	r.entries = nil
}

// each calls f with the entries after since, oldest first.
func (r *ring[T]) each(since int64, f func(seq int64, v T)) {
	for i, v := range r.entries {
		if seq := r.first + int64(i); seq > since {
			f(seq, v)
		}
	}
}
