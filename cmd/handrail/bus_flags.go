package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway"
)

// defaultBus is where satellites connect to, once one was invited.
const defaultBus = "127.0.0.1:7444"

// busFlags are how a NATS server elsewhere is met: its authority and the own certificate.
type busFlags struct{ ca, cert, key *string }

func addBusFlags(cmd *cobra.Command) busFlags {
	f := cmd.Flags()
	return busFlags{
		ca:   f.String("nats-ca", "", "file with the authority of a NATS server elsewhere (default: the system's)"),
		cert: f.String("nats-cert", "", "file with the certificate shown to that server"),
		key:  f.String("nats-key", "", "file with that certificate's key"),
	}
}

// busTLS adds the flags to a command, and returns what reads them.
func busTLS(cmd *cobra.Command) func() (*tls.Config, error) { return addBusFlags(cmd).config }

// config is TLS by the flags; nil where they say nothing.
func (b busFlags) config() (*tls.Config, error) {
	if *b.ca == "" && *b.cert == "" && *b.key == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if (*b.cert == "") != (*b.key == "") {
		return nil, terminal.UsageError("--nats-cert and --nats-key go together")
	}
	if *b.ca != "" {
		data, err := os.ReadFile(*b.ca)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(data) {
			return nil, terminal.UsageError("%s has no certificate", *b.ca)
		}
	}
	if *b.cert != "" {
		pair, err := tls.LoadX509KeyPair(*b.cert, *b.key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// busServer is which bus a gateway has.
type busServer struct {
	busFlags
	listen, url *string
	named       func() bool // --bus was given
}

func addBusServer(cmd *cobra.Command) busServer {
	f := cmd.Flags()
	return busServer{
		busFlags: addBusFlags(cmd),
		listen: f.String("bus", defaultBus,
			"TCP address that satellites connect to, once one is invited; if it is given, workers elsewhere, too"),
		url:   f.String("nats", "", "NATS server elsewhere to have as the bus, such as tls://nats.example:4222"),
		named: func() bool { return f.Changed("bus") },
	}
}

func (b busServer) into(o *gateway.Options) error {
	if _, port, err := net.SplitHostPort(*b.listen); err != nil || port == "" {
		return terminal.UsageError("--bus %s: want HOST:PORT, such as %s", *b.listen, defaultBus)
	}
	o.Bus, o.NATS = *b.listen, *b.url
	o.BusForWorkers = o.NATS != "" || b.named()
	if o.NATS != "" {
		if u, err := url.Parse(o.NATS); err != nil || u.Scheme != "tls" || u.Host == "" || u.User != nil {
			return terminal.UsageError("--nats %.100q: want tls://HOST:PORT", o.NATS)
		}
	}
	var err error
	o.NATSTLS, err = b.config()
	return err
}
