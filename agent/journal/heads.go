package journal

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
)

// maxPeers bounds the gateways whose heads are kept.
const maxPeers = 64

// heads keeps the latest signed head of the journal itself and of each gateway,
// so that a chain that was cut short shows. The file is
// replaced whole; it may lag behind by a second.
type heads struct {
	mu    sync.Mutex
	path  string
	all   map[string]chain.Head // by chain
	dirty bool
}

func (h *heads) load(path string, log *slog.Logger) {
	h.path, h.all = path, map[string]chain.Head{}
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return
	}
	var list []chain.Head
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		log.Warn("journal.heads.unreadable", "path", path, "err", err)
		return
	}
	for _, head := range list[:min(len(list), maxPeers+1)] {
		if err := head.Verify(); err != nil {
			log.Warn("journal.heads.unreadable", "path", path, "chain", head.Chain, "err", err)
			continue
		}
		h.all[head.Chain] = head
	}
}

func (h *heads) get(name string) (chain.Head, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	head, ok := h.all[name]
	return head, ok
}

func (h *heads) put(head chain.Head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[head.Chain] = head
	h.dirty = true
}

func (h *heads) save() error {
	h.mu.Lock()
	if !h.dirty {
		h.mu.Unlock()
		return nil
	}
	list := make([]chain.Head, 0, len(h.all))
	for _, head := range h.all {
		list = append(list, head)
	}
	h.dirty = false
	h.mu.Unlock()
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if err := replaceFile(h.path, data); err != nil {
		h.mu.Lock()
		h.dirty = true
		h.mu.Unlock()
		return err
	}
	return nil
}

// replaceFile makes path hold data, or what it held before.
func replaceFile(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// SetKey changes the key that signs the head from now on: the node's key rotates.
func (j *Journal) SetKey(key ed25519.PrivateKey) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.opts.Key = key
}

// Head is the latest signed head; Seq is 0 until Run has signed one. It covers
// what is on disk only.
func (j *Journal) Head() chain.Head {
	head, _ := j.heads.get(j.opts.Chain)
	return head
}

// KeepGatewayHead keeps the latest head of a gateway's ledger. CodeLedgerCorrupt
// if that ledger is shorter than it was, or another: the earlier head is kept
// then, as the proof.
func (j *Journal) KeepGatewayHead(head chain.Head) error {
	if head.Chain == j.opts.Chain {
		return corrupt("a gateway's head names this node's chain")
	}
	if err := head.Verify(); err != nil {
		return capabilities.Wrap(capabilities.CodeLedgerCorrupt, err, "The gateway's head is not properly signed.")
	}
	h := &j.heads
	h.mu.Lock()
	defer h.mu.Unlock()
	had, ok := h.all[head.Chain]
	if ok {
		if err := had.Follows(head); err != nil {
			return capabilities.Wrap(capabilities.CodeLedgerCorrupt, err, "The gateway's ledger is not a continuation of what it was.")
		}
		if had.Seq == head.Seq && had.Key == head.Key {
			return nil
		}
	} else if len(h.all) > maxPeers {
		return capabilities.Errorf(capabilities.CodeOverloaded, "heads of %d gateways are kept already", maxPeers)
	}
	h.all[head.Chain] = head
	h.dirty = true
	return nil
}

// GatewayHead returns the head kept for a gateway.
func (j *Journal) GatewayHead(name string) (chain.Head, bool) { return j.heads.get(name) }

// SetHeadsAside keeps what heads of gateways are known in a file of that generation of the site,
// and goes on without them: the ledger of a site that was restored from a backup ends before what
// it was. The file is the proof of what there was.
func (j *Journal) SetHeadsAside(generation uint64) error {
	h := &j.heads
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []chain.Head
	for name, head := range h.all {
		if name != j.opts.Chain {
			list = append(list, head)
		}
	}
	if len(list) == 0 {
		return nil
	}
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if err := replaceFile(fmt.Sprintf("%s.before-%d", h.path, generation), data); err != nil {
		return err
	}
	for _, head := range list {
		delete(h.all, head.Chain)
	}
	h.dirty = true
	return nil
}
