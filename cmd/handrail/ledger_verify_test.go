package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

// stoppedGateway leaves a gateway directory with a real store and three packets,
// an export of it, and the signed head a node would have kept.
func stoppedGateway(t *testing.T) (data datadir.Dir, export []byte, head chain.Head) {
	t.Helper()
	data = datadir.Dir(t.TempDir())
	if err := data.Make(data.Gateway()); err != nil {
		t.Fatal(err)
	}
	key, _, err := pairing.LoadOrCreateKey(data.Gateway("gateway.key"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	db, err := store.Open(ctx, store.Options{Path: data.StorePath(), Migrations: ledger.Migrations, ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l, err := ledger.Open(ctx, ledger.Options{Store: db, Chain: string(pairing.GatewayIDOf(key.Public().(ed25519.PublicKey))), Key: key})
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"c1", "c2", "c3"} {
		if err := l.Append(ctx, ledger.Draft{Kind: "tool.call.request", Body: map[string]string{"call": call}}); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := l.Export(ctx, &out); err != nil {
		t.Fatal(err)
	}
	seq, hash := l.Tip()
	return data, out.Bytes(), chain.SignHead(key, chain.Head{Chain: string(pairing.GatewayIDOf(key.Public().(ed25519.PublicKey))), Seq: seq, Hash: hash, Time: 1})
}

func verify(t *testing.T, data datadir.Dir, args ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code = run(context.Background(), append([]string{"ledger", "verify", "--data", string(data)}, args...), strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestLedgerVerify(t *testing.T) {
	data, export, head := stoppedGateway(t)
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	whole := write("whole", export)
	heads, err := json.Marshal([]chain.Head{head})
	if err != nil {
		t.Fatal(err)
	}
	seen := write("heads.json", heads)
	lines := bytes.SplitAfter(export, []byte("\n"))
	var header struct {
		Keys []chain.Key `json:"keys"`
	}
	if err := json.Unmarshal(lines[0], &header); err != nil {
		t.Fatal(err)
	}

	for name, c := range map[string]struct {
		args []string
		want int
		says string
	}{
		"whole":          {[]string{whole}, terminal.ExitOK, "only --key can tell"},
		"with its key":   {[]string{whole, "--key", header.Keys[0].String()}, terminal.ExitOK, "3 packets"},
		"with its head":  {[]string{whole, "--heads", seen}, terminal.ExitOK, "1 seen elsewhere"},
		"json":           {[]string{whole, "--json"}, terminal.ExitOK, `"packets":3`},
		"another's key":  {[]string{whole, "--key", strings.Repeat("ab", 32)}, terminal.ExitIntegrity, "not a key you trust"},
		"changed":        {[]string{write("changed", bytes.Replace(export, []byte(`"call":"c2"`), []byte(`"call":"c9"`), 1))}, terminal.ExitIntegrity, "hash"},
		"dropped":        {[]string{write("dropped", bytes.Join(append(append([][]byte{}, lines[:2]...), lines[3:]...), nil))}, terminal.ExitIntegrity, ""},
		"cut":            {[]string{write("cut", bytes.Join(lines[:3], nil))}, terminal.ExitIntegrity, "ends before"},
		"no export":      {[]string{write("none", []byte("hello\n"))}, terminal.ExitUsage, "no ledger export"},
		"no file":        {[]string{filepath.Join(dir, "nosuch")}, terminal.ExitUsage, "no such file"},
		"bad key":        {[]string{whole, "--key", "xyz"}, terminal.ExitUsage, "--key"},
		"stopped store":  {nil, terminal.ExitOK, "3 packets"},
		"store by path":  {[]string{data.StorePath()}, terminal.ExitOK, "3 packets"},
		"heads not ours": {[]string{whole, "--heads", write("other.json", []byte("[]"))}, terminal.ExitUsage, "no head of this ledger"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, err := verify(t, data, c.args...)
			if code != c.want || !strings.Contains(out+err, c.says) {
				t.Errorf("ended with %d, want %d with %q:\n%s%s", code, c.want, c.says, out, err)
			}
		})
	}
	// A gateway that was killed leaves gateway.json: nobody answers where that says.
	gone := httptest.NewServer(nil)
	gone.Close()
	if err := data.WriteRunning(datadir.Running{HTTP: gone.URL, PID: 1}); err != nil {
		t.Fatal(err)
	}
	if code, out, err := verify(t, data); code != terminal.ExitOK || !strings.Contains(out, "3 packets") {
		t.Errorf("the ledger of a killed gateway: %d %s%s", code, out, err)
	}
	if code, _, err := verify(t, datadir.Dir(t.TempDir())); code != terminal.ExitFailed || !strings.Contains(err, "no ledger at") {
		t.Errorf("an empty data directory: %d %s", code, err)
	}
}
