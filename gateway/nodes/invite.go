package nodes

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

const (
	defaultTTL = 10 * time.Minute
	maxTTL     = 366 * 24 * time.Hour
	maxUses    = 10_000
	maxInvites = 10_000
	// keepInvites is how long an invitation that ended stays, to name who used it.
	keepInvites = 90 * 24 * time.Hour
	maxUsedBy   = 16 // named in a list; the roster has them all
)

// InviteSpec is what a new invitation is to be. With Uses above one it is an
// enrolment key for a fleet.
type InviteSpec struct {
	By          capabilities.PrincipalID
	Label       string
	Trust       string
	Allow       []string // as in Approval
	Labels      []string
	AutoApprove bool          // no person confirms who joined
	TTL         time.Duration // default 10 min, at most 366 days
	Uses        int           // default 1
}

// Invite is an invitation without its secret.
type Invite struct {
	ID          pairing.InviteID
	Label       string
	Trust       string
	Allow       []string
	Labels      []string
	AutoApprove bool
	Uses        int
	Used        int
	CreatedAt   time.Time
	CreatedBy   capabilities.PrincipalID
	ExpiresAt   time.Time
	Withdrawn   bool
	UsedBy      []InviteUse // the newest 16

	proof pairing.ProofKey
}

// InviteUse says who came in by an invitation.
type InviteUse struct {
	Node        capabilities.NodeID
	Host        string
	Platform    string
	Fingerprint string
	At          time.Time
}

func (u InviteUse) String() string {
	who := "node " + string(u.Node)
	if u.Host != "" {
		who += " (" + u.Host
		if u.Platform != "" {
			who += ", " + u.Platform
		}
		who += ")"
	}
	return who + " at " + u.At.UTC().Format("2006-01-02 15:04:05 MST")
}

// Invite makes an invitation. The paste is given this once; what is kept cannot
// be turned back into it.
func (n *Nodes) Invite(ctx context.Context, spec InviteSpec) (Invite, pairing.Paste, error) {
	inv, err := n.newInvite(spec)
	if err != nil {
		return Invite{}, pairing.Paste{}, err
	}
	if _, err := n.Listen(ctx); err != nil { // the addresses come from the listener
		return Invite{}, pairing.Paste{}, capabilities.AsError(err)
	}
	paste := pairing.Paste{Addrs: n.opts.Advertise(), Site: n.opts.Site.ID(), Secret: pairing.NewSecret()}
	if _, err := paste.Encode(); err != nil {
		return Invite{}, pairing.Paste{}, err
	}
	inv.ID = paste.Secret.Invite()
	err = n.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`DELETE FROM invite WHERE expires_at < $1`, millis(inv.CreatedAt.Add(-keepInvites))); err != nil {
			return err
		}
		var count int
		if err := tx.QueryRow(`SELECT COUNT(*) FROM invite`).Scan(&count); err != nil {
			return err
		}
		if count >= maxInvites {
			return capabilities.Errorf(capabilities.CodeOverloaded, "there are %d invitations already", count)
		}
		_, err := tx.Exec(
			`INSERT INTO invite (invite_id, proof_key, label, trust, labels, allow, approves, uses, used, created_at, created_by, expires_at, withdrawn)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9, $10, $11, 0)`,
			string(inv.ID), paste.Secret.ProofKey().Seal(), inv.Label, inv.Trust, toJSON(inv.Labels), toJSON(inv.Allow), inv.AutoApprove, inv.Uses,
			millis(inv.CreatedAt), string(inv.CreatedBy), millis(inv.ExpiresAt))
		if err != nil {
			return err
		}
		return n.opts.Record(tx, "node.invited", "", packet.Invite{
			ID: string(inv.ID), Label: inv.Label, Trust: inv.Trust, Allow: inv.Allow, Labels: inv.Labels, AutoApprove: inv.AutoApprove,
			Uses: inv.Uses, Used: inv.Used, CreatedAt: inv.CreatedAt, CreatedBy: inv.CreatedBy, ExpiresAt: inv.ExpiresAt,
		})
	})
	if err != nil {
		return Invite{}, pairing.Paste{}, capabilities.AsError(err)
	}
	return inv, paste, nil
}

func (n *Nodes) newInvite(spec InviteSpec) (Invite, error) {
	bad := func(format string, args ...any) (Invite, error) {
		return Invite{}, capabilities.Errorf(capabilities.CodeInvalidRequest, format, args...)
	}
	if spec.TTL == 0 {
		spec.TTL = defaultTTL
	}
	if spec.Uses == 0 {
		spec.Uses = 1
	}
	if spec.TTL < time.Second || spec.TTL > maxTTL {
		return bad("the time to live must be 1 second to %d days", maxTTL/(24*time.Hour))
	}
	if spec.Uses < 1 || spec.Uses > maxUses {
		return bad("uses must be 1 to %d", maxUses)
	}
	allow, err := cleanAllow(spec.Allow)
	if err != nil {
		return Invite{}, err
	}
	labels, err := cleanLabels(spec.Labels)
	if err != nil {
		return Invite{}, err
	}
	for what, s := range map[string]string{"label": spec.Label, "trust": spec.Trust} {
		if err := checkText(what, s); err != nil {
			return Invite{}, err
		}
	}
	now := n.opts.Now()
	return Invite{
		Label: spec.Label, Trust: spec.Trust, Allow: allow, Labels: labels, AutoApprove: spec.AutoApprove, Uses: spec.Uses,
		CreatedAt: now, CreatedBy: spec.By, ExpiresAt: now.Add(spec.TTL),
	}, nil
}

const inviteColumns = `invite_id, proof_key, label, trust, labels, allow, approves, uses, used, created_at, created_by, expires_at, withdrawn`

func scanInvite(scan func(...any) error) (*Invite, error) {
	var inv Invite
	var proof []byte
	var labels, allow string
	var created, expires int64
	err := scan(&inv.ID, &proof, &inv.Label, &inv.Trust, &labels, &allow, &inv.AutoApprove, &inv.Uses, &inv.Used, &created, &inv.CreatedBy,
		&expires, &inv.Withdrawn)
	if err != nil {
		return nil, err
	}
	if inv.proof, err = pairing.OpenProofKey(proof); err != nil {
		return nil, err
	}
	inv.CreatedAt, inv.ExpiresAt = fromMillis(created), fromMillis(expires)
	return &inv, errors.Join(json.Unmarshal([]byte(labels), &inv.Labels), json.Unmarshal([]byte(allow), &inv.Allow))
}

// Invites lists the invitations, newest first, with who used them.
func (n *Nodes) Invites(ctx context.Context) ([]Invite, error) {
	rows, err := n.opts.Store.Read().QueryContext(ctx, `SELECT `+inviteColumns+` FROM invite ORDER BY created_at DESC, invite_id`)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	list := []Invite{}
	for rows.Next() {
		inv, err := scanInvite(rows.Scan)
		if err != nil {
			return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		inv.UsedBy = n.usedBy(inv.ID)
		list = append(list, *inv)
	}
	if err := rows.Err(); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return list, nil
}

// Withdraw ends an invitation; who came in by it stays.
func (n *Nodes) Withdraw(ctx context.Context, id pairing.InviteID, by capabilities.PrincipalID) error {
	err := n.opts.Store.Write(ctx, func(tx *store.Tx) error {
		changed, err := tx.Exec(`UPDATE invite SET withdrawn = 1 WHERE invite_id = $1`, string(id))
		if err != nil {
			return err
		}
		if changed == 0 {
			return capabilities.Errorf(capabilities.CodeNotFound, "there is no invitation %s", short(string(id)))
		}
		return n.opts.Record(tx, "node.invite_withdrawn", "", packet.InviteWithdrawn{ID: string(id), By: by})
	})
	if err != nil {
		return capabilities.AsError(err)
	}
	return nil
}

func (n *Nodes) usedBy(id pairing.InviteID) []InviteUse {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var uses []InviteUse
	for _, r := range n.roster {
		if r.invite == id {
			uses = append(uses,
				InviteUse{Node: r.id, Host: r.profile.Host, Platform: r.profile.Platform, Fingerprint: pairing.Fingerprint(r.key), At: r.joinedAt})
		}
	}
	sortUses(uses)
	return uses[:min(len(uses), maxUsedBy)]
}

// admit decides about an offer: the invitation is spent and the device enters the
// roster in one commit, or it is told why not.
func (n *Nodes) admit(ctx context.Context, o *pairing.Offer, key ed25519.PublicKey,
	proved func(pairing.ProofKey) bool) (*record, pairing.ProofKey, error) {
	var none pairing.ProofKey
	known := n.lookupKey(key)
	if o.Invite == "" {
		if known == nil {
			return nil, none, capabilities.Errorf(capabilities.CodeNodeNotPaired, "The site does not know this device's key.").
				WithHint("Join with a new paste.")
		}
		return known, none, known.refusal()
	}
	inv, err := scanInvite(n.opts.Store.Read().
		QueryRowContext(ctx, `SELECT `+inviteColumns+` FROM invite WHERE invite_id = $1`, string(o.Invite)).Scan)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, none, errNoPaste()
	case err != nil:
		return nil, none, err
	case !proved(inv.proof):
		// Nothing about an invitation is told to who does not hold its secret.
		return nil, none, errNoPaste()
	}
	if known != nil && known.invite == inv.ID {
		// The same device again: its first answer may have been lost.
		return known, inv.proof, known.refusal()
	}
	if known != nil && known.live() {
		return nil, none, capabilities.Errorf(capabilities.CodeConflict, "This device's key is node %s already.", known.id)
	}
	r, err := n.enrol(ctx, inv, o.Profile, key)
	return r, inv.proof, err
}

// errNoPaste is the same whatever is wrong.
func errNoPaste() error {
	return capabilities.Errorf(capabilities.CodePasteInvalid,
		"This site has made no such paste, or this device's program is older than the gateway.")
}

func (r *record) refusal() error {
	switch r.state {
	case pairing.StateDenied, pairing.StateRevoked:
		e := &capabilities.Error{Code: r.state.Code()}
		if r.reason != "" {
			e.Message = e.Code.Info().Message + " Reason given: " + r.reason
		}
		return e
	}
	return nil
}

func (n *Nodes) enrol(ctx context.Context, inv *Invite, profile pairing.Profile, key ed25519.PublicKey) (*record, error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	now := n.opts.Now()
	live, pending := n.counts()
	if live >= n.opts.MaxNodes || (pending >= n.opts.MaxPending && !inv.AutoApprove) {
		return nil, capabilities.Errorf(capabilities.CodeOverloaded, "The site has %d nodes, %d of them waiting for approval.", live, pending)
	}
	r := &record{
		id: pairing.NewNodeID(), key: key, state: pairing.StatePending, label: inv.Label, trust: inv.Trust, labels: inv.Labels,
		allow: inv.Allow, profile: profile, invite: inv.ID, joinedAt: now, lastSeen: now,
	}
	if r.label == "" {
		r.label = short(profile.Label)
	}
	if inv.AutoApprove {
		r.approve(inv.CreatedBy, now)
	}
	err := n.opts.Store.Write(ctx, func(tx *store.Tx) error {
		// The condition is the whole of "one time": whoever comes second changes
		// no row.
		spent, err := tx.Exec(`UPDATE invite SET used = used + 1 WHERE invite_id = $1 AND used < uses AND expires_at > $2 AND withdrawn = 0`,
			string(inv.ID), millis(now))
		if err != nil {
			return err
		}
		if spent == 0 {
			return errSpent
		}
		if err := insertNode(tx, r); err != nil {
			return err
		}
		body := packet.NodeJoined{
			Invite: string(inv.ID), Key: pairing.Fingerprint(key), State: string(r.state), Label: r.label, Trust: r.trust, Allow: r.allow,
			Host: profile.Host, Platform: profile.Platform, Arch: profile.Arch,
		}
		return n.opts.Record(tx, "node.joined", r.id, body)
	})
	if errors.Is(err, errSpent) {
		return nil, n.whySpent(ctx, inv.ID, now)
	}
	if err != nil {
		return nil, capabilities.AsError(err)
	}
	n.put(r)
	n.log.Info("node.joined", "node", r.id, "state", r.state, "host", profile.Host, "platform", profile.Platform,
		"key", pairing.Fingerprint(key))
	return r, nil
}

var errSpent = errors.New("invitation spent")

func (n *Nodes) whySpent(ctx context.Context, id pairing.InviteID, now time.Time) error {
	inv, err := scanInvite(n.opts.Store.Read().QueryRowContext(ctx, `SELECT `+inviteColumns+` FROM invite WHERE invite_id = $1`, string(id)).
		Scan)
	switch {
	case err != nil:
		return capabilities.Errorf(capabilities.CodePasteExpired, "The pairing paste has ended.")
	case inv.Used >= inv.Uses:
		message := "The pairing paste was used already"
		if uses := n.usedBy(id); len(uses) > 0 {
			message += ", by " + uses[0].String()
			if inv.Uses > 1 {
				message += fmt.Sprintf(" and %d before", inv.Used-1)
			}
		}
		return capabilities.Errorf(capabilities.CodePasteUsed, "%s.", message)
	case inv.Withdrawn:
		return capabilities.Errorf(capabilities.CodePasteExpired, "The pairing paste was withdrawn.")
	}
	return capabilities.Errorf(capabilities.CodePasteExpired, "The pairing paste expired at %s.", inv.ExpiresAt.UTC().
		Format("2006-01-02 15:04:05 MST"))
}

func (n *Nodes) counts() (live, pending int) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, r := range n.roster {
		if r.live() {
			live++
		}
		if r.state == pairing.StatePending {
			pending++
		}
	}
	return live, pending
}
