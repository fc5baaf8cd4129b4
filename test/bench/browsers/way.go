package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/pairing"
	"github.com/handrail-dev/handrail/test/bench/figures"
)

// The way alone is the floor of the whole path: three processes as ours stand, which
// hand on a few bytes and do nothing else. The first takes lines on standard input and
// sends each by HTTP to the second; that one appends a record to a file and syncs it,
// asks the third over QUIC, appends and syncs another record, and answers. No policy, no
// tables, no journal on the third, no browser.

// wayRoleEnv makes this program one of the three; its value is the role and what the
// role has to know, separated by a space.
const wayRoleEnv = "HANDRAIL_BENCH_WAY"

// wayRecord is the size of what is appended: the packets of a short call.
const wayRecord = 2048

const wayALPN = "bench-way"

// wayPatience keeps the connection while the other subjects have their turns.
var wayPatience = &quic.Config{KeepAlivePeriod: 5 * time.Second}

// serveWay is main of one of the three.
func serveWay(value string) error {
	role, at, _ := strings.Cut(value, " ")
	switch role {
	case "bridge":
		return wayBridge(at)
	case "gateway":
		return wayGateway(at)
	case "node":
		return wayNode(at)
	}
	return fmt.Errorf("no role %q", role)
}

// wayBridge sends each line on and writes what comes back.
func wayBridge(at string) error {
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer, err := http.Post(at, "application/json", bytes.NewReader(line))
		if err != nil {
			return err
		}
		_, err = io.Copy(os.Stdout, answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err != nil {
			return err
		}
	}
}

// wayGateway says where it listens, and serves until its input ends. dir is on the disk
// that is measured.
func wayGateway(dir string) error {
	key, err := pairing.NewKey()
	if err != nil {
		return err
	}
	cert, err := pairing.SelfSigned(key, time.Now())
	if err != nil {
		return err
	}
	node, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{wayALPN},
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}},
	}, wayPatience)
	if err != nil {
		return err
	}
	defer node.Close()
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer web.Close()
	fmt.Printf("%s http://%s/\n", node.Addr(), web.Addr())
	conn, err := node.Accept(context.Background())
	if err != nil {
		return err
	}
	stream, err := conn.OpenStreamSync(context.Background())
	if err != nil {
		return err
	}
	record, err := os.OpenFile(filepath.Join(dir, "way.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer record.Close()
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, err := io.ReadAll(r.Body)
		var answer []byte
		for _, step := range []func() error{
			func() error { return wayAppend(record) },
			func() error { return waySend(stream, question) },
			func() (err error) { answer, err = wayReceive(stream); return err },
			func() error { return wayAppend(record) },
			func() error { _, err := w.Write(answer); return err },
		} {
			if err == nil {
				err = step()
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})}
	go func() { _ = server.Serve(web) }() // ends with Close
	defer server.Close()
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func wayAppend(f *os.File) error {
	if _, err := f.Write(make([]byte, wayRecord)); err != nil {
		return err
	}
	return f.Sync()
}

// wayNode returns back what it is sent.
func wayNode(at string) error {
	// the floor trusts
	conn, err := quic.DialAddr(context.Background(), at,
		&tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{wayALPN}, InsecureSkipVerify: true}, wayPatience)
	if err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); _ = conn.CloseWithError(0, "") }()
	stream, err := conn.AcceptStream(context.Background())
	for err == nil {
		var line []byte
		if line, err = wayReceive(stream); err == nil {
			err = waySend(stream, line)
		}
	}
	return nil
}

func waySend(w io.Writer, line []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(line))), line...))
	return err
}

func wayReceive(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > 1<<16 {
		return nil, fmt.Errorf("%d bytes", n)
	}
	line := make([]byte, n)
	_, err := io.ReadFull(r, line)
	return line, err
}

// way is the three, from the caller's side.
type way struct {
	bridge, gateway, node *server
	rounds                []float64 // medians in ms
}

func startWay(dir string) (_ *way, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &way{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.end())
		}
	}()
	start := func(role string) (*server, error) {
		return startServer(self, nil, []string{wayRoleEnv + "=" + role}, dir)
	}
	if w.gateway, err = start("gateway " + dir); err != nil {
		return nil, err
	}
	line, err := w.gateway.out.ReadString('\n')
	if err != nil {
		return nil, err
	}
	quicAt, webAt, _ := strings.Cut(strings.TrimSpace(line), " ")
	if w.node, err = start("node " + quicAt); err != nil {
		return nil, err
	}
	// The stream opens with the first word on it, so the second line may come before
	// the node has accepted it.
	if _, err = w.gateway.out.ReadString('\n'); err != nil {
		return nil, err
	}
	w.bridge, err = start("bridge " + webAt)
	return w, err
}

// batch measures the way some times.
func (w *way) batch(times int) error {
	question := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool_browser_tabs","arguments":{}}}` + "\n")
	var took []float64
	for i := range times + 1 { // the first is to warm up
		start := time.Now()
		if _, err := w.bridge.in.Write(question); err != nil {
			return err
		}
		answer, err := w.bridge.out.ReadBytes('\n')
		if err != nil || !bytes.Equal(answer, question) {
			return fmt.Errorf("the way gave %.200q back: %w", answer, err)
		}
		if i > 0 {
			took = append(took, float64(time.Since(start).Microseconds())/1000)
		}
	}
	w.rounds = append(w.rounds, figures.Median(took))
	return nil
}

func (w *way) end() error {
	var errs []error
	for _, s := range []*server{w.bridge, w.node, w.gateway} {
		if s != nil {
			errs = append(errs, s.end())
		}
	}
	return errors.Join(errs...)
}
