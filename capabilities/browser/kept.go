package browser

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// A thing that outlives a lane belongs to the principal that made it: a name means that
// principal's own and nobody else's, so whether another has it cannot be found out. Only
// the owner's list makes a name one thing for several.

// kind is a sort of what is kept below Options.StateDir.
type kind struct{ folder, suffix string }

var (
	profiles = kind{"profiles", ""}
	states   = kind{"states", ".json"}
)

// readShared checks the owner's list.
func readShared(list map[string][]capabilities.PrincipalID) error {
	for name, who := range list {
		if !stateName.MatchString(name) || len(who) == 0 {
			return fmt.Errorf(
				"browser: shared profile %q: want a name of 1 to 64 lowercase letters, digits, hyphens or underscores, and who shares it", name)
		}
	}
	return nil
}

// kept returns where the principal's own of that name lies, or the shared one.
func (h *Handler) kept(k kind, who capabilities.PrincipalID, name string) (string, error) {
	shared := slices.Contains(h.o.Shared[name], who)
	dir := h.home(who)
	if shared {
		dir = filepath.Join(h.o.StateDir, "shared")
	}
	path, err := filepath.Abs(filepath.Join(dir, k.folder, name+k.suffix))
	if err != nil {
		return "", err
	}
	h.adopting.Lock()
	defer h.adopting.Unlock()
	h.adoptLocked()
	before := filepath.Join(h.o.StateDir, k.folder, name+k.suffix)
	switch {
	case !exists(before) && !exists(before+".old") || exists(path):
		return path, nil
	case shared:
		return path, move(before, path)
	}
	return "", errNobodys
}

// adoptLocked returns, once, what was kept before names were anybody's to the only principal
// that can have made it. h.adopting is held.
func (h *Handler) adoptLocked() {
	if h.adopted || h.o.SoleUser == nil {
		return
	}
	h.adopted = true
	for _, k := range []kind{profiles, states} {
		from := filepath.Join(h.o.StateDir, k.folder)
		entries, err := os.ReadDir(from)
		if err != nil || len(entries) == 0 {
			continue
		}
		who, known := h.o.SoleUser()
		if !known {
			return
		}
		for _, e := range entries {
			name, ok := strings.CutSuffix(strings.TrimSuffix(e.Name(), ".old"), k.suffix)
			if !ok || !stateName.MatchString(name) || h.o.Shared[name] != nil {
				continue
			}
			if err := move(filepath.Join(from, name+k.suffix), filepath.Join(h.home(who), k.folder, name+k.suffix)); err != nil {
				h.log.Error("browser.kept.adopt", "kind", k.folder, "name", name, "err", err)
			}
		}
		h.log.Info("browser.kept.adopted", "kind", k.folder, "principal", who)
	}
}

// move takes what is kept from one place to another, with what a power cut left of it.
func move(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	for _, part := range []string{"", ".old"} {
		if err := os.Rename(from+part, to+part); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// home is the folder of what a principal keeps.
func (h *Handler) home(who capabilities.PrincipalID) string {
	sum := sha256.Sum256([]byte(who))
	return filepath.Join(h.o.StateDir, "principals", hex.EncodeToString(sum[:16]))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

var errNobodys = capabilities.Errorf(capabilities.CodeDeniedByNode,
	"This node keeps something under that name from before names belonged to those who made them, and does not know whose it is.").
	WithHint(
		"Use another name; or the node's owner says whose it is: in node.json, \"browser\": {\"shared_profiles\": {\"NAME\": [\"PRINCIPAL\"]}}.")
