package camera

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/platform"
)

// node is one video device of the kernel.
type node struct {
	number int
	name   string
}

func (n node) path(root string) string {
	return filepath.Join(root, "/dev", fmt.Sprintf("video%d", n.number))
}

// nodes lists the kernel's video devices that make pictures, by their files in /sys, without
// opening one: a camera's second device (index 1 and up) has only data about its frames.
func nodes(root string) []node {
	entries, err := os.ReadDir(filepath.Join(root, "/sys/class/video4linux"))
	if err != nil {
		return nil
	}
	var all []node
	for _, e := range entries {
		number, err := strconv.Atoi(strings.TrimPrefix(e.Name(), "video"))
		if err != nil || !strings.HasPrefix(e.Name(), "video") {
			continue
		}
		dir := filepath.Join(root, "/sys/class/video4linux", e.Name())
		if index := readLine(filepath.Join(dir, "index")); index != "" && index != "0" {
			continue
		}
		n := node{number: number, name: readLine(filepath.Join(dir, "name"))}
		if _, err := os.Stat(n.path(root)); err == nil {
			all = append(all, n)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].number < all[j].number })
	return all
}

func readLine(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(line)
}

// List returns the cameras of this system.
func (b *Backend) List() (list []platform.SensorDevice, ok bool) {
	list, _ = describe(nodes(b.o.root))
	return list, true
}

func describe(all []node) ([]platform.SensorDevice, []node) {
	list := []platform.SensorDevice{}
	for i, n := range all {
		list = append(list, platform.SensorDevice{Label: n.name, Kind: platform.SensorCamera, Default: i == 0})
	}
	platform.SensorIDs(list)
	return list, all
}

// Look lists the cameras and says whether this account may open them.
func (b *Backend) Look(_ context.Context, _ platform.SensorKind) platform.SensorLook {
	list, all := describe(nodes(b.o.root))
	l := platform.SensorLook{Backend: "Video4Linux", Devices: list, Listed: true}
	for _, n := range all {
		err := unix.Access(n.path(b.o.root), unix.R_OK|unix.W_OK)
		if err == nil {
			return l
		}
		if errors.Is(err, fs.ErrPermission) && l.Missing == nil {
			l.Missing = refused(n.path("/"))
		}
	}
	return l
}

func refused(device string) *platform.MissingError {
	return &platform.MissingError{
		What: "This account may not open " + device + ".", Permission: true,
		Fix: "Add it to the group that owns the device (usually: sudo usermod -aG video USER) and log in again.",
	}
}
