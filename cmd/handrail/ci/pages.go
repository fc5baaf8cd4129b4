package ci

import "net"

// Pages are two addresses that a command may serve pages at. To Chrome they are two sites.
type Pages struct {
	Addresses [2]string // HOST:PORT
	held      []net.Listener
}

// HoldPages finds addresses where nobody listens, and holds them until Release, so that none
// of the processes that start meanwhile takes them.
func HoldPages() (*Pages, error) {
	p := &Pages{}
	for i, host := range []string{"127.0.0.1", "localhost"} { // two hosts are two sites to Chrome
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.Release()
			return nil, err
		}
		p.held = append(p.held, l)
		_, port, _ := net.SplitHostPort(l.Addr().String())
		p.Addresses[i] = net.JoinHostPort(host, port)
	}
	return p, nil
}

// Origins are the addresses as origins of pages.
func (p *Pages) Origins() []string {
	return []string{"http://" + p.Addresses[0], "http://" + p.Addresses[1]}
}

// Release leaves the addresses to the command. It may be called again.
func (p *Pages) Release() {
	for _, l := range p.held {
		_ = l.Close()
	}
	p.held = nil
}
