package blackbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coder/websocket"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// desktop is a machine whose way to open a browser only writes down what it was
// told to open.
type desktop struct {
	*hub
	opened string // the file of what it was told
	leave  string // the file for which it waits before it ends
}

func newDesktop(t *testing.T, settings ...object) *desktop {
	t.Helper()
	h := &hub{folder: t.TempDir()}
	h.config, h.data = filepath.Join(h.folder, "hub.jsonc"), filepath.Join(h.folder, "data")
	d := &desktop{h, filepath.Join(h.folder, "opened"), filepath.Join(h.folder, "leave")}
	bin := filepath.Join(h.folder, "bin")
	script := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$@\" > %[1]s.part\nmv %[1]s.part %[1]s\nuntil [ -e %[2]s ]; do sleep 0.05; done\n", d.opened, d.leave)
	if err := errors.Join(os.Mkdir(bin, 0o755), os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o755)); err != nil {
		t.Fatal(err)
	}
	h.env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	h.configure(t, object{}, settings...)
	h.launch(t)
	t.Cleanup(func() { d.release(t) })
	return d
}

// release lets the opener end.
func (d *desktop) release(t testing.TB) {
	if err := os.WriteFile(d.leave, nil, 0o600); err != nil {
		t.Error(err)
	}
}

// toldTo waits until a browser is to be opened, and returns with what.
func (d *desktop) toldTo(t testing.TB) string {
	t.Helper()
	var text []byte
	await.NoError(t, "a browser is opened", func() (err error) {
		text, err = os.ReadFile(d.opened)
		return err
	})
	return strings.TrimSpace(string(text))
}

// screen is what a program on a terminal has written.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
	done chan struct{}
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// console runs `stoa console` as a person does: on a terminal, and with a umask
// that hides nothing.
func (d *desktop) console(t *testing.T) *screen {
	t.Helper()
	ctrl, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	if err := unix.IoctlSetPointerInt(int(ctrl.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ctrl.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	own := command(t, d.hub, "console", "--data", d.data, "--config", d.config)
	cmd := exec.Command("/bin/sh", append([]string{"-c", `umask 0; exec "$0" "$@"`, own.Path}, own.Args[1:]...)...)
	cmd.Dir, cmd.Env = own.Dir, append(own.Env, "TERM=xterm", "NO_COLOR=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	s := &screen{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		_, _ = io.Copy(s, ctrl) // until the last to hold the terminal has gone
		_ = cmd.Wait()          // how it ended is on the screen
	}()
	t.Cleanup(func() {
		d.release(t)
		_ = cmd.Process.Kill()
		<-s.done
		ctrl.Close()
	})
	return s
}

// commandLines are those of all processes, as everybody on the machine can read
// them.
func commandLines() string {
	var all strings.Builder
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well-formed
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil { // else it has ended
			all.Write(bytes.ReplaceAll(b, []byte{0}, []byte{' '}))
			all.WriteByte('\n')
		}
	}
	return all.String()
}

// commandWatch reads command lines again and again, as somebody does who waits
// for a secret, until the test ends.
type commandWatch struct {
	mu   sync.Mutex
	seen map[string]bool
}

func watchCommandLines(t *testing.T) *commandWatch {
	w := &commandWatch{seen: map[string]bool{}}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			now := commandLines()
			w.mu.Lock()
			for line := range strings.Lines(now) {
				w.seen[line] = true
			}
			w.mu.Unlock()
			select {
			case <-end:
				return
			default:
			}
		}
	}()
	t.Cleanup(func() { close(end); <-done })
	return w
}

// all returns the lines that were seen so far.
func (w *commandWatch) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(w.seen)), "")
}

var codeInPage = regexp.MustCompile(`#code=([^"&<]+)`)

// A6: what signs the owner in is on nobody's command line, and in no file that
// others can read; it works once, and the file goes.
func TestConsoleIsOpenedWithoutASecret(t *testing.T) {
	d := newDesktop(t)
	watched := watchCommandLines(t)
	s := d.console(t)
	told := d.toldTo(t)
	if strings.Contains(commandLines(), d.owner) || strings.Contains(told, d.owner) {
		t.Fatal("the owner's token is on a command line that every user of the machine can read")
	}
	path, ok := strings.CutPrefix(told, "file://")
	if !ok {
		t.Fatalf("the browser is to open %s", told)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file that signs in: %v, %v", info, err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := codeInPage.FindSubmatch(page)
	if found == nil || strings.Contains(string(page), d.owner) {
		t.Fatalf("the file has no code, or the owner's token: %s", strings.ReplaceAll(string(page), d.owner, "OWNER"))
	}
	code := string(found[1])
	if os.Getuid() == 0 {
		other := exec.Command("cat", path)
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := other.CombinedOutput(); err == nil {
			t.Errorf("another user reads %s", out)
		}
	}
	body := object{"code": code}
	if got := d.post(t, "/api/v1/sign-ins", "", body); got.status != http.StatusOK || strings.Contains(got.text, d.owner) {
		t.Fatalf("sign in: %d %s", got.status, got.text)
	}
	if got := d.post(t, "/api/v1/sign-ins", "", body); got.status != http.StatusUnauthorized {
		t.Errorf("the code a second time: %d %s", got.status, got.text)
	}
	await.Until(t, "it is seen what the browser was started with", func() bool { return strings.Contains(watched.all(), told) })
	d.release(t)
	<-s.done
	if lines := watched.all(); strings.Contains(lines, d.owner) || strings.Contains(lines, code) {
		t.Error("the owner's token or the code was on a command line")
	}
	if !strings.Contains(s.String(), "signed in") {
		t.Errorf("the command says %s", s)
	}
	if left, _ := filepath.Glob(filepath.Join(d.data, "console-*")); len(left) > 0 {
		t.Errorf("after the code was used there is %s", left)
	}
	for _, file := range []string{"hub.json", "signins.json"} {
		if b, err := os.ReadFile(filepath.Join(d.data, file)); err != nil || bytes.Contains(b, found[1]) {
			t.Errorf("%s has the code, or: %v", file, err)
		}
	}
	if strings.Contains(d.process.outputSoFar(t), code) {
		t.Error("the code is in the hub's log")
	}
}

// outputSoFar ends a process and returns what it has written.
func (p *process) outputSoFar(t testing.TB) string {
	t.Helper()
	if err := syscall.Kill(p.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.done
	return p.output.String()
}

// A6: a tool that nobody needs a token for hands out none.
func TestToolThatOpensTheConsoleHandsOutNothing(t *testing.T) {
	d := newDesktop(t)
	answer := d.background(http.MethodPost, "/mcp", "", rpc("tools/call", object{"name": "web_debug_start", "arguments": object{"openBrowser": true}}))
	told := d.toldTo(t)
	if strings.Contains(commandLines(), d.owner) || strings.Contains(told, d.owner) {
		t.Fatal("the owner's token is on the command line of the browser")
	}
	d.release(t)
	got := <-answer
	mentions(t, "the answer", got.text, "/console/")
	for _, text := range []string{told, got.text} {
		lacks(t, "what is opened or answered", text, d.owner, "#", "code=", "token=", "ticket=")
	}
}

// neighbour is another program's server on the same host, which writes down all
// that it is sent.
func neighbour(t *testing.T) (url string, heard func() string) {
	t.Helper()
	var mu sync.Mutex
	var all bytes.Buffer
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := httputil.DumpRequest(r, true)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		all.Write(b)
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>neighbour</title>")
	}))
	t.Cleanup(s.Close)
	return s.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}

// A6: a browser that has signed in sends nothing of it to another port.
func TestBrowserTellsItsNeighboursNothing(t *testing.T) {
	chromium(t)
	d := newDesktop(t)
	d.release(t)
	d.console(t)
	p := openTab(t, d.toldTo(t))
	await.NoError(t, "the console shows who is there", func() error {
		got, err := p.run(`return !!document.querySelector('nav') && !document.querySelector('form.lock') && !location.hash`)
		if err == nil && got != "true" {
			err = errors.New("it does not yet")
		}
		return err
	})
	stored, err := p.run(`return Object.values(localStorage).concat(Object.values(sessionStorage), document.cookie)`)
	if err != nil || strings.Contains(stored, d.owner) {
		t.Fatalf("the page has kept the owner's token, or: %v", err)
	}
	url, heard := neighbour(t)
	p.goTo(url)
	if _, err := p.run(`await fetch('/again', {credentials: 'include'})`); err != nil {
		t.Fatal(err)
	}
	if text := heard(); strings.Contains(text, d.owner) {
		t.Error("the browser has sent the owner's token to another port")
	} else if strings.Contains(text, "Cookie:") || strings.Contains(text, "Authorization:") {
		t.Errorf("the browser has sent another port %s", text)
	}
}

// A15: where a token is needed, a page opens the sockets of the hub.
func TestPageOpensSocketsWhereATokenIsNeeded(t *testing.T) {
	chromium(t)
	d := newDesktop(t, object{"auth": object{"required": true}})
	token := d.token(t, "page")
	p := openTab(t, "http://"+d.address+"/healthz")
	for _, path := range []string{"/ws", "/mcp/ws", "/ws/news"} {
		got, err := p.run(`
			const open = (query) => new Promise((yes) => {
				const s = new WebSocket('ws://' + location.host + ` + quote(path) + ` + query);
				s.onopen = () => { yes('open'); s.close(); };
				s.onclose = () => yes('refused');
			});
			const response = await fetch('/api/v1/tickets', {method: 'POST', body: JSON.stringify({path: ` + quote(path) + `}),
				headers: {Authorization: 'Bearer ' + ` + quote(token) + `, 'Content-Type': 'application/json'}});
			const {ticket} = await response.json();
			return [await open(''), await open('?ticket=' + ticket), await open('?ticket=' + ticket)]`)
		if err != nil || got != `["refused","open","refused"]` {
			t.Errorf("%s without a ticket, with one, and with the same again: %s, %v", path, got, err)
		}
	}
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // it is a string
	}
	return string(b)
}

// searchFor ends the hub and looks for secrets in all that it has written, but
// for the file of the owner's token.
func (d *desktop) searchFor(t *testing.T, secrets map[string]string) {
	t.Helper()
	texts := map[string]string{"the hub's output": d.process.outputSoFar(t)}
	err := filepath.WalkDir(d.data, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || path == filepath.Join(d.data, "token") {
			return err
		}
		b, err := os.ReadFile(path)
		texts[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range texts {
		for what, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", what, where)
			}
		}
	}
}

// member is one of an answer that has to be good.
func (r reply) member(t testing.TB, name string) string {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(r.text), &members); err != nil || r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.text)
	}
	text, _ := members[name].(string)
	if text == "" {
		t.Fatalf("no %s in %s", name, r.text)
	}
	return text
}

// A6: a sign-in outlives a hub that is killed, until it is revoked by the command
// line; a code does not. Neither they nor a ticket are written down anywhere.
func TestSignInOutlivesAKill(t *testing.T) {
	d := newDesktop(t, object{"log": object{"level": "trace"}})
	newCode := func() string { return d.post(t, "/api/v1/sign-ins/codes", d.owner, nil).member(t, "code") }
	first, unused := newCode(), newCode()
	entered := d.post(t, "/api/v1/sign-ins", "", object{"code": first})
	secret, id := entered.member(t, "secret"), entered.member(t, "id")
	d.kill(t)
	d.launch(t)
	if got := d.get(t, "/api/v1/logs", secret); got.status != http.StatusOK {
		t.Errorf("signed in before the hub was killed: %d %s", got.status, got.text)
	}
	if got := d.post(t, "/api/v1/sign-ins", "", object{"code": unused}); got.status != http.StatusUnauthorized {
		t.Errorf("a code of before the hub was killed: %d %s", got.status, got.text)
	}
	ticket := d.post(t, "/api/v1/tickets", secret, object{"path": "/api/v1/events/ws"}).member(t, "ticket")
	url := "ws://" + d.address + "/api/v1/events/ws?ticket=" + ticket
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	if again, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: client}); err == nil {
		again.CloseNow()
		t.Error("a ticket opens two sockets")
	}
	if _, err := d.run(t, "console", "sign-out", id, "--data", d.data, "--config", d.config); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		_, _, err = conn.Read(ctx)
	}
	if ctx.Err() != nil {
		t.Error("the socket goes on after its sign-in was revoked")
	}
	if got := d.get(t, "/api/v1/logs", secret); got.status != http.StatusUnauthorized {
		t.Errorf("signed out: %d %s", got.status, got.text)
	}
	conn.CloseNow()
	d.searchFor(t, map[string]string{"the owner's token": d.owner, "a used code": first, "an unused code": unused, "a sign-in": secret, "a ticket": ticket})
}
