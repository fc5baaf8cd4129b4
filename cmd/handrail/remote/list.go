package remote

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

// DecodeAll turns the raw objects of a list into values for the printed form.
func DecodeAll[T any](raw []json.RawMessage) ([]T, error) {
	all := make([]T, len(raw))
	for i, r := range raw {
		if err := json.Unmarshal(r, &all[i]); err != nil {
			return nil, fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
		}
	}
	return all, nil
}

// Listed fetches a list; done says that it was printed as it came, for --json.
func Listed[T any](cmd *cobra.Command, c *Gateway, path, field string) (all []T, done bool, err error) {
	raw, err := c.List(cmd, path, field)
	if err != nil {
		return nil, false, err
	}
	if terminal.FlagsOf(cmd).JSON {
		return nil, true, terminal.PrintItems(cmd.OutOrStdout(), raw)
	}
	all, err = DecodeAll[T](raw)
	return all, false, err
}

// List fetches path and returns the raw objects under field.
func (c *Gateway) List(cmd *cobra.Command, path, field string) ([]json.RawMessage, error) {
	var answer map[string]json.RawMessage
	if err := c.Get(cmd.Context(), path, &answer); err != nil {
		return nil, err
	}
	var items []json.RawMessage
	if raw := answer[field]; len(raw) > 0 {
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil, fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
		}
	}
	return items, nil
}
