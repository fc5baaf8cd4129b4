package console

import (
	"encoding/json"
	"net/http"
)

// manifest is how a browser keeps the console as a program of its own, on a phone's home screen:
// https://www.w3.org/TR/appmanifest/
type manifest struct {
	Name       string         `json:"name"`
	ShortName  string         `json:"short_name"`
	ID         string         `json:"id"`
	Start      string         `json:"start_url"`
	Scope      string         `json:"scope"`
	Display    string         `json:"display"`
	Theme      string         `json:"theme_color"`
	Background string         `json:"background_color"`
	Icons      []manifestIcon `json:"icons"`
}

type manifestIcon struct {
	Src     string `json:"src"`
	Sizes   string `json:"sizes"`
	Type    string `json:"type"`
	Purpose string `json:"purpose"`
}

// serveManifest answers alike to everybody: browsers ask for it without a cookie.
func (c *Console) serveManifest(w http.ResponseWriter, _ *http.Request) {
	m := manifest{
		Name: "Handrail", ShortName: "Handrail", ID: "/console/", Start: "/console/", Scope: "/console/", Display: "standalone",
		Theme: "#1f6f5c", Background: "#1f6f5c",
	}
	for _, size := range []string{"192", "512"} {
		src := c.assets["icon-"+size+".png"].address
		for _, purpose := range []string{"any", "maskable"} {
			m.Icons = append(m.Icons, manifestIcon{src, size + "x" + size, "image/png", purpose})
		}
	}
	body, err := json.Marshal(&m)
	if err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	guardHeaders(w)
	h := w.Header()
	h.Set("Content-Type", "application/manifest+json")
	h.Set("Cache-Control", "no-cache")
	_, _ = w.Write(body)
}
