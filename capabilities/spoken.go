package capabilities

import (
	"strconv"
	"strings"
	"time"
)

// Spoken is a duration as people say it, in whole seconds: "5 min", "1 h 30 min", "45 s". A time of
// more than two days is told in days and hours.
func Spoken(d time.Duration) string {
	if d = d.Round(time.Second); d <= 0 {
		return "0 s"
	}
	var parts []string
	for _, u := range []struct {
		unit, from time.Duration
		name       string
	}{
		{24 * time.Hour, 48 * time.Hour, "days"}, {time.Hour, time.Hour, "h"}, {time.Minute, time.Minute, "min"}, {time.Second, time.Second, "s"},
	} {
		if d < u.from {
			continue
		}
		parts = append(parts, strconv.Itoa(int(d/u.unit))+" "+u.name)
		d %= u.unit
	}
	return strings.Join(parts[:min(len(parts), 2)], " ")
}
