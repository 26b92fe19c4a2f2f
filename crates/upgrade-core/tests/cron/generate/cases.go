package main

// A group is a set of rows: each expression in each zone from each start.
type group struct {
	expressions []string
	zones       []string
	from        []string
}

// Changes of the clock that are in the table, in UTC. They are in the past, so that newer
// time zones have them too.
//
//	Europe/Berlin        2023-03-26 01:00 forward, 2023-10-29 01:00 back
//	America/New_York     2023-03-12 07:00 forward, 2023-11-05 06:00 back
//	Australia/Lord_Howe  2023-04-01 15:00 back by half an hour, 2023-09-30 15:30 forward
//	Africa/Cairo         2023-04-27 22:00 forward at midnight
//	America/Havana       2023-03-12 05:00 forward at midnight
//	America/Santiago     2023-04-02 03:00 back at midnight, 2023-09-03 04:00 forward
var groups = []group{
	{ // The grammar of each field.
		expressions: []string{
			"* * * * *", "? ? ? ? ?", "*/15 * * * *", "*/7 */5 * * *", "7/20 * * * *",
			"10-40/10 * * * *", "10-12,50,55-57/2 3 * * *", "0 22/1 * * *", "59 23 * * *",
			"0 0,12 1 */2 *", "5 4 * * sun", "0 8-18/5 * * MON-fri", "0 0 1 JAN,Jul ?",
			"0 0 * jan-mar tue", "0 0 31 * *", "0 0 30 */2 *", "*/1 0 * * *", "?/30 0 * * *",
			"0 0 ? * 6", "0 0 1-7 * *", "  0   0\t1 1 *  ", "*/59 * * * *", "*/60 * * * *",
			"*/9223372036854775807 1 * * *", "+5 007 * * *", "0,,30 * * * *", ",5, 1 * * *",
			"*-5 1 * * *", "?-x-y/20 1 * * *", "0-59 0 1 1 *", "0 0 1-31 * 0-6",
		},
		zones: []string{"UTC"},
		from:  []string{"2026-01-01T00:00:00Z", "2026-05-30T23:59:59.999999999Z"},
	},
	{ // Never true, or not within five years.
		expressions: []string{
			"0 0 31 2 *", "0 0 30 feb *", "0 0 31 2,4,6,9,11 *", ", * * * *", "* , * * *",
			"* * , * *", "* * * , *", "* * * * ,", "* * , * ,", "* * , * mon",
		},
		zones: []string{"UTC"},
		from:  []string{"2026-01-01T00:00:00Z"},
	},
	{ // Leap days. 2100 has none, so some starts find none within five years.
		expressions: []string{"0 0 29 2 *", "0 12 29 feb sun", "0 0 29 2 */2", "0 0 28-31 2 *"},
		zones:       []string{"UTC"},
		from: []string{
			"2026-01-01T00:00:00Z", "2028-02-28T23:59:59Z", "2028-02-29T00:00:00Z",
			"2095-12-31T00:00:00Z", "2096-03-01T00:00:00Z", "2098-12-31T00:00:00Z",
			"2099-01-01T00:00:00Z",
		},
	},
	{ // Stars: both days have to match if there is one, else one is enough.
		expressions: product(
			[]string{"*", "?", "*/1", "*/2", "?/10", "13", "1-31", "1,*", ","},
			[]string{"*", "?", "*/1", "*/3", "fri", "0-6", "5,?", ","},
		),
		zones: []string{"UTC"},
		from:  []string{"2026-02-10T12:34:56Z"},
	},
	{ // Words.
		expressions: []string{
			"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly",
		},
		zones: []string{"UTC", "Europe/Berlin"},
		from:  []string{"2023-03-25T22:15:00Z", "2023-12-31T23:59:59.5Z"},
	},
	{ // Durations.
		expressions: []string{
			"@every 1h", "@every 1h30m", "@every 1.5h", "@every 90s", "@every .5m", "@every 2.m",
			"@every 1500ms", "@every 1ns", "@every 0", "@every 0s", "@every -1h", "@every +1m",
			"@every 1m1m", "@every 3000000us", "@every 3000000µs", "@every 3000000μs",
			"@every 999999999ns", "@every 1.999999999s", "@every 1.99999999999999999s",
			"@every 0.1h0.1m0.1s", "@every 0.000277777777777777778h",
			"@every 1.99999999999999999999999999999s", "@every 24h", "@every 17520h",
			"@every -2562047h47m16.854775808s", "TZ=Europe/Berlin @every 1h",
		},
		zones: []string{"UTC"},
		from:  []string{"2023-03-26T00:30:00Z", "2023-03-26T00:30:00.25Z"},
	},
	{ // Zones in the expression.
		expressions: []string{
			"TZ=America/New_York 30 3 * * *", "CRON_TZ=Asia/Kathmandu 0 3 * * *",
			"TZ=  0 3 * * *", "TZ=UTC 0 3 * * *", "TZ=US/Pacific @daily", "TZ=Etc/GMT+5 @daily ",
			"CRON_TZ=UTC   @weekly", "TZ=Local 0 3 * * *", "TZ=Pacific/Chatham 0 3 * * mon",
		},
		zones: []string{"UTC", "Europe/Berlin"},
		from:  []string{"2023-07-01T00:00:00Z"},
	},
	{
		expressions: clock, zones: []string{"Europe/Berlin"},
		from: []string{
			"2023-03-24T12:00:00Z", "2023-03-26T00:30:00Z", "2023-03-26T00:59:59Z",
			"2023-10-28T12:00:00Z", "2023-10-29T00:15:00Z", "2023-10-29T01:15:00Z",
		},
	},
	{
		expressions: clock, zones: []string{"America/New_York"},
		from: []string{
			"2023-03-11T12:00:00Z", "2023-03-12T06:30:00Z", "2023-03-12T06:59:59Z",
			"2023-11-04T12:00:00Z", "2023-11-05T05:15:00Z", "2023-11-05T06:15:00Z",
		},
	},
	{
		expressions: clock, zones: []string{"Australia/Lord_Howe"},
		from: []string{
			"2023-03-31T12:00:00Z", "2023-04-01T14:45:00Z", "2023-04-01T15:10:00Z",
			"2023-09-29T12:00:00Z", "2023-09-30T15:15:00Z", "2023-09-30T15:30:00Z",
		},
	},
	{ // Days that begin at 1:00, and one that has 23:00 twice.
		expressions: []string{
			"0 0 * * *", "30 0 * * *", "0 5 * * fri", "0 5 * * sun", "0 1 */2 * *", "0 23 * * sat",
		},
		zones: []string{"Africa/Cairo", "America/Havana", "America/Santiago"},
		from: []string{
			"2023-03-10T12:00:00Z", "2023-03-31T12:00:00Z", "2023-04-25T12:00:00Z",
			"2023-08-31T12:00:00Z",
		},
	},
	{ // A month that began at 1:00: its first days are passed over.
		expressions: []string{"0 3 * oct *", "0 3 1-3 10 *"},
		zones:       []string{"America/Asuncion"}, from: []string{"2023-08-15T00:00:00Z"},
	},
}

// What a change of the clock has an effect on.
var clock = []string{
	"30 2 * * *", "30 1 * * *", "0 2 * * *", "0 3 * * *", "15 2 * * sun", "*/30 * * * *",
	"0 * * * *", "0 1-3 * * *", "45 1,2 * * *",
}

// What has to be refused.
var refused = []string{
	"", " ", "* * * *", "* * * * * *", "0 0 0 1 1 *", "60 * * * *", "* 24 * * *", "* * 0 * *",
	"* * 32 * *", "* * * 0 *", "* * * 13 *", "* * * * 7", "* * * * 0-7", "* * * * sun-7",
	"* * * * fri-mon", "* * * * sat-sun", "* * * dec-jan *", "30-10 * * * *", "5-1/2 * * * *",
	"*/0 * * * *", "*/-2 * * * *", "*/-0 * * * *", "*/x * * * *", "*/ * * * *", "*/1.5 * * * *",
	"/5 * * * *", "*/5/2 * * * *", "1-2-3 * * * *", "-5 * * * *", "5- * * * *", "- * * * *",
	"1.5 * * * *", "1_0 * * * *", "0x1 * * * *", "99999999999999999999 * * * *",
	"*/9223372036854775808 * * * *", "70/5 * * * *", "** * * * *", "*5 * * * *", "*,x * * * *",
	"* * mon * *", "* * * mon *", "* * * * jan", "jan * * * *", "* * * january *", "* * * * sunday",
	"* * * */jan *", "* * L * *", "* * 15W * *", "* * * * 1#2", "* * * * 5L", "H * * * *",
	"@Daily", "@DAILY", "@reboot", "@", "@daily ", " @daily", "@daily x", "@every", "@every ",
	"@every x", "@every 1", "@every 1d", "@every 1H", "@every  1h", "@every 1h ", "@every 1h 30m",
	"@every h", "@every .s", "@every --1h", "@every 1.2.3s", "@every 2562048h", "@every 1e3s",
	"@every 2562047h47m16.854775808s", "@every 99999999999999999999h", "@Every 1h", "@every\t1h",
	"TZ=UTC", "TZ=", "CRON_TZ=Europe/Oslo", "TZ=UTC ", "TZ=Nowhere/City * * * * *",
	"TZ=europe/oslo * * * * *", "TZ=utc * * * * *", "TZ=../UTC * * * * *", "TZ=/UTC * * * * *",
	"TZ=Etc/Unknown * * * * *", " TZ=UTC * * * * *", "tz=UTC * * * * *", "TZ=UTC\t* * * * *",
	"TZ=UTC TZ=UTC * * * * *", "TZ=UTC * * * *", "TZ=+02:00 * * * * *",
}

// product combines days of the month and of the week.
func product(days, weekdays []string) (expressions []string) {
	for _, day := range days {
		for _, weekday := range weekdays {
			expressions = append(expressions, "0 6 "+day+" * "+weekday)
		}
	}
	return expressions
}
