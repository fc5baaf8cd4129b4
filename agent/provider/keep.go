package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// kept is what lies on disk of one provider: NAME.json in the node's folder.
type kept struct {
	Version  int                 `json:"version"`
	Record   tools.Provider      `json:"record"`
	Manifest *tools.ToolManifest `json:"manifest,omitempty"`
	Approved map[string]string   `json:"approved,omitempty"` // upstream name: hash
}

const keptVersion = 1

// keeper writes records, whole or not at all.
type keeper struct{ root *os.Root }

func (k keeper) all() ([]kept, error) {
	dir, err := fs.ReadDir(k.root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var list []kept
	for _, e := range dir {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		data, err := k.root.ReadFile(e.Name())
		if err != nil {
			return nil, err
		}
		var one kept
		if err := json.Unmarshal(data, &one); err != nil {
			return nil, fmt.Errorf("the record of the provider %s: %w", name, err)
		}
		if one.Version != keptVersion || one.Record.Name != name {
			return nil, fmt.Errorf("the record of the provider %s is of another version or provider", name)
		}
		list = append(list, one)
	}
	return list, nil
}

func (k keeper) put(one kept) error {
	one.Version = keptVersion
	data, err := json.Marshal(one)
	if err != nil {
		return err
	}
	name := one.Record.Name + ".json"
	f, err := k.root.OpenFile(name+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, k.root.Remove(name+".new"))
	}
	return k.root.Rename(name+".new", name)
}

func (k keeper) drop(name string) error {
	err := k.root.Remove(name + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
