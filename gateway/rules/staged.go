package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// Read returns every *.cedar file of a folder, sorted by name. A folder that does not exist is
// fs.ErrNotExist.
func Read(dir string) ([]policy.Source, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	sources := []policy.Source{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".cedar") || e.IsDir() {
			continue
		}
		info, err := root.Stat(e.Name())
		if err != nil {
			return nil, fmt.Errorf("policy: %w", err)
		}
		if info.Size() > policy.MaxSourceBytes || len(sources) >= policy.MaxSources {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "policy: %s is larger than %d bytes, or one file of more than %d",
				e.Name(), policy.MaxSourceBytes, policy.MaxSources)
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

// staged reads the folder; one that does not exist yet gets the shipped default, so
// that the policy in force is a file that a person can read.
func (b *Book) staged() ([]policy.Source, error) {
	sources, err := Read(b.opts.Dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return sources, err
	}
	if err := os.MkdirAll(b.opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if err := os.WriteFile(filepath.Join(b.opts.Dir, policy.DefaultName), policy.DefaultSource(), 0o600); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return Read(b.opts.Dir)
}
