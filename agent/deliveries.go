package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/handrail-dev/handrail/agent/withhold"
	"github.com/handrail-dev/handrail/pairing"
)

// deliveriesFile names to whom secrets were delivered in lanes that have not ended; it
// holds no value and nothing made of one.
const deliveriesFile = "deliveries.json"

type deliveries struct {
	Version int             `json:"version"`
	Open    []withhold.Open `json:"open"`
}

// readDeliveries returns what was open when the node ended last. An unreadable record is an error:
// without it a secret on the screen would be told.
func readDeliveries(path string) ([]withhold.Open, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var d deliveries
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err == nil && d.Version != 1 {
		err = fmt.Errorf("version %d is not known", d.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("deliveries of secrets, %s: %w; remove the file when nothing of a secret is on this device's screen", path, err)
	}
	return d.Open, nil
}

// keepDeliveries writes what is open whole or not at all.
func keepDeliveries(path string) func([]withhold.Open) error {
	return func(open []withhold.Open) error {
		data, err := json.Marshal(deliveries{1, open})
		if err != nil {
			return err
		}
		return pairing.SaveFile(path, append(data, '\n'))
	}
}
