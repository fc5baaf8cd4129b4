package connect

import "context"

// Found are the clients of which there is a trace on this machine, in the order of Clients, with
// the file that each keeps its settings in.
func (s Site) Found() (all []Local, err error) {
	for _, c := range Clients() {
		known, had, err := s.Store.Read(c.Name)
		if err != nil {
			return nil, err
		}
		file := Request{Client: c}.fileOf(known)
		if !had && !c.found(file) {
			continue
		}
		all = append(all, Local{Client: c, File: file, Connected: had, Principal: known.Principal})
	}
	return all, nil
}

// Local is a client on this machine.
type Local struct {
	Client    Client
	File      string
	Connected bool
	Principal string // once it is connected
}

// Connect connects a client by its usual file, and says how many tools it is offered.
func (s Site) Connect(ctx context.Context, c Client) (*Made, int, error) {
	plan, err := s.Plan(ctx, Request{Client: c})
	if err != nil {
		return nil, 0, err
	}
	client, err := plan.Editable()
	if err != nil {
		return nil, 0, err
	}
	made, err := client.Make(ctx, "")
	if err != nil {
		return nil, 0, err
	}
	tools, err := made.Try(ctx)
	return made, tools, err
}
