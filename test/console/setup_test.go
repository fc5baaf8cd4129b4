//go:build unix

package console

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// desktopOf is the machine of somebody who has two clients, one of them connected.
type desktopOf struct {
	owner     capabilities.PrincipalID
	connected chan string
}

func (d desktopOf) Owner() capabilities.PrincipalID { return d.owner }

func (d desktopOf) Found() ([]api.LocalClient, error) {
	return []api.LocalClient{
		{Name: "cursor", Title: "Cursor", File: "/home/ann/.cursor/mcp.json"},
		{Name: "codex", Title: "Codex", File: "/home/ann/.codex/config.toml", Connected: true, Principal: "codex"},
	}, nil
}

func (d desktopOf) Connect(_ context.Context, name string) (api.LocalConnection, error) {
	if name != "cursor" {
		return api.LocalConnection{}, capabilities.Errorf(capabilities.CodeExecutionFailed, "its file is broken")
	}
	d.connected <- name
	return api.LocalConnection{
		LocalClient: api.LocalClient{Name: "cursor", Title: "Cursor", File: "/home/ann/.cursor/mcp.json", Connected: true, Principal: "cursor"},
		Backup:      "/home/ann/.cursor/mcp.json.handrail-backup", Tools: 7, Reload: "Cursor reads the file by itself.",
	}, nil
}

// A new user connects the client that is installed and makes a first call, by a button each, and
// sees what came of it.
func TestSettingUpByButtons(t *testing.T) {
	there := desktopOf{"ann", make(chan string, 1)}
	d := startSite(t, func(o *gateway.Options) { o.LocalClients = there })
	d.enter(principal.RoleAdmin)
	d.goTo("/console/")
	d.shots("home-clients")
	must(t, d.run(`document.querySelector('form[action="/console/connect/cursor"] button').click()`, nil))
	d.await(`document.getElementById("joined")?.innerText.includes("is offered 7 tools")`)
	if got := <-there.connected; got != "cursor" {
		t.Errorf("%s was connected", got)
	}
	d.harmless("connected")
	d.shots("connected")
	must(t, d.run(`document.querySelector('form[action="/console/connect/codex"] button').click()`, nil))
	d.await(`document.querySelector(".fault")?.innerText.includes("Its file is broken")`)

	d.goTo("/console/")
	must(t, d.run(`document.querySelector('form[action="/console/try"] button').click()`, nil))
	d.await(`document.getElementById("tried")?.innerText.includes("study")`)
	d.harmless("tried")
	d.shots("tried")
	must(t, d.run(`document.querySelector("#tried a").click()`, nil))
	d.await(`location.pathname.startsWith("/console/calls/c") && document.body.innerText.includes("tool.node.list")`)
}

// Nobody else's settings are shown or written: not to another admin, not to an operator, and not
// without the session's value.
func TestNobodyElsesClients(t *testing.T) {
	there := desktopOf{"ann", make(chan string, 1)}
	d := startSite(t, func(o *gateway.Options) { o.LocalClients = there })
	for _, role := range []principal.Role{principal.RoleAdmin, principal.RoleOperator} {
		token := d.MustToken("eve", role)
		for _, method := range []string{"GET", "POST"} {
			path := map[string]string{"GET": "/v1/clients/here", "POST": "/v1/clients/here/cursor"}[method]
			status, body := d.asks(method, path, token)
			var list api.LocalClientList
			if role == principal.RoleAdmin && method == "GET" && (json.Unmarshal(body, &list) != nil || len(list.Clients) > 0) ||
				(role != principal.RoleAdmin || method == "POST") && status != http.StatusForbidden {
				t.Errorf("%s %s as %s: %d %s", method, path, role, status, body)
			}
		}
	}
	if len(there.connected) > 0 {
		t.Error("somebody else connected it")
	}
}

// The API says what policy says of each tool of a device before it sees arguments.
func TestPolicyOfADevice(t *testing.T) {
	d := startSite(t)
	status, body := d.asks("GET", "/v1/nodes/"+string(d.node.ID)+"/policy", d.MustToken("looker", principal.RoleAdmin))
	var says api.NodePolicy
	if status != http.StatusOK || json.Unmarshal(body, &says) != nil {
		t.Fatalf("%d %s", status, body)
	}
	got := map[capabilities.ToolID]string{}
	for _, one := range says.Tools {
		got[one.Tool] = one.Effect
	}
	for tool, want := range map[capabilities.ToolID]string{"tool.fixture.echo": "allow", "tool.fixture.press": "ask", "tool.fixture.slow": "allow"} {
		if got[tool] != want {
			t.Errorf("%s: %q, want %s of %v", tool, got[tool], want, got)
		}
	}
}

// asks asks the API with a token.
func (d *desk) asks(method, path, token string) (status int, body []byte) {
	d.t.Helper()
	req, err := http.NewRequest(method, d.URL()+path, nil)
	must(d.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	var client http.Client
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	must(d.t, err)
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	must(d.t, err)
	return resp.StatusCode, body
}
