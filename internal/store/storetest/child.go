// Package storetest gives tests a store of every kind that the product can
// have: over a folder, on one server elsewhere, and on a cluster of three
// whose nodes can be stopped and started. The servers are real and run in
// processes of their own: the test binary, started again.
//
// A test binary that uses it calls Child first in its TestMain:
//
//	func TestMain(m *testing.M) {
//		storetest.Child()
//		goleak.VerifyTestMain(m)
//	}
//
// It promises that no process outlives the test binary, and that nothing uses
// a port that was not free. It is no part of the product.
package storetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// childEnv holds the configuration of a server; its presence makes the test
// binary a server.
const childEnv = "STOA_STORETEST_SERVER"

// Child turns the process into a server if it was started as one, and never
// returns then.
func Child() {
	config := os.Getenv(childEnv)
	if config == "" {
		return
	}
	if err := serve(config); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs a server until stdin ends, as it does when the parent is gone.
func serve(config string) error {
	o := &server.Options{}
	if err := o.ProcessConfigString(config); err != nil {
		return err
	}
	o.NoSigs = true
	srv, err := server.NewServer(o)
	if err != nil {
		return err
	}
	if log := os.Getenv("STOA_STORETEST_LOG"); log != "" {
		srv.ConfigureLogger()
	}
	srv.Start()
	if !srv.ReadyForConnections(60 * time.Second) {
		return errors.New("the server was not ready in time")
	}
	fmt.Println("ready", srv.ClientURL())
	_, err = io.Copy(io.Discard, os.Stdin)
	srv.Shutdown()
	srv.WaitForShutdown()
	if dir := os.Getenv("STOA_STORETEST_REMOVE"); dir != "" {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// process is a server in a process of its own.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *os.File
	url   string
}

// spawn starts a server; with remove, it removes that folder when it ends.
func spawn(config, remove string) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+config, "STOA_STORETEST_REMOVE="+remove)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	p := &process{cmd: cmd, stdin: stdin, out: r}
	line, err := bufio.NewReader(r).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ok {
		p.kill()
		return nil, fmt.Errorf("start a server: it said %q: %w", strings.TrimSpace(line), errors.Join(err, errors.New("it is not ready")))
	}
	p.url = url
	return p, nil
}

// kill ends the process at once, as a crash would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone already
	_ = p.cmd.Wait()
	_ = p.stdin.Close()
	_ = p.out.Close()
}
