package products

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
)

// verdaccio is a registry of npm packages with a user interface.
func verdaccio() *product {
	p := &product{name: "verdaccio", pkg: "verdaccio", server: server{
		program: "verdaccio/bin/verdaccio",
		args:    func(p place) []string { return []string{"--config", "config.yaml", "--listen", "127.0.0.1:" + p.port} },
		files: map[string]string{"config.yaml": `storage: ./storage
auth: {htpasswd: {file: ./htpasswd}}
uplinks: {}
packages:
  'secret-*': {access: $authenticated, publish: $authenticated}
  '**': {access: $all, publish: $authenticated}
log: {type: stdout, format: pretty, level: warn}
`},
		ready: "/-/ping",
		fill: func(ctx context.Context, address string) error {
			user := map[string]any{"name": "ada", "password": "correct-horse"}
			if err := put(ctx, address+"/-/user/org.couchdb.user:ada", user); err != nil {
				return err
			}
			named := strings.Replace(address, "://", "://ada:correct-horse@", 1)
			for _, name := range []string{"tea-kettle", "coffee-mill", "secret-recipe"} {
				if err := put(ctx, named+"/"+name, published(name, address)); err != nil {
					return err
				}
			}
			return nil
		},
	}}
	start := open("{verdaccio}/")
	proposed := browser.By(func(c browser.Case) { awaited(c, suite.With("selector", "[role=option]")) })
	p.does("search", "types into the search and clicks what is proposed", "the package's page is open, with what it says of itself",
		start, comes("tea-kettle"), typed("tea", `combobox "Search Packages"`), proposed,
		click("option", "tea-kettle"), comes("Boils water for tea-kettle"))
	p.does("dependencies", "opens a package from the list, and its dependencies", "they are shown", start, comes("coffee-mill"),
		click(`link "coffee-mill"`), comes("Boils water for coffee-mill"), click(`tab "Dependencies"`), comes("left-pad"))
	p.does("sign-in", "signs in by the dialog", "the server shows what only people who are signed in may see", start, comes("tea-kettle"),
		browser.NoLine("secret-recipe"), click(`button "Login"`), filled("ada", `textbox "Username"`),
		filled("correct-horse", `textbox "Password"`),
		click(`button "Login"`), comes("secret-recipe"))
	return p
}

// published is what npm sends to publish a package.
func published(name, address string) map[string]any {
	const content = "not unpacked by anybody here"
	file, sum := name+"-1.0.0.tgz", sha1.Sum([]byte(content))
	return map[string]any{
		"_id": name, "name": name, "description": "A " + name, "dist-tags": map[string]any{"latest": "1.0.0"},
		"readme": "# " + name + "\n\nBoils water for " + name,
		"versions": map[string]any{"1.0.0": map[string]any{
			"name": name, "version": "1.0.0", "description": "A " + name, "readme": "# " + name + "\n\nBoils water for " + name,
			"dependencies": map[string]any{"left-pad": "^1.3.0"}, "license": "MIT", "keywords": []string{"kitchen"},
			"dist": map[string]any{"tarball": address + "/" + name + "/-/" + file, "shasum": hex.EncodeToString(sum[:])},
		}},
		"_attachments": map[string]any{file: map[string]any{
			"content_type": "application/octet-stream", "data": base64.StdEncoding.EncodeToString([]byte(content)), "length": len(content),
		}},
	}
}

func put(ctx context.Context, url string, body any) error {
	status, text, err := ask(ctx, http.MethodPut, url, body)
	if err == nil && status != http.StatusCreated {
		err = fmt.Errorf("PUT %s was answered %d %.300s", url, status, text)
	}
	return err
}
