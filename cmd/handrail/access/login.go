package access

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"

	"github.com/mdp/qrterminal/v3"
	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// fromElsewhere returns the address by which another device reaches the gateway: the one that
// this command does, if that leads beyond this machine, else this machine's own address,
// where the gateway listens on all of them.
func fromElsewhere(cmd *cobra.Command, c *remote.Gateway) (string, error) {
	host := c.Base.Hostname()
	if ip, err := netip.ParseAddr(host); c.Away || host != "localhost" && (err != nil || !ip.Unmap().IsLoopback()) {
		return c.Base.String(), nil
	}
	var status api.Status
	if err := c.Get(cmd.Context(), remote.Path("status"), &status); err != nil {
		return "", err
	}
	at, port, err := net.SplitHostPort(status.HTTPAddr)
	listens, bad := netip.ParseAddr(at)
	if err != nil || bad != nil {
		return c.Base.String(), nil
	}
	if listens.IsLoopback() {
		return "", terminal.UsageHint("Start the gateway with an --http that other devices reach, such as 'handrail gateway --http :7480 "+
			"--tls-generated', or name its address with --url.",
			"a phone cannot reach this gateway: it listens on %s alone", at)
	}
	if listens.IsUnspecified() {
		own, err := net.InterfaceAddrs()
		if err != nil {
			return "", err
		}
		found := datadir.Reachable(own)
		if len(found) == 0 {
			return "", terminal.UsageHint("Connect this machine to a network, or name an address with --url.",
				"this machine has no address that a phone could reach")
		}
		at = found[0]
	}
	u := *c.Base
	u.Host = net.JoinHostPort(at, port)
	return u.String(), nil
}

// NewLoginCmd makes 'handrail login'.
func NewLoginCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Print a one-time link into the console",
		Long: "Prints a link that opens the gateway's console in a browser, signed in as whoever the token belongs to. It is\n" +
			"good once, for five minutes; the session it opens lasts 12 hours, can be kept up to a week from the console, and\n" +
			"ends at once when its token is revoked. The secret of the link stands behind its #, which no browser sends on.",
		Args: cobra.NoArgs,
	}
	role := cmd.Flags().String("role", "", "viewer, operator or admin, at most the token's own (default: the token's)")
	qr := cmd.Flags().Bool("qr", false, "also as a QR code, for a phone that reaches the gateway")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch *role {
		case "", "viewer", "operator", "admin":
		default:
			return terminal.UsageError("--role is %q; want viewer, operator or admin", *role)
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		elsewhere := ""
		if *qr { // before a code is made that no phone could use
			if elsewhere, err = fromElsewhere(cmd, c); err != nil {
				return err
			}
		}
		var raw json.RawMessage
		if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("logins"), api.LogIn{Role: *role}, &raw); err != nil {
			return err
		}
		var made api.SignInLink
		if err := json.Unmarshal(raw, &made); err != nil {
			return fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
		}
		// The address that the gateway was given for other devices, or the one by which
		// this command reached it.
		at := datadir.ForBrowser(c.Base.String())
		switch {
		case made.Public != "":
			at = made.Public
		case elsewhere != "":
			at = elsewhere
		}
		link := at + "/console/login#" + made.Code
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"url": link, "expires_at": made.Expires, "fingerprint": c.Pin.String()})
		}
		if !c.Pin.IsZero() {
			fmt.Fprintf(cmd.ErrOrStderr(), "If the browser does not know the certificate, check that it matches:\n%s\n", c.Pin)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "Open this in a browser before %s; it is good once:\n", made.Expires.Local().Format(terminal.Clock))
		fmt.Fprintln(cmd.OutOrStdout(), terminal.Plain(link))
		if *qr {
			qrterminal.GenerateWithConfig(link, qrterminal.Config{Level: qrterminal.L, Writer: os.Stderr, HalfBlocks: true, QuietZone: 1,
				BlackChar: qrterminal.BLACK_BLACK, WhiteChar: qrterminal.WHITE_WHITE, BlackWhiteChar: qrterminal.BLACK_WHITE,
				WhiteBlackChar: qrterminal.WHITE_BLACK})
		}
		return nil
	}
	return cmd
}
