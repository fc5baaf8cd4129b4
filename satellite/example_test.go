package satellite_test

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"strings"

	"github.com/handrail-dev/handrail/satellite"
)

// A whole satellite: it joins with the code of 'handrail satellite add shout' at its first start,
// and serves until it is ended.
func Example() {
	err := satellite.Run(context.Background(), satellite.Options{
		Name:  "shout",
		Dir:   "/var/lib/shout",
		Paste: os.Getenv("SATELLITE_CODE"),
		Tools: []satellite.Tool{{
			Name:        "text",
			Description: "Writes a text in capitals.",
			ReadOnly:    true,
			Input: json.RawMessage(`{"type":"object","required":["text"],
				"properties":{"text":{"type":"string","maxLength":1000}}}`),
			Run: func(ctx context.Context, c satellite.Call) (satellite.Result, error) {
				var in struct{ Text string }
				if err := json.Unmarshal(c.Args, &in); err != nil {
					return satellite.Result{}, err
				}
				return satellite.Result{Text: strings.ToUpper(in.Text)}, nil
			},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
}
