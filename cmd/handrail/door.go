package main

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/live"
	"github.com/handrail-dev/handrail/gateway/trace"
)

// doorFlags are how the HTTP surfaces may be reached from beyond loopback.
type doorFlags struct {
	cert, key, url *string
	generated      *bool
	proxies, hosts *[]string
	clientHosts    *[]string
	clientOrigins  *[]string
	ice            *[]string
	turnSecret     *string
	oidc           oidcFlags
	otlp           *string
}

func addDoorFlags(cmd *cobra.Command) doorFlags {
	f := cmd.Flags()
	return doorFlags{
		cert:      f.String("tls-cert", "", "PEM file with the certificate of HTTPS and its chain; read again when it changes"),
		key:       f.String("tls-key", "", "PEM file with its key"),
		generated: f.Bool("tls-generated", false, "serve HTTPS with a certificate made here, to be known by its fingerprint"),
		proxies:   f.StringSlice("trusted-proxy", nil, "address or network of a TLS proxy in front, whose X-Forwarded-For counts; repeatable"),
		hosts:     f.StringSlice("host", nil, "further host name that clients may call by; repeatable"),
		clientHosts: f.StringSlice("client-host", nil,
			"host:port beside public ones where documents of OAuth clients may lie, by http, too; repeatable"),
		clientOrigins: f.StringSlice("client-origin", nil,
			"web origin whose pages may be clients of MCP, such as https://chat.example; repeatable"),
		ice: f.StringSlice("ice-server", nil,
			"STUN or TURN server by which viewers and nodes find a way for a live view, such as turn:turn.example:3478?transport=udp; repeatable"),
		turnSecret: f.String("turn-secret-file",
			"", "file with the secret that this gateway shares with its TURN servers (coturn: static-auth-secret)"),
		oidc: addOIDCFlags(cmd),
		otlp: f.String("otlp", "",
			"OpenTelemetry collector that is told how calls went, such as http://127.0.0.1:4318 (default: OTEL_EXPORTER_OTLP_ENDPOINT)"),
		url: f.String("url", "", "address for other devices, such as https://handrail.example"),
	}
}

// into puts what the flags say into the gateway's options.
func (d doorFlags) into(o *gateway.Options) (err error) {
	o.TLSCert, o.TLSKey, o.TLSGenerated, o.Hosts, o.URL = *d.cert, *d.key, *d.generated, *d.hosts, *d.url
	o.ICE.URLs, o.ClientHosts, o.ClientOrigins = *d.ice, *d.clientHosts, *d.clientOrigins
	for _, origin := range o.ClientOrigins {
		if err := front.CheckPage(origin); err != nil {
			return terminal.UsageError("%s", capabilities.AsError(err).PublicMessage())
		}
	}
	if *d.turnSecret != "" {
		if o.ICE.Secret, err = readTURNSecret(*d.turnSecret); err != nil {
			return err
		}
	}
	if err := o.ICE.Check(); err != nil {
		return terminal.UsageError("--ice-server: %v", err)
	}
	if o.OIDC, err = d.oidc.config(); err != nil {
		return err
	}
	if o.Traces, err = trace.FromEnvironment(*d.otlp, os.Getenv); err != nil {
		if *d.otlp != "" {
			return terminal.UsageError("%v", err)
		}
		o.Log.Warn("traces.off", "err", err) // another program's settings must not keep the gateway from starting
	}
	o.Proxies, err = front.ParseProxies(*d.proxies)
	return err
}

// maxTURNSecret bounds a TURN server's secret, in bytes.
const maxTURNSecret = 1 << 10

// readTURNSecret reads the secret in a file, without the line break after it.
func readTURNSecret(path string) (live.TURNSecret, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", terminal.UsageError("--turn-secret-file: %v", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTURNSecret+1))
	text := strings.TrimRight(string(data), "\r\n")
	if err != nil || text == "" || len(data) > maxTURNSecret {
		return "", terminal.UsageError("--turn-secret-file: %s has to hold the secret, at most %d bytes", path, maxTURNSecret)
	}
	return live.TURNSecret(text), nil
}
