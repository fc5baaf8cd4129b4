package e2e

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
)

// A registry of npm's and an index of pip's, each with one package that says where it is from.

// npmPackage is the package as npm's registry serves it.
func npmPackage(host string) []byte {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	t := tar.NewWriter(z)
	for _, f := range []struct{ name, text string }{
		{"package/package.json", `{"name":"handrail-stock","version":"1.0.0","main":"index.js"}`},
		{"package/index.js", fmt.Sprintf("module.exports = %q;\n", host+" is here")},
	} {
		_ = t.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.text))})
		_, _ = t.Write([]byte(f.text))
	}
	_, _ = t.Close(), z.Close()
	return packed.Bytes()
}

// npmRegistry answers what npm asks about the package.
func npmRegistry(w http.ResponseWriter, r *http.Request, host string) {
	packed := npmPackage(host)
	if r.URL.Path == "/npm/handrail-stock/-/handrail-stock-1.0.0.tgz" {
		_, _ = w.Write(packed)
		return
	}
	sum := sha512.Sum512(packed)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"name": "handrail-stock", "dist-tags": map[string]string{"latest": "1.0.0"},
		"versions": map[string]any{"1.0.0": map[string]any{
			"name": "handrail-stock", "version": "1.0.0", "main": "index.js",
			"dist": map[string]string{
				"tarball":   "http://" + host + "/npm/handrail-stock/-/handrail-stock-1.0.0.tgz",
				"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
			},
		}},
	})
}

const wheelName = "handrail_stock-1.0.0-py3-none-any.whl"

// wheel is the package as pip installs it.
func wheel(host string) []byte {
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	const info = "handrail_stock-1.0.0.dist-info/"
	for _, f := range []struct{ name, text string }{
		{"handrail_stock.py", fmt.Sprintf("print(%q)\n", host+" is here")},
		{info + "METADATA", "Metadata-Version: 2.1\nName: handrail-stock\nVersion: 1.0.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: handrail\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", "handrail_stock.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	} {
		if to, err := z.Create(f.name); err == nil {
			_, _ = to.Write([]byte(f.text))
		}
	}
	_ = z.Close()
	return packed.Bytes()
}

// pipIndex answers what pip asks about the package.
func pipIndex(w http.ResponseWriter, r *http.Request, host string) {
	packed := wheel(host)
	if r.URL.Path == "/simple/handrail-stock/"+wheelName {
		_, _ = w.Write(packed)
		return
	}
	sum := sha256.Sum256(packed)
	w.Header().Set("Content-Type", "text/html")
	_, _ = fmt.Fprintf(w, `<!DOCTYPE html><html><body><a href="%s#sha256=%s">%s</a></body></html>`, wheelName, hex.EncodeToString(sum[:]), wheelName)
}
