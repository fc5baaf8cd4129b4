package packages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// entries returns the files of a tar by their names, with what they hold.
func entries(t *testing.T, r io.Reader) map[string]packed {
	t.Helper()
	all := map[string]packed{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		body, err := io.ReadAll(in)
		must(t, err)
		if _, twice := all[h.Name]; twice {
			t.Errorf("%s is in it twice", h.Name)
		}
		all[h.Name] = packed{h, body}
	}
}

// packed is a file of an archive.
type packed struct {
	*tar.Header
	body []byte
}

// image is what a runtime of containers reads of an image.
type image struct {
	User       string
	Env        []string
	Entrypoint []string
	Cmd        []string
	Volumes    map[string]any
	root       string // its files, unpacked
	owners     map[string]int
}

// unpack reads an image as a runtime does: from the index to the layers, each by its digest.
func unpack(t *testing.T, file string) image {
	t.Helper()
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	layout := entries(t, f)
	type descriptor struct {
		MediaType, Digest string
		Size              int
	}
	blob := func(d descriptor) []byte {
		id, ok := strings.CutPrefix(d.Digest, "sha256:")
		b := layout["blobs/sha256/"+id].body
		if sum := sha256.Sum256(b); !ok || hex.EncodeToString(sum[:]) != id || len(b) != d.Size {
			t.Fatalf("%s is not what its digest says", d.Digest)
		}
		return b
	}
	var index struct{ Manifests []descriptor }
	must(t, json.Unmarshal(layout["index.json"].body, &index))
	if len(index.Manifests) != 1 {
		t.Fatalf("%d manifests", len(index.Manifests))
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	must(t, json.Unmarshal(blob(index.Manifests[0]), &manifest))
	var config struct {
		Config image
		Rootfs struct {
			Diffs []string `json:"diff_ids"`
		}
	}
	must(t, json.Unmarshal(blob(manifest.Config), &config))
	is := config.Config
	is.root, is.owners = t.TempDir(), map[string]int{}
	must(t, os.Chmod(is.root, 0o755))
	for i, l := range manifest.Layers {
		z, err := gzip.NewReader(bytes.NewReader(blob(l)))
		must(t, err)
		layer, err := io.ReadAll(z)
		must(t, err)
		if sum := sha256.Sum256(layer); config.Rootfs.Diffs[i] != "sha256:"+hex.EncodeToString(sum[:]) {
			t.Errorf("layer %d has another sum than the image says", i)
		}
		for name, e := range entries(t, bytes.NewReader(layer)) {
			is.owners["/"+strings.TrimSuffix(name, "/")] = e.Uid
			to := filepath.Join(is.root, filepath.FromSlash(name))
			if e.Typeflag == tar.TypeDir {
				must(t, os.MkdirAll(to, 0o755))
				continue
			}
			must(t, os.MkdirAll(filepath.Dir(to), 0o755))
			must(t, os.WriteFile(to, e.body, e.FileInfo().Mode().Perm()))
		}
	}
	return is
}

// quoted is words as a shell reads them.
func quoted(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(all, " ")
}

// words start a program in the image's files, as its account and with its variables alone.
func (i image) words(program ...string) string {
	return quoted(append(append(append([]string{"/usr/bin/env", "-i"}, i.Env...), "/usr/sbin/chroot", "--userspec="+i.User, i.root), program...))
}

// The gateway's image is unpacked and run as a runtime of containers runs it, as its account and
// with a root that cannot be written to: it starts by its own words, answers, keeps its site in the
// volume, and goes on with it after another start. No program but one is in it.
func TestTheImageOfTheGatewayRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("makes an image")
	}
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	is := unpack(t, find(t, release(t, program(t), "0.1.0", "image", ""), ".oci.tar"))
	if is.User != "65532:65532" || is.owners["/data"] != 65532 || is.owners["/usr/bin/handrail"] != 0 || is.Volumes["/data"] == nil {
		t.Errorf("it runs as %s, /data is of %d, the volumes are %v", is.User, is.owners["/data"], is.Volumes)
	}
	var programs []string
	must(t, filepath.WalkDir(is.root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, bad := d.Info(); bad == nil && info.Mode()&0o111 != 0 {
				programs = append(programs, strings.TrimPrefix(path, is.root))
			}
		}
		return err
	}))
	if strings.Join(programs, " ") != "/usr/bin/handrail" {
		t.Errorf("its programs are %v", programs)
	}
	must(t, os.Mkdir(filepath.Join(is.root, "proc"), 0o755))
	must(t, os.Mkdir(filepath.Join(is.root, "dev"), 0o755))
	// A network of its own: the image's ports are fixed. Folders of tests are closed to the account,
	// which begins at the image's root.
	script := `
root=$1 volume=$2 log=$3
chown 65532:65532 "$volume"
mount --bind "$root" "$root"
mount --bind "$volume" "$root/data"
mount -t tmpfs handrail "$root/tmp"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -o remount,ro,bind "$root"
! touch "$root/etc/written" 2>/dev/null
ip link set lo up
run() {
	` + is.words(append(append([]string(nil), is.Entrypoint...), is.Cmd...)...) + ` >>"$log" 2>&1 &
	container=$!
	until ` + is.words("/usr/bin/handrail", "status", "--json") + ` >"$log.status" 2>&1 && grep -q '"up":true' "$log.status"; do
		kill -0 $container || { cat "$log" "$log.status"; exit 1; }
		sleep 0.3
	done
	cat "$log.status"
}
run
` + is.words("/usr/bin/handrail", "token", "create", "somebody", "--role", "viewer", "--json") + `
kill $container
wait $container
run
` + is.words("/usr/bin/handrail", "token", "list", "--json") + `
kill $container
wait $container
echo ended
`
	cmd := exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "--propagation", "private", "/bin/sh", "-ec", script, "sh",
		is.root, t.TempDir(), filepath.Join(t.TempDir(), "log"))
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sites := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		var s struct {
			Site string `json:"site_id"`
		}
		if json.Unmarshal([]byte(line), &s) == nil && s.Site != "" {
			sites[s.Site] = true
		}
	}
	if len(sites) != 1 || strings.Count(string(out), `"up":true`) != 2 || strings.Count(string(out), `"principal":"somebody"`) < 2 ||
		!strings.HasSuffix(string(out), "ended\n") {
		t.Errorf("two starts with one volume said\n%s", out)
	}
}
