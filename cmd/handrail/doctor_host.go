package main

import "context"

// hostFindings looks at this host, without changing it.
func hostFindings(context.Context, string) []finding { return nil }
