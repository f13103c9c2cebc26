package blackbox

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// object is a piece of JSON that a test sends.
type object = map[string]any

// list is an array that a test sends.
type list = []any

// client has no idle connections, so that nothing outlives its test.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}

// hub is a running `stoa serve`.
type hub struct {
	folder  string // of the config, and where the hub runs
	config  string
	data    string
	address string   // host:port
	owner   string   // the owner's token
	listen  []string // addresses; 127.0.0.1:0 if there are none
	all     []string // the addresses it listens on, in that order
	env     []string
	files   int // it may have open at once; 0: as many as the tester
	process *process
}

// serve starts a hub with these servers and further keys of the config, and
// waits until it has the tools of all of them.
func serve(t testing.TB, servers object, settings ...object) *hub {
	t.Helper()
	h := prepare(t, servers, settings...)
	h.launch(t)
	h.awaitTools(t, servers)
	return h
}

// prepare writes the config of a hub that is not started yet.
func prepare(t testing.TB, servers object, settings ...object) *hub {
	t.Helper()
	folder := t.TempDir()
	h := &hub{folder: folder, config: filepath.Join(folder, "hub.jsonc"), data: filepath.Join(folder, "data")}
	h.configure(t, servers, settings...)
	return h
}

// awaitTools waits until the hub lists the tools of all servers.
func (h *hub) awaitTools(t testing.TB, servers object) {
	t.Helper()
	for name := range servers {
		await.NoError(t, "the tools of "+name+" are listed", func() error {
			if text := h.post(t, "/mcps/"+name+"/mcp", h.owner, rpc("tools/list", object{})).text; !strings.Contains(text, `"write"`) {
				return fmt.Errorf("%.300s", text)
			}
			return nil
		})
	}
}

// configure writes the config. A hub that runs takes it up by itself.
func (h *hub) configure(t testing.TB, servers object, settings ...object) {
	t.Helper()
	all := object{"stoa": 1, "servers": servers}
	for _, s := range settings {
		maps.Copy(all, s)
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	// A rename, so that the hub never sees half a file.
	half := h.config + ".new"
	if err := errors.Join(os.WriteFile(half, text, 0o600), os.Rename(half, h.config)); err != nil {
		t.Fatal(err)
	}
}

// launch runs the hub over its data folder, until the test ends or kill, and
// waits until it is ready.
func (h *hub) launch(t testing.TB) {
	t.Helper()
	h.begin(t)
	await.NoError(t, "the hub is ready", func() error {
		if got := h.get(t, "/readyz", h.owner); got.status != http.StatusOK {
			return fmt.Errorf("%d %s", got.status, got.text)
		}
		return nil
	})
}

// begin is launch that waits only until the hub has an address.
func (h *hub) begin(t testing.TB) {
	t.Helper()
	args := []string{"serve", "--data", h.data, "--config", h.config}
	for _, address := range h.listen {
		args = append(args, "--listen", address)
	}
	if len(h.listen) == 0 {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	h.process = start(t, h, args...)
	await.NoError(t, "hub.json names the address of the hub", func() error {
		select {
		case <-h.process.done:
			t.Fatalf("the hub ended:\n%s", h.process.output.String())
		default:
		}
		text, err := os.ReadFile(filepath.Join(h.data, "hub.json"))
		if err != nil {
			return err
		}
		var note struct {
			Address   string
			Addresses []string
			Pid       int
		}
		if err := json.Unmarshal(text, &note); err != nil {
			return err
		}
		if note.Pid != h.process.pid || note.Address == "" {
			return errors.New("it is that of another hub")
		}
		if len(note.Addresses) < len(h.listen) {
			return fmt.Errorf("of the addresses there are %q yet", note.Addresses)
		}
		h.address, h.all = note.Address, note.Addresses
		return nil
	})
	token, err := os.ReadFile(filepath.Join(h.data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	h.owner = strings.TrimSpace(string(token))
}

// kill ends the hub as a crash does.
func (h *hub) kill(t testing.TB) {
	t.Helper()
	if err := syscall.Kill(h.process.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-h.process.done
}

// process is a child that ends with its test.
type process struct {
	pid    int
	output *bytes.Buffer // to be read when done is closed
	done   chan struct{}
}

// stopped ends the process in an orderly way and returns its output.
func (p *process) stopped(t testing.TB) string {
	t.Helper()
	if err := syscall.Kill(p.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(await.Patience):
		t.Fatal("it did not end after SIGTERM")
	}
	return p.output.String()
}

func command(t testing.TB, h *hub, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(stoa(t), args...)
	if h.files > 0 {
		cmd = exec.Command("sh", append([]string{"-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(h.files), stoa(t)}, args...)...)
	}
	cmd.Dir = h.folder
	// Models of the tester's own environment would take the place of the script.
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.folder, "TMPDIR=" + os.TempDir(), "STOA_DATA=" + h.data}, h.env...)
	return cmd
}

func start(t testing.TB, h *hub, args ...string) *process {
	t.Helper()
	cmd := command(t, h, args...)
	p := &process{output: &bytes.Buffer{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.output, p.output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.pid = cmd.Process.Pid
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // how it ended is in its output
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(await.Patience):
			t.Errorf("stoa %s did not end after SIGTERM", args[0])
			_ = cmd.Process.Kill()
			<-p.done
		}
		if t.Failed() && os.Getenv("STOA_BIN") == "" {
			t.Logf("output of stoa %s:\n%s", args[0], p.output)
		}
	})
	return p
}

// run runs a command of the binary to its end.
func (h *hub) run(t testing.TB, args ...string) (string, error) {
	t.Helper()
	cmd := command(t, h, args...)
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("stoa %s: %w: %s%s", strings.Join(args, " "), err, out.String(), failure.String())
	}
	return out.String(), nil
}

// token makes a token for somebody, and waits until the hub knows it.
func (h *hub) token(t testing.TB, name string, flags ...string) string {
	t.Helper()
	out, err := h.run(t, append([]string{"token", "create", name, "--data", h.data, "--config", h.config, "--json"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	secret := secretOf(t, out)
	await.NoError(t, "the token of "+name+" is known", func() error {
		if got := h.get(t, "/api/v1/tools", secret); got.status != http.StatusOK {
			return fmt.Errorf("%d %s", got.status, got.text)
		}
		return nil
	})
	return secret
}

// secretOf reads what `stoa token create --json` printed.
func secretOf(t testing.TB, out string) string {
	t.Helper()
	var made struct{ Secret, Token string }
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return cmp.Or(made.Secret, made.Token)
}

// reply is what a request got.
type reply struct {
	status int
	text   string
	header http.Header
	whole  string // with what a stream told before the answer
}

func (h *hub) get(t testing.TB, path, token string) reply {
	t.Helper()
	return h.send(t, http.MethodGet, path, token, nil, nil)
}

func (h *hub) post(t testing.TB, path, token string, body any) reply {
	t.Helper()
	return h.send(t, http.MethodPost, path, token, nil, body)
}

func (h *hub) send(t testing.TB, method, path, token string, header http.Header, body any) reply {
	t.Helper()
	got, err := h.try(method, path, token, header, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return got
}

// try is send for goroutines, which cannot end a test.
func (h *hub) try(method, path, token string, header http.Header, body any) (reply, error) {
	var text io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return reply{}, err
		}
		text = bytes.NewReader(b)
	}
	request, err := http.NewRequest(method, "http://"+h.address+path, text)
	if err != nil {
		return reply{}, err
	}
	maps.Copy(request.Header, header)
	if body != nil && request.Header.Get("Content-Type") == "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if request.Header.Get("Accept") == "" {
		request.Header.Set("Accept", "application/json, text/event-stream")
	}
	if strings.HasPrefix(path, "/api/chat") {
		request.Header.Set("Accept", "application/json")
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	whole := string(got)
	if request.Method == http.MethodPost && strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		got = lastEvent(got)
	}
	return reply{status: response.StatusCode, text: string(got), header: response.Header, whole: whole}, err
}

// lastEvent is the answer at the end of a stream that tells something else before it.
func lastEvent(stream []byte) []byte {
	var last []byte
	for line := range bytes.Lines(stream) {
		if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:")); ok && len(bytes.TrimSpace(data)) > 0 {
			last = bytes.TrimSpace(data)
		}
	}
	return last
}

// rpc is a JSON-RPC request.
func rpc(method string, params object) object {
	return object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
}
