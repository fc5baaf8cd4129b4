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
	Real     map[string]string   `json:"real,omitempty"`     // folder: where it led when it was added
}

const keptVersion = 1

// keeper writes records, whole or not at all.
type keeper struct{ root *os.Root }

// all reads the records. Those that cannot be read are in broken: the others, and the node, do
// without them.
func (k keeper) all() (list []kept, broken []error, err error) {
	dir, err := fs.ReadDir(k.root.FS(), ".")
	if err != nil {
		return nil, nil, err
	}
	for _, e := range dir {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		one, err := k.one(name)
		if err != nil {
			broken = append(broken, fmt.Errorf("the record of the provider %s: %w", name, err))
			continue
		}
		list = append(list, one)
	}
	return list, broken, nil
}

func (k keeper) one(name string) (one kept, err error) {
	data, err := k.root.ReadFile(name + ".json")
	if err != nil {
		return one, err
	}
	if err := json.Unmarshal(data, &one); err != nil {
		return one, err
	}
	if one.Version != keptVersion || one.Record.Name != name {
		return one, errors.New("it is of another version or provider")
	}
	return one, nil
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
	if err := k.root.Rename(name+".new", name); err != nil {
		return err
	}
	k.sync()
	return nil
}

func (k keeper) drop(name string) error {
	err := k.root.Remove(name + ".json")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	k.sync()
	return nil
}

// sync makes a rename or removal durable. Where folders cannot be synced (Windows), it is the
// system's own affair.
func (k keeper) sync() {
	if dir, err := k.root.Open("."); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
}
