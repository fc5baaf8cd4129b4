package memory

import (
	"strings"
	"testing"
	"time"
)

// TestUntil: a fact that says its last day in plain words holds to the end of that day, and no
// other words end one.
func TestUntil(t *testing.T) {
	zone := time.FixedZone("here", 2*3600)
	now := time.Date(2026, 11, 30, 9, 30, 0, 0, zone) // a Monday
	for text, day := range map[string]string{
		"the office is closed until tomorrow":                 "2026-12-01",
		"the office is closed till Friday.":                   "2026-12-04",
		"the office is closed until Monday":                   "2026-12-07", // not today
		"the office is closed until Sunday, please":           "2026-12-06",
		"use the other printer until 31 December":             "2026-12-31",
		"use the other printer until the 31st of December":    "2026-12-31",
		"use the other printer until December 31st, 2027":     "2027-12-31",
		"use the other printer until 3 March":                 "2027-03-03",
		"use the other printer until 30 November":             "2026-11-30", // today
		"use the other printer until 2026-12-24":              "2026-12-24",
		"until Friday the office is closed":                   "2026-12-04",
		"until Friday: use the other printer":                 "2026-12-04",
		"das Büro ist bis morgen zu":                          "", // in the middle
		"das Büro bleibt zu bis morgen":                       "2026-12-01",
		"bis Sonnabend ist das Büro zu":                       "2026-12-05",
		"der Code gilt bis zum 31. Dezember":                  "2026-12-31",
		"der Code gilt bis 3. März 2027":                      "2027-03-03",
		"der Code gilt bis zum 31.12.2026":                    "2026-12-31",
		"der Code gilt bis 5.1.":                              "",
		"le bureau est fermé jusqu'à demain":                  "2026-12-01",
		"le bureau est fermé jusqu’à vendredi":                "2026-12-04",
		"le bureau est fermé jusqu'au 1er février":            "2027-02-01",
		"le bureau est fermé jusqu'au 15 août 2027":           "2027-08-15",
		"le bureau est fermé jusqu'au 24/12/2026":             "2026-12-24",
		"la oficina está cerrada hasta mañana":                "2026-12-01",
		"la oficina está cerrada hasta el Miércoles":          "2026-12-02",
		"la oficina está cerrada hasta el 5 de enero":         "2027-01-05",
		"la oficina está cerrada hasta el 5 de julio de 2027": "2027-07-05",

		"the office is open Monday until Friday":      "",
		"das Büro ist offen Mo. bis Freitag":          "",
		"l'agence est ouverte lundi jusqu'à vendredi": "",
		"I worked at Acme until Friday":               "",
		"ich war dort bis Freitag":                    "",
		"the licence holds until 31 December 2019":    "",
		"the licence holds until 31 April":            "",
		"the licence holds until 12/31/2026":          "",
		"the licence holds until 2026-13-01":          "",
		"the office is closed until Friday afternoon": "",
		"use tabs until tomorrow's meeting":           "",
		"the office is closed until May":              "",
		"my label is \"until Friday\"":                "",
		"I never read until fridays":                  "",
		"the office is closed":                        "",
	} {
		want := time.Time{}
		if day != "" {
			d, err := time.ParseInLocation(time.DateOnly, day, zone)
			if err != nil {
				t.Fatal(err)
			}
			want = d.AddDate(0, 0, 1)
		}
		if got := Until(text, now); !got.Equal(want) {
			t.Errorf("%q ends %s, want %s", text, got, want)
		}
	}
	for i, names := range []string{
		"Tuesday Dienstag mardi martes", "Wednesday Mittwoch mercredi miércoles miercoles", "Thursday Donnerstag jeudi jueves",
		"Friday Freitag vendredi viernes", "Saturday Samstag Sonnabend samedi sábado sabado", "Sunday Sonntag dimanche domingo",
		"Monday Montag lundi lunes",
	} {
		for name := range strings.FieldsSeq(names) {
			if got := Until("it holds until "+name, now); !got.Equal(time.Date(2026, 12, 2+i, 0, 0, 0, 0, zone)) {
				t.Errorf("%s ends %s", name, got)
			}
		}
	}
	for i, names := range []string{
		"January Januar Jänner janvier enero", "February Februar février febrero", "March März mars marzo", "April avril abril", "May Mai mayo",
		"June Juni juin junio", "July Juli juillet julio", "August août agosto", "September septembre septiembre", "October Oktober octobre octubre",
		"November novembre noviembre", "December Dezember décembre diciembre",
	} {
		for name := range strings.FieldsSeq(names) {
			if got := Until("it holds until 7 "+name+" 2027", now); !got.Equal(time.Date(2027, time.Month(i+1), 8, 0, 0, 0, 0, zone)) {
				t.Errorf("%s ends %s", name, got)
			}
		}
	}
}

// TestAPlainEndIsAskedFor: what has a plain end is asked to be kept; what holds for now is not.
func TestAPlainEndIsAskedFor(t *testing.T) {
	for message, want := range map[string]string{
		"Remember that the office is closed until tomorrow.":         "the office is closed until tomorrow",
		"Remember until Friday that the office is closed.":           "until Friday that the office is closed",
		"Merk dir, dass das Büro zu bleibt bis morgen.":              "das Büro zu bleibt bis morgen",
		"Merk dir, dass der Code gilt bis zum 31. Dezember.":         "der Code gilt bis zum 31. Dezember",
		"Merk dir, dass der Code gilt bis 3. März 2027. Danke.":      "der Code gilt bis 3. März 2027",
		"Souviens-toi que le bureau est fermé jusqu'à demain.":       "le bureau est fermé jusqu'à demain",
		"Recuerda que la oficina está cerrada hasta mañana.":         "la oficina está cerrada hasta mañana",
		"Remember that the office is closed until tonight.":          "",
		"Remember to use tabs until tomorrow's meeting is over.":     "",
		"Remember that for this answer I want French until tomorrow": "",
	} {
		got := Asked([]Line{{Person, message}})
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0].Text != want) {
			t.Errorf("%q: %+v, want %q", message, got, want)
		}
	}
}
