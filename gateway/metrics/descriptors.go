package metrics

// Descriptors is how many descriptors the process may have open; 0: nobody says.
func Descriptors() int {
	most, _ := maxDescriptors()
	return int(min(most, 1<<30))
}
