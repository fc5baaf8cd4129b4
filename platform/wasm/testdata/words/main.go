// Words is a program that tests compile for WASI: what it does is its first argument.
package main

import (
	"io"
	"math/rand"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		os.Exit(64)
	}
	say := func(words ...string) { os.Stdout.WriteString(strings.Join(words, " ") + "\n") }
	switch os.Args[1] {
	case "upper":
		text, err := io.ReadAll(os.Stdin)
		if err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString(strings.ToUpper(string(text)))
	case "args":
		say(os.Args[2:]...)
	case "json":
		say(`{"words":` + strconv.Itoa(len(strings.Fields(strings.Join(os.Args[3:], " ")))) + `}`)
	case "reach":
		say("env", strconv.Itoa(len(os.Environ())))
		for _, name := range []string{"/etc/passwd", "/", ".", "../../../etc/passwd", "/dev/stdin"} {
			_, err := os.ReadDir(name)
			_, err2 := os.ReadFile(name)
			say(name, strconv.FormatBool(err == nil || err2 == nil))
		}
		say("write", strconv.FormatBool(os.WriteFile("/tmp/made", nil, 0o600) == nil))
		say("exec", strconv.FormatBool(exec.Command("/bin/true").Run() == nil))
	case "chance":
		say(time.Now().String(), strconv.FormatUint(rand.Uint64(), 10))
	case "fail":
		os.Stderr.WriteString("it fails\n")
		os.Exit(3)
	case "panic":
		panic("a fault of mine")
	case "memory":
		var all [][]byte
		for {
			all = append(all, make([]byte, 1<<20))
			all[len(all)-1][1] = 1
		}
	case "flood":
		for {
			say(strings.Repeat("x", 1000))
		}
	case "stay":
		for {
		}
	case "sleep":
		for {
			time.Sleep(time.Hour)
		}
	}
}
