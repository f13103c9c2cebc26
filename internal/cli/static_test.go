package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// emptyRoot is a folder with nothing in it but the program, its config and a
// data folder, as in the image that the Dockerfile makes.
type emptyRoot struct {
	dir string
	who *syscall.Credential
}

func newEmptyRoot(t *testing.T, config string) *emptyRoot {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("another root folder needs root's rights, which this process does not have")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go tool, which builds the program, is not installed")
	}
	r := &emptyRoot{dir: t.TempDir(), who: &syscall.Credential{Uid: 65532, Gid: 65532}}
	build := exec.Command(goTool, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X github.com/stoahub/stoa/internal/cli.release=9.9.9-test", "-o", filepath.Join(r.dir, "stoa"), "../..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	data := filepath.Join(r.dir, "data")
	for _, err := range []error{
		os.Chmod(r.dir, 0o755), os.Mkdir(data, 0o700), os.Chown(data, 65532, 65532),
		os.WriteFile(filepath.Join(r.dir, "stoa.yaml"), []byte(config), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *emptyRoot) command(args ...string) *exec.Cmd {
	c := exec.Command("/stoa", args...)
	c.Env = []string{"STOA_DATA=/data", "MCP_JSON_PATH=/stoa.yaml"}
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: r.dir, Credential: r.who}
	return c
}

// run runs a command there and returns what it said.
func (r *emptyRoot) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := r.command(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("stoa %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// health returns the version that the hub at address says it has.
func health(t *testing.T, client *http.Client, address string) string {
	t.Helper()
	resp, err := client.Get("http://" + address + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var said struct{ Version string }
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil {
		t.Fatal(err)
	}
	return said.Version
}

func TestBannerSaysTheLinkersVersion(t *testing.T) {
	before := release
	t.Cleanup(func() { release = before })
	release = "9.9.9-test"
	cfg := config.Default()
	if got := banner([]string{"127.0.0.1:80"}, &cfg, "script"); !strings.Contains(got, "stoa 9.9.9-test serves") {
		t.Errorf("the banner is %s", got)
	}
}

// The program needs nothing but itself: no libraries, no shell, no home, no
// users, no time zones.
func TestStaticBinaryInEmptyRoot(t *testing.T) {
	up := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "echo"}}})
	r := newEmptyRoot(t, fmt.Sprintf("stoa: 1\nservers:\n  up:\n    url: %s\n", up.URL))
	probe := r.command("version")
	out, err := probe.CombinedOutput()
	if err != nil && strings.Contains(err.Error(), "operation not permitted") {
		t.Skipf("this machine does not let root change its root folder: %v", err)
	}
	if err != nil || !strings.HasPrefix(string(out), "stoa 9.9.9-test ") {
		t.Fatalf("version: %v\n%s", err, out)
	}

	var log bytes.Buffer
	serve := r.command("serve", "--listen", "127.0.0.1:0")
	serve.Stdout, serve.Stderr = &log, &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- serve.Wait() }()
	defer serve.Process.Kill()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		note, err := hub.ReadRunning(filepath.Join(r.dir, "data"))
		if err == nil {
			err = reached(client, "http://"+note.Address+"/mcps")
		}
		if err == nil {
			if got := health(t, client, note.Address); got != "9.9.9-test" || note.Version != got {
				t.Errorf("/healthz says version %q, hub.json %q", got, note.Version)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the hub does not answer: %v", err)
		}
	}
	if got := r.run(t, "call", "up__echo", "text=hello"); !strings.Contains(got, "hello") {
		t.Errorf("call: %s", got)
	}
	if got := r.run(t, "servers"); !strings.Contains(got, "connected") {
		t.Errorf("servers: %s", got)
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-exited:
		if err != nil {
			t.Errorf("the hub ended with %v\n%s", err, log.String())
		}
	case <-time.After(patience):
		t.Fatal("the hub does not end")
	}
	info, err := os.Stat(filepath.Join(r.dir, "data", "token"))
	if err != nil || info.Mode().Perm() != 0o600 || info.Sys().(*syscall.Stat_t).Uid != 65532 {
		t.Errorf("the token file: %v, %v", info, err)
	}
}
