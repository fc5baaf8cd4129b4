package packages

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// An apk is what apk-tools reads: tars behind each other, each packed by itself. The control part
// names the package, the architecture and the sum of the data, and its scripts are a shell's. The
// data, unpacked, is the program with its units, and each file's sum is the one that it carries. No
// apk is run here: this system has none.
func TestTheApkIsWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("makes packages")
	}
	b, err := os.ReadFile(find(t, release(t, program(t), "0.2.0-rc.1", "linux", ""), ".apk"))
	must(t, err)
	var parts []map[string]packed
	var raw [][]byte
	for in := bytes.NewReader(b); in.Len() > 0; {
		from := len(b) - in.Len()
		z, err := gzip.NewReader(in) // of one part: a bytes.Reader is read no further
		must(t, err)
		z.Multistream(false)
		text, err := io.ReadAll(z)
		must(t, err)
		raw = append(raw, b[from:len(b)-in.Len()])
		parts = append(parts, entries(t, bytes.NewReader(text)))
	}
	if len(parts) != 2 {
		t.Fatalf("%d parts", len(parts))
	}
	control, data := parts[0], parts[1]
	about := map[string][]string{}
	for lines := bufio.NewScanner(bytes.NewReader(control[".PKGINFO"].body)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), " = "); ok {
			about[name] = append(about[name], value)
		}
	}
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	sum := sha256.Sum256(raw[1])
	for name, want := range map[string]string{"pkgname": "handrail", "pkgver": "0.2.0_rc1", "arch": arch, "license": "Apache-2.0",
		"datahash": hex.EncodeToString(sum[:])} {
		if got := strings.Join(about[name], " "); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	if v := strings.Join(about["pkgver"], ""); !regexp.MustCompile(`^\d+(\.\d+)*(_(alpha|beta|pre|rc|cvs|svn|git|hg|p)\d*)*(-r\d+)?$`).MatchString(v) {
		t.Errorf("apk reads no version in %q", v)
	}
	for _, script := range []string{".post-install", ".pre-deinstall", ".post-deinstall"} {
		s, ok := control[script]
		if !ok {
			t.Errorf("there is no %s", script)
			continue
		}
		check := exec.Command("sh", "-n")
		check.Stdin = bytes.NewReader(s.body)
		if out, err := check.CombinedOutput(); err != nil || !bytes.HasPrefix(s.body, []byte("#!/bin/sh\n")) {
			t.Errorf("%s: %v: %s", script, err, out)
		}
	}
	root := t.TempDir()
	for name, f := range data {
		if f.Typeflag != tar.TypeReg {
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, name), f.body, f.FileInfo().Mode().Perm()))
	}
	is, err := exec.Command(filepath.Join(root, "usr/bin/handrail"), "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(is), "handrail ") {
		t.Errorf("%v: it is %s", err, is)
	}
	for _, name := range []string{"usr/share/man/man1/handrail.1.gz", "etc/default/handrail", "usr/share/bash-completion/completions/handrail"} {
		if _, err := os.Stat(filepath.Join(root, name)); errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is missing", name)
		}
	}
}
