package capabilities

// Action is what a hint asks for, as a key: a surface that has words of its own for it (a
// command, a link) shows those in place of the hint, whose words are for agents. The zero
// value: the hint's words are for everybody.
type Action string

// The actions.
const (
	ActionListNodes   Action = "list_nodes"   // look which nodes there are, and what is ready on each
	ActionListDevices Action = "list_devices" // look which cameras and microphones each node has
	ActionListTools   Action = "list_tools"   // look which tools there are
	ActionListLanes   Action = "list_lanes"   // look which lanes there are
)

// Actions returns every action; for surfaces' tests.
func Actions() []Action {
	return []Action{ActionListNodes, ActionListDevices, ActionListTools, ActionListLanes}
}
