// Module is a hostile program that is compiled for WASI: its first argument says what it tries, the
// second what it is after.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

type aims struct{ Inside, Readable, Outside, TCP, UDP string }

var tries = map[string]func(a aims) error{
	"read a private file":                func(a aims) error { return show(filepath.Join(a.Outside, "key")) },
	"read the account's password hashes": func(aims) error { return show("/etc/shadow") },
	"read it through a second name": func(a aims) error {
		link := filepath.Join(a.Inside, "link")
		if err := os.Link(filepath.Join(a.Outside, "key"), link); err != nil {
			return err
		}
		return show(link)
	},
	"read it from above": func(a aims) error { return show("../../../../../../.." + filepath.Join(a.Outside, "key")) },
	"write outside":      func(a aims) error { return os.WriteFile(filepath.Join(a.Outside, "made"), nil, 0o600) },
	"write a file that it may read": func(a aims) error {
		return os.WriteFile(filepath.Join(a.Readable, "a"), []byte("x"), 0o600)
	},
	"empty a file":    func(a aims) error { return os.Truncate(filepath.Join(a.Readable, "a"), 0) },
	"remove a file":   func(a aims) error { return os.Remove(filepath.Join(a.Readable, "a")) },
	"move a file out": func(a aims) error { return os.Rename(filepath.Join(a.Readable, "a"), filepath.Join(a.Inside, "a")) },
	"make a folder outside": func(a aims) error {
		return os.Mkdir(filepath.Join(a.Outside, "made"), 0o700)
	},
	"change a time": func(a aims) error {
		return os.Chtimes(filepath.Join(a.Readable, "a"), time.Unix(1, 0), time.Unix(1, 0))
	},
	"connect to a service": func(a aims) error {
		c, err := net.Dial("tcp", a.TCP)
		if err == nil {
			_ = c.Close()
		}
		return err
	},
	"send a datagram": func(a aims) error {
		c, err := net.Dial("udp", a.UDP)
		if err == nil {
			_, err = c.Write([]byte("x"))
		}
		return err
	},
	"start a program": func(a aims) error {
		return exec.Command("/bin/sh", "-c", "echo x >"+filepath.Join(a.Outside, "made")).Run()
	},
	"read its node's environment": func(aims) error {
		for _, e := range os.Environ() {
			fmt.Println(e)
		}
		return nil
	},
	"take memory without end": func(aims) error {
		for n := 0; n < 6<<10; n += 64 {
			b := make([]byte, 64<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			kept = append(kept, b)
		}
		fmt.Println("took 6 GiB")
		return nil
	},
}

var kept [][]byte

func show(path string) error {
	text, err := os.ReadFile(path)
	fmt.Println(string(text))
	return err
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "tries" {
		for name := range tries {
			fmt.Println(name)
		}
		return
	}
	var a aims
	if len(os.Args) != 3 || tries[os.Args[1]] == nil || json.Unmarshal([]byte(os.Args[2]), &a) != nil {
		os.Exit(64)
	}
	if err := tries[os.Args[1]](a); err != nil {
		fmt.Println("refused:", err)
		os.Exit(1)
	}
	fmt.Println("done")
}
