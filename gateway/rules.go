package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// defaultRules is the name of the shipped policy file.
const defaultRules = "default.cedar"

// loadRules reads every *.cedar file of dir. A folder that does not exist yet
// gets the shipped default, so that the policy in force is always a file that a
// person can read; a folder that exists is taken as it is.
func loadRules(dir string, cat *catalog.Catalog) (*policy.Engine, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("policy: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, defaultRules), policy.DefaultSource(), 0o600); err != nil {
			return nil, fmt.Errorf("policy: %w", err)
		}
		root, err = os.OpenRoot(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	defer root.Close()
	sources, err := readRules(root)
	if err != nil {
		return nil, err
	}
	return policy.Load(sources, cat)
}

func readRules(root *os.Root) ([]policy.Source, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	var sources []policy.Source
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".cedar") || e.IsDir() {
			continue
		}
		info, err := root.Stat(e.Name())
		if err != nil {
			return nil, fmt.Errorf("policy: %w", err)
		}
		if info.Size() > policy.MaxSourceBytes {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "policy: %s is larger than %d bytes", e.Name(), policy.MaxSourceBytes)
		}
		data, err := root.ReadFile(e.Name())
		if err != nil {
			return nil, fmt.Errorf("policy: %w", err)
		}
		sources = append(sources, policy.Source{Name: e.Name(), Data: data})
	}
	sort.Slice(sources, func(i, j int) bool { return sources[i].Name < sources[j].Name })
	return sources, nil
}
