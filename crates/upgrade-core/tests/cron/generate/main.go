// Command generate writes the table that the schedules of upgrade-core are compared with:
// what robfig/cron v3, the library behind Kubernetes' CronJobs, makes of many expressions.
//
//	cd crates/upgrade-core/tests/cron/generate && go run . > ../robfig.json
//
// It writes the same table each time: the random rows have a fixed seed.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand"
	"os"
	"strings"
	"time"
	_ "time/tzdata" // For machines without a time zone database.

	"github.com/robfig/cron/v3"
)

// How many times of each schedule are in the table.
const times = 5

// A row of the table.
type row struct {
	Cron string `json:"cron"`
	// The zone of an expression that names none.
	Zone string `json:"zone,omitempty"`
	From string `json:"from,omitempty"`
	// Fewer than five: there are no more.
	Next []string `json:"next,omitempty"`
	// The library's reason for refusing the expression.
	Refused string `json:"refused,omitempty"`
}

func main() {
	count := flag.Int("random", 150, "how many random rows")
	seed := flag.Int64("seed", 20261121, "which random rows")
	flag.Parse()

	var rows []row
	for _, group := range groups {
		for _, expression := range group.expressions {
			for _, zone := range group.zones {
				for _, from := range group.from {
					rows = append(rows, ask(expression, zone, from))
				}
			}
		}
	}
	for _, expression := range refused {
		row := ask(expression, "UTC", "2026-01-01T00:00:00Z")
		if row.Refused == "" {
			log.Fatalf("%q is not refused", expression)
		}
		rows = append(rows, row)
	}
	random := rand.New(rand.NewSource(*seed))
	for range *count {
		rows = append(rows, ask(randomCase(random)))
	}
	write(rows)
}

// ask makes the library answer: the next times, or why it refuses the expression.
func ask(expression, zone, from string) (answer row) {
	defer func() {
		// A zone without a space after it makes the library panic.
		if reason := recover(); reason != nil {
			answer = row{Cron: expression, Refused: fmt.Sprint(reason)}
		}
	}()
	schedule, err := cron.ParseStandard(expression)
	if err != nil {
		return row{Cron: expression, Refused: err.Error()}
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		log.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339Nano, from)
	if err != nil {
		log.Fatal(err)
	}
	answer = row{Cron: expression, Zone: zone, From: from}
	at = at.In(location)
	for range times {
		if at = schedule.Next(at); at.IsZero() {
			break
		}
		answer.Next = append(answer.Next, at.UTC().Format(time.RFC3339Nano))
	}
	return answer
}

// write prints the rows as a JSON array with a line for each.
func write(rows []row) {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for i, row := range rows {
		var line strings.Builder
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(row); err != nil {
			log.Fatal(err)
		}
		before := ","
		if i == 0 {
			before = "["
		}
		fmt.Fprintf(out, "%s%s\n", before, strings.TrimSpace(line.String()))
	}
	fmt.Fprintln(out, "]")
}
