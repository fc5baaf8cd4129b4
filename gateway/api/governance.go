package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// GovernanceSpan is what a governance answer is about: From and To are as asked for, widened to
// whole times of Grain, in UTC. Through is the last packet that is counted.
type GovernanceSpan struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`    // not in it
	Grain   string    `json:"grain"` // hour, day or month
	Through uint64    `json:"through_seq"`
	Head    string    `json:"head,omitempty"` // hash of the latest signed head, hex
	HeadSeq uint64    `json:"head_seq,omitempty"`
}

// GovernanceRows says which rows of a view an answer has: without offset and limit, all.
type GovernanceRows struct {
	Total  int `json:"rows_in_all"`
	Offset int `json:"offset,omitempty"` // how many come before the first that it has
}

// CoverageRow is one capability key of one tool (Capability Coverage). The numbers count decisions
// but for Executions and Observed.
type CoverageRow struct {
	Tool       capabilities.ToolID `json:"tool_id"`
	Slug       string              `json:"tool_slug"`
	Action     string              `json:"action"`
	Key        string              `json:"key"` // empty: the tool declares nothing
	Category   string              `json:"category"`
	Declared   int64               `json:"declared"`   // the tool declared it
	Effective  int64               `json:"effective"`  // and it was granted
	Withheld   int64               `json:"withheld"`   // policy took it away
	Executions int64               `json:"executions"` // calls carried out with it
	Observed   int64               `json:"observed"`   // of those, the ones whose node saw it used
	// Unused says that calls had the key, that nodes report its use, and that none did.
	Unused bool `json:"unused"`
}

// Coverage is the view Capability Coverage.
type Coverage struct {
	GovernanceSpan
	GovernanceRows
	Rows []CoverageRow `json:"rows"`
}

// IsolationRow is how many calls of one class ran in one pool of runners in one time; of sums, in
// all of it.
type IsolationRow struct {
	Start      time.Time                   `json:"start,omitzero"`
	Class      capabilities.IsolationClass `json:"isolation_class"`           // the least that the call needed
	Given      capabilities.IsolationClass `json:"isolation_given,omitempty"` // what it got
	Node       capabilities.NodeID         `json:"node_id,omitempty"`         // empty: the gateway itself
	Executions int64                       `json:"executions"`
	Trend      Trend                       `json:"trend,omitempty" csv:"-"`
}

// Trend is the numbers of a sum: one for each time of Grain from From on.
type Trend []int64

// Most is the largest number of it.
func (t Trend) Most() (most int64) {
	for _, n := range t {
		most = max(most, n)
	}
	return most
}

// Isolation is the view Isolation Heatmap.
type Isolation struct {
	GovernanceSpan
	GovernanceRows
	Rows []IsolationRow `json:"rows"`
	// Unavailable counts the calls that were refused because a class was not to be had.
	Unavailable []IsolationRow `json:"unavailable"`
}

// DriftRow is how many events of one kind there were in one time; of sums, in all of it.
type DriftRow struct {
	Start    time.Time           `json:"start,omitzero"`
	Tool     capabilities.ToolID `json:"tool_id,omitempty"`
	Severity string              `json:"severity"`
	Signal   string              `json:"signal"`
	Key      string              `json:"key"`
	Events   int64               `json:"events"`
	Trend    Trend               `json:"trend,omitempty" csv:"-"`
}

// DriftSeverity is all events of one severity.
type DriftSeverity struct {
	Severity string `json:"severity"`
	Events   int64  `json:"events"`
	Trend    Trend  `json:"trend"`
}

// DriftMonitor is the view Drift Monitor.
type DriftMonitor struct {
	GovernanceSpan
	GovernanceRows
	Rows       []DriftRow      `json:"rows"`
	Severities []DriftSeverity `json:"severities"` // that there were, of all rows
}

// PrivilegeRow is how often one principal's calls of a tool had a privileged key in one time; of
// sums, in all of it.
type PrivilegeRow struct {
	Start      time.Time                `json:"start,omitzero"`
	Tool       capabilities.ToolID      `json:"tool_id"`
	Key        string                   `json:"key"`
	Principal  capabilities.PrincipalID `json:"principal"`
	Node       capabilities.NodeID      `json:"node_id,omitempty"`
	Executions int64                    `json:"executions"`
	Trend      Trend                    `json:"trend,omitempty" csv:"-"`
}

// Privilege is the view Privilege Exposure.
type Privilege struct {
	GovernanceSpan
	GovernanceRows
	Rows []PrivilegeRow `json:"rows"`
}

// FrictionRow is how many calls were denied, asked about or given less, and by which rule.
type FrictionRow struct {
	Effect   string              `json:"effect"`             // deny, ask, allow by a person, or reduced
	Category string              `json:"category,omitempty"` // of the key that was taken away
	Key      string              `json:"key,omitempty"`
	Tool     capabilities.ToolID `json:"tool_id,omitempty"` // empty: there is no such tool
	Code     capabilities.Code   `json:"code,omitempty"`
	Rule     string              `json:"rule,omitempty"` // the policy that determined it
	Calls    int64               `json:"calls"`
}

// Friction is the view Policy Friction.
type Friction struct {
	GovernanceSpan
	GovernanceRows
	Decisions  int64              `json:"decisions"` // in all
	Categories []FrictionCategory `json:"categories"`
	Rows       []FrictionRow      `json:"rows"`
}

// FrictionCategory is how often calls that want keys of one category were denied or asked about,
// and how often a key of it was taken away. A call that wants several counts in each.
type FrictionCategory struct {
	Category string `json:"category"`
	Denied   int64  `json:"denied"`
	Asked    int64  `json:"asked"`
	Reduced  int64  `json:"reduced"`
}

// KPI is one number that governance is steered by.
type KPI struct {
	Name        string    `json:"name"`
	Value       float64   `json:"value"`
	Known       bool      `json:"known"`  // false: nothing happened that it could be told from
	Before      float64   `json:"before"` // in the time of the same length before
	BeforeKnown bool      `json:"before_known"`
	Unit        string    `json:"unit"` // share, count, seconds or per 1,000
	Target      float64   `json:"target"`
	Met         bool      `json:"met"` // Value is at least as good as Target, or unknown
	Definition  string    `json:"definition"`
	Trend       []float64 `json:"trend"` // one for each time of Grain; 0 where it is unknown
}

// KPIs are the six of S1-57.
type KPIs struct {
	GovernanceSpan
	DeclarationCompleteness KPI `json:"declaration_completeness"`
	GrantReductionRatio     KPI `json:"grant_reduction_ratio"`
	DriftPer1000            KPI `json:"drift_per_1000"`
	PrivilegedShare         KPI `json:"privileged_share"`
	IsolationMismatches     KPI `json:"isolation_mismatches"`
	MeanTimeToRemediate     KPI `json:"mean_time_to_remediate_s"`
}

// All are the six, in the order in which they are shown.
func (k *KPIs) All() []KPI {
	return []KPI{
		k.DeclarationCompleteness, k.GrantReductionRatio, k.DriftPer1000, k.PrivilegedShare, k.IsolationMismatches, k.MeanTimeToRemediate,
	}
}

// Compliance is what is held against the records of a time.
type Compliance struct {
	GovernanceSpan
	FirstSeq  uint64            `json:"first_seq"` // of the packets of that time
	LastSeq   uint64            `json:"last_seq"`
	Checks    []ComplianceCheck `json:"checks"`
	Artifacts []RetentionRow    `json:"artifacts"` // that calls of that time made
}

// ComplianceCheck is one rule and how many records hold it.
type ComplianceCheck struct {
	Name       string `json:"name"`
	Met        bool   `json:"met"`
	Records    int64  `json:"records"` // that it is about
	Held       int64  `json:"held"`
	Missing    int64  `json:"missing"`
	Definition string `json:"definition"`
}

// RetentionRow is how many artifacts were made of one retention class.
type RetentionRow struct {
	Retention string `json:"retention"`
	Recorded  int64  `json:"recorded"`
}

// ProfileRow is how often a tool was decided with one profile under one policy.
type ProfileRow struct {
	Tool      capabilities.ToolID `json:"tool_id"`
	Profile   string              `json:"capability_profile_id"`
	Snapshot  string              `json:"policy_snapshot_id"`
	Decisions int64               `json:"decisions"`
}

// Profiles are the profiles of tools and the policies that they were decided under.
type Profiles struct {
	GovernanceSpan
	GovernanceRows
	Rows []ProfileRow `json:"rows"`
}

// ChangeRow is what policy denied, asked about or took away since it changed, and before.
type ChangeRow struct {
	Effect string              `json:"effect"` // as in FrictionRow
	Tool   capabilities.ToolID `json:"tool_id,omitempty"`
	Rule   string              `json:"rule,omitempty"`
	Key    string              `json:"key,omitempty"`
	Code   capabilities.Code   `json:"code,omitempty"`
	Calls  int64               `json:"calls"`
	Before int64               `json:"before"` // in a time of the same length
}

// Changes is what is otherwise since a policy came into force; where none ever did, since the
// beginning of the span.
type Changes struct {
	GovernanceSpan
	GovernanceRows
	Activated time.Time `json:"activated_at,omitzero"`
	Packet    uint64    `json:"activated_seq,omitempty"` // the packet that says so
	// Snapshot is what came into force then in place of Replaced, by whom and why.
	Snapshot string                   `json:"policy_snapshot_id,omitempty"`
	Replaced string                   `json:"replaced_snapshot_id,omitempty"`
	By       capabilities.PrincipalID `json:"activated_by,omitempty"`
	Reason   string                   `json:"reason,omitempty"`
	Rows     []ChangeRow              `json:"rows"`
}
