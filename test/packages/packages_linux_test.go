package packages

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/test/site"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// release makes a release of this machine's system and returns its folder. The program is the one
// of the tests; kinds are those of the tool, "" is all.
func release(t *testing.T, program, version, kinds, key string) string {
	t.Helper()
	out := t.TempDir()
	args := []string{"all", "-version", version, "-out", out, "-targets", "linux/" + runtime.GOARCH, "-only", kinds}
	if program != "" {
		args = append(args, "-program", program)
	}
	if key != "" {
		args = append(args, "-key", key)
	}
	cmd := exec.Command(".ci/release/run", args...)
	cmd.Dir = "../.."
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("release %v: %v\n%s", args, err, said)
	}
	return out
}

func signingKey(t *testing.T) (file string, public ed25519.PublicKey) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	file = filepath.Join(t.TempDir(), "key.pem")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	return file, public
}

func program(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "handrail")
	site.Program(t, to)
	return to
}

// find returns the one file of a release with that end.
func find(t *testing.T, dir, end string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"+end))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v end in %s: %v", found, end, err)
	}
	return found[0]
}

// Two runs make the same bytes, the checksums hold, and their signature is that of the key.
func TestReleaseIsTheSameTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("makes packages")
	}
	bin := program(t)
	key, public := signingKey(t)
	one, two := release(t, bin, "0.1.0", "linux", key), release(t, bin, "0.1.0", "linux", key)
	entries, err := os.ReadDir(one)
	must(t, err)
	for _, end := range []string{".deb", ".rpm", ".apk"} {
		find(t, one, end)
	}
	for _, e := range entries {
		a, err := os.ReadFile(filepath.Join(one, e.Name()))
		must(t, err)
		b, err := os.ReadFile(filepath.Join(two, e.Name()))
		must(t, err)
		if !bytes.Equal(a, b) {
			t.Errorf("%s is another the second time", e.Name())
		}
	}
	sums, err := os.ReadFile(filepath.Join(one, "SHA256SUMS"))
	must(t, err)
	signature, err := os.ReadFile(filepath.Join(one, "SHA256SUMS.sig"))
	must(t, err)
	if !ed25519.Verify(public, sums, signature) {
		t.Error("the checksums are not signed by the key")
	}
	lines := strings.Split(strings.TrimSpace(string(sums)), "\n")
	if len(lines) != len(entries)-2 {
		t.Errorf("%d checksums of %d files", len(lines), len(entries))
	}
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		b, err := os.ReadFile(filepath.Join(one, name))
		must(t, err)
		if is := sha256.Sum256(b); hex.EncodeToString(is[:]) != sum {
			t.Errorf("%s has another checksum", name)
		}
	}
}

// apart runs a script as root on this system's files, of which it sees a copy that is gone
// afterwards.
func apart(t *testing.T, packages, script string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("installing needs root")
	}
	const around = `set -e
mount -t tmpfs handrail "$1"
mkdir "$1/up" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" handrail "$1/root" || exit 99
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
mkdir -p "$1/root/packages"
mount --bind "$2" "$1/root/packages"
exec chroot "$1/root" /bin/sh -ec "$3"`
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--propagation", "private", "/bin/sh", "-c", around, "sh", t.TempDir(),
		packages, script)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 99 {
		t.Skipf("this kernel or container has no overlay: %s", out)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// The deb and the rpm are installed, upgraded from the version before, and removed, by dpkg and
// rpm: the state stays, the account is there, and what an administrator changed is kept.
func TestPackagesComeAndGo(t *testing.T) {
	if testing.Short() {
		t.Skip("makes packages")
	}
	bin := program(t)
	dir := t.TempDir()
	for name, version := range map[string]string{"before": "0.1.0", "after": "0.2.0-rc.1"} {
		out := release(t, bin, version, "linux", "")
		for _, end := range []string{".deb", ".rpm"} {
			must(t, os.Rename(find(t, out, end), filepath.Join(dir, name+end)))
		}
	}
	const check = `
handrail version
zcat /usr/share/man/man1/handrail.1.gz | grep -q '^.SH NAME'
bash -n /usr/share/bash-completion/completions/handrail
grep -q '^handrail:' /etc/passwd
grep -q 'ExecStart=/usr/bin/handrail gateway' /usr/lib/systemd/system/handrail-gateway.service
grep -q 'ExecStart=/usr/bin/handrail node$' /usr/lib/systemd/user/handrail-node.service
! grep -rq /tmp/ /usr/lib/systemd/system/handrail-gateway.service /usr/lib/systemd/user/handrail-node.service
`
	const gone = `
[ ! -e /usr/bin/handrail ] && [ ! -e /usr/lib/systemd/system/handrail-gateway.service ]
[ -e /var/lib/handrail/state ]
echo removed
`
	for _, one := range []struct{ name, needs, script string }{
		{"deb", "dpkg", `dpkg --install /packages/before.deb` + check + `
mkdir -p /var/lib/handrail; touch /var/lib/handrail/state; echo 'HANDRAIL_GATEWAY_FLAGS=--mine' > /etc/default/handrail
dpkg --install /packages/after.deb` + check + `
[ "$(dpkg-query -W -f '${Version}' handrail)" = '0.2.0~rc.1' ]
grep -q -- --mine /etc/default/handrail
dpkg --verify handrail | grep -v /etc/default/handrail && exit 1
dpkg --remove handrail` + gone + `dpkg --purge handrail; [ ! -e /etc/default/handrail ]; [ -e /var/lib/handrail/state ]`},
		{"rpm", "rpm", `rpm --install --nodeps /packages/before.rpm` + check + `
mkdir -p /var/lib/handrail; touch /var/lib/handrail/state; echo 'HANDRAIL_GATEWAY_FLAGS=--mine' > /etc/default/handrail
rpm --upgrade --nodeps /packages/after.rpm` + check + `
rpm --query handrail | grep -q '0.2.0~rc.1'
grep -q -- --mine /etc/default/handrail
rpm --erase handrail` + gone},
	} {
		t.Run(one.name, func(t *testing.T) {
			if _, err := exec.LookPath(one.needs); err != nil {
				t.Skipf("this system has no %s", one.needs)
			}
			if out := apart(t, dir, one.script); !strings.Contains(out, "removed") {
				t.Errorf("it said\n%s", out)
			}
			if _, err := os.Stat("/usr/bin/handrail"); err == nil {
				t.Error("this system has the package's program now")
			}
		})
	}
}
