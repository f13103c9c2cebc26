package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func TestScripts(t *testing.T) {
	nats := storetest.StartServer(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("NATS", nats.URL) // a store that hubs share
			return setup(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    cmdExits,
			"until":    cmdUntil,
			"await":    cmdAwait,
			"up":       cmdUp,
			"signal":   cmdSignal,
			"frames":   cmdFrames,
			"occupy":   cmdOccupy,
			"save":     cmdSave,
			"fill":     cmdFill,
			"wsagents": cmdAgents,
		},
	})
}

// alpha is the usual server of the scripts.
func alpha(work string) peer.Spec {
	return peer.Spec{
		Name: "alpha", StatePath: filepath.Join(work, "alpha.state"),
		Tools: []peer.Tool{
			{Name: "echo", RawDefinition: `{"name":"echo","description":"Says what it hears.\nAnd more.","inputSchema":{"type":"object","properties":` +
				`{"text":{"type":"string","description":"What to say."},"n":{"type":"integer"},"ok":{"type":"boolean"},"tags":{"type":"array","items":{"type":"string"}},` +
				`"deep":{"type":"object","properties":{"er":{"type":"string"}}}},"required":[]}}`},
			{Name: "strict", RawDefinition: `{"name":"strict","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`},
			{Name: "region", RawDefinition: `{"name":"region","inputSchema":{"type":"object","properties":{"where":{"type":"string","x-mcp-header":"Where"}}}}`},
			{Name: "no", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"content":[{"type":"text","text":"the tool is closed"}],"isError":true,"resultType":"complete"}`}},
			{Name: "picture", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"content":[{"type":"image","data":"AAAA","mimeType":"image/png"}],"resultType":"complete"}`}},
			{Name: "needs", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"resultType":"input_required","requestState":"s","inputRequests":{}}`}},
			{Name: "rude", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32099,"message":"not today","data":"just a text"}`}},
			{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: 2 * time.Second}},
			{Name: "hang", Behaviour: peer.Do(peer.Hang)},
			{Name: "steps", Behaviour: peer.Behaviour{Kind: peer.Progress, N: 3}},
			{Name: "ask", Behaviour: peer.Do(peer.Elicit)},
		},
		Prompts:   []peer.Prompt{{Name: "greet", RawDefinition: `{"name":"greet","description":"A greeting.","arguments":[{"name":"who","required":true},{"name":"how"}]}`}},
		Resources: []peer.Resource{{URI: "note://one", Text: "the first note"}},
		Templates: []peer.Template{{URITemplate: "note://by/{name}"}},
	}
}

// builtStoa is the folder of a stoa without the race detector, which the scripts
// use: it starts in a tenth of the time, and there are hundreds of starts. In
// the long form they use the test binary itself, and there is no such folder.
var builtStoa = sync.OnceValues(func() (string, error) {
	if os.Getenv("STOA_SOAK") == "1" {
		return "", nil
	}
	folder, err := os.MkdirTemp("", "stoa-cli-")
	if err != nil {
		return "", err
	}
	builtFolder = folder
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(folder, "stoa"), "../..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, said)
	}
	return folder, nil
})

var builtFolder string // of builtStoa, if there is one

// setup gives each script a data folder and config files over real servers.
func setup(env *testscript.Env) error {
	if folder, err := builtStoa(); err != nil {
		return err
	} else if folder != "" {
		env.Setenv("PATH", folder+string(os.PathListSeparator)+env.Getenv("PATH"))
	}
	env.Setenv("STOA_DATA", filepath.Join(env.WorkDir, "data"))
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	examples, err := filepath.Abs("../../examples/agents")
	if err != nil {
		return err
	}
	env.Setenv("EXAMPLES", examples)
	env.Defer(func() { endHub(filepath.Join(env.WorkDir, "data")) })
	noisy := peer.Spec{Name: "noisy", Tools: []peer.Tool{{Name: "hello"}}, Quirks: peer.Quirks{Garbage: true, StderrNoise: 5}}
	quiet := peer.Spec{Name: "quiet", Era: peer.EraLegacy, Tools: []peer.Tool{{Name: "echo"}, {Name: "only", Behaviour: peer.Do(peer.Params)}}}
	odd := peer.Spec{Name: "odd", Tools: []peer.Tool{
		{Name: "a.b"}, {Name: "bad", RawDefinition: `{"name":"bad","inputSchema":{"type":"object","properties":{"x":{"type":"nonsense"}}}}`}, {Name: "bare", RawDefinition: `{"name":"bare"}`},
	}}
	slow := peer.Spec{Name: "slow", Tools: []peer.Tool{{Name: "echo"}}, Quirks: peer.Quirks{SlowStart: 2 * time.Second}}
	broken := map[string]any{"command": filepath.Join(env.WorkDir, "no-such-program")}
	for name, servers := range map[string]map[string]any{
		"one.jsonc":    {"alpha": entry(alpha(env.WorkDir))},
		"two.jsonc":    {"alpha": entry(alpha(env.WorkDir)), "quiet": entry(quiet)},
		"noisy.jsonc":  {"noisy": entry(noisy)},
		"broken.jsonc": {"broken": broken, "quiet": entry(quiet)},
		"empty.jsonc":  {},
		"odd.jsonc":    {"odd": entry(odd)},
		"slow.jsonc":   {"slow": entry(slow)},
	} {
		writeConfig(env.T(), filepath.Join(env.WorkDir, name), servers)
	}
	return nil
}

// endHub ends the hub of a data folder, if one was left running.
func endHub(data string) {
	if note := noted(data); note != nil {
		_ = syscall.Kill(note.Pid, syscall.SIGKILL)
	}
}

// writeConfig writes a config file over servers.
func writeConfig(t interface{ Fatal(...any) }, path string, servers map[string]any) {
	text, err := json.MarshalIndent(map[string]any{"stoa": 1, "servers": servers}, "", "  ")
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func entry(spec peer.Spec) map[string]any {
	command, args, env := peer.Command(spec)
	return map[string]any{"command": command, "args": args, "env": env}
}

// patience bounds what a script waits for; it is long because machines may be
// busy, and nothing waits for it when all is well.
const patience = await.Patience

// poll asks until there is no error, or too much time has passed.
func poll(ts *testscript.TestScript, what string, ask func() error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			ts.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

// exits N program args… runs a program that must end with status N.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits status program [arguments]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// until PATTERN program args… runs a program until it prints text of that form:
// a server that fails is tried again and again, and looks better in between.
func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until pattern program [arguments]")
	}
	form := regexp.MustCompile("(?m)" + args[0])
	poll(ts, "until "+args[0], func() error {
		err := ts.Exec(args[1], args[2:]...)
		if said := ts.ReadFile("stdout") + ts.ReadFile("stderr"); !form.MatchString(said) {
			return fmt.Errorf("%q (%v)", said, err)
		}
		return nil
	})
}

// await FILE PATTERN waits until a file has text of that form.
func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await file pattern")
	}
	form := regexp.MustCompile(args[1])
	poll(ts, "await "+args[0], func() error {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && !form.Match(b) {
			err = fmt.Errorf("%q does not match %s", b, form)
		}
		return err
	})
}

// up waits until the hub of a data folder has reached all its servers, and puts
// its address into $HUB and $ADDRESS and its process into $PID.
func cmdUp(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: up [folder]")
	}
	data := ts.Getenv("STOA_DATA")
	if len(args) == 1 {
		data = ts.MkAbs(args[0])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	poll(ts, "up", func() error {
		note, err := hub.ReadRunning(data)
		if err != nil {
			return err
		}
		ts.Setenv("HUB", "http://"+note.Address)
		ts.Setenv("ADDRESS", note.Address)
		ts.Setenv("PID", strconv.Itoa(note.Pid))
		return reached(client, "http://"+note.Address+"/mcps")
	})
}

// reached fails unless the lists of all agents have been read.
func reached(client *http.Client, url string) error {
	var all struct{ Agents []struct{ Name string } }
	if err := fetch(client, url, &all); err != nil {
		return err
	}
	for _, a := range all.Agents {
		var one struct {
			State string
			Stale bool
			Tools int
			// Unlisted ones are dialled when somebody asks for them.
			Unlisted bool
		}
		if err := fetch(client, url+"/"+a.Name, &one); err != nil {
			return err
		}
		if !one.Unlisted && (one.State != "connected" || one.Stale || one.Tools == 0) {
			return fmt.Errorf("server %s: %+v", a.Name, one)
		}
	}
	return nil
}

func fetch(client *http.Client, url string, into any) error {
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(into)
}

// signal NAME PID sends a signal.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	names := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT, "HUP": syscall.SIGHUP}
	if neg || len(args) != 2 || names[args[0]] == 0 {
		ts.Fatalf("usage: signal TERM|INT|KILL|STOP|CONT|HUP pid")
	}
	pid, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(syscall.Kill(pid, names[args[0]]))
}

// frames ID… checks that stdout is JSON-RPC messages, one a line, and that the
// responses among them are those to the ids.
func cmdFrames(ts *testscript.TestScript, neg bool, args []string) {
	var got []string
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		var m struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Method  string          `json:"method"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.Version != "2.0" {
			ts.Fatalf("stdout has a line that is no message: %q (%v)", line, err)
		}
		if m.Method == "" {
			got = append(got, string(m.ID))
		}
	}
	slices.Sort(got)
	slices.Sort(args)
	if !slices.Equal(got, args) {
		ts.Fatalf("responses to %v, want to %v", got, args)
	}
}

// occupy [FOLDER] listens on an address as another program, puts it into
// $ADDRESS, and makes hub.json of the data folder name it.
func cmdOccupy(ts *testscript.TestScript, neg bool, args []string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	server := &http.Server{Handler: http.NotFoundHandler()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln) // says only that it was closed
	}()
	ts.Defer(func() {
		server.Close()
		<-done
	})
	ts.Setenv("ADDRESS", ln.Addr().String())
	if len(args) == 1 {
		note, err := json.Marshal(hub.Running{Address: ln.Addr().String(), Pid: os.Getpid()})
		ts.Check(err)
		ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[0]), "hub.json"), note, 0o600))
	}
}

// save NAME puts stdout without its last newline into a variable.
func cmdSave(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: save variable")
	}
	ts.Setenv(args[0], strings.TrimSuffix(ts.ReadFile("stdout"), "\n"))
}

// fill FILE N makes a log file of at least N bytes.
func cmdFill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fill file bytes")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, `{"time":%q,"level":"INFO","msg":"filler %d"}`+"\n", time.Now().Format(time.RFC3339Nano), i)
	}
	ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(args[0])), 0o700))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b.String()), 0o600))
}
