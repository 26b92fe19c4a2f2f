package main

import (
	"fmt"
	"math/rand"
	"strings"
	"time"
)

// Zones that change the clock at different times of the day, and some that do not.
var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns",
	"Pacific/Chatham", "Africa/Cairo", "America/Havana", "America/Santiago", "Asia/Kolkata",
	"Antarctica/Troll",
}

// Days around which the zones above change the clock. In the past, see cases.go.
var changes = []string{
	"2019-03-09", "2019-03-30", "2019-04-06", "2019-09-07", "2019-09-28", "2019-10-05",
	"2019-10-26", "2019-11-02",
}

// randomCase returns an expression, a zone and a start.
func randomCase(random *rand.Rand) (expression, zone, from string) {
	fields := []string{
		field(random, 0, 59, nil),
		field(random, 0, 23, nil),
		field(random, 1, 31, nil),
		field(random, 1, 12, months),
		field(random, 0, 6, weekdays),
	}
	start, err := time.Parse(time.DateOnly, changes[random.Intn(len(changes))])
	if err != nil {
		panic(err)
	}
	start = start.Add(time.Duration(random.Int63n(int64(48 * time.Hour)))).Truncate(time.Second)
	zone = zones[random.Intn(len(zones))]
	return strings.Join(fields, " "), zone, start.Format(time.RFC3339)
}

var months = []string{
	"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
}
var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// field returns a field: mostly a star, else one to three ranges.
func field(random *rand.Rand, low, high int, names []string) string {
	if random.Intn(2) == 0 {
		return []string{"*", "*", "*", "?"}[random.Intn(4)]
	}
	var parts []string
	for range 1 + random.Intn(3) {
		parts = append(parts, part(random, low, high, names))
	}
	return strings.Join(parts, ",")
}

func part(random *rand.Rand, low, high int, names []string) string {
	first := low + random.Intn(high-low+1)
	last := first + random.Intn(high-first+1)
	step := 1 + random.Intn(high-low+1)
	switch random.Intn(5) {
	case 0:
		return fmt.Sprintf("%d-%d", first, last)
	case 1:
		return fmt.Sprintf("%d-%d/%d", first, last, step)
	case 2:
		return fmt.Sprintf("*/%d", step)
	case 3:
		if names != nil {
			return names[first-low]
		}
		return fmt.Sprintf("%d/%d", first, step)
	default:
		return fmt.Sprint(first)
	}
}
