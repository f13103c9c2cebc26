package agentd

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/seal"
)

// steps are the progress notifications among messages, in short.
func steps(all []hubtest.Message) (out []string) {
	for _, m := range all {
		p := hubtest.Decode[struct {
			Progress, Total float64
			Message         string
		}](m.Params)
		out = append(out, fmt.Sprintf("%v/%v %s", p.Progress, p.Total, p.Message))
	}
	return out
}

func TestProgress(t *testing.T) {
	s := open(t, `
tools:
  work:
    command: [./work.sh]
`)
	s.write("work.sh", `#!/bin/sh
echo first
echo ::progress 1/4 begun
echo "::progress 2/4 on stderr" >&2
while [ ! -e heard ]; do sleep 0.01; done
echo ::progress 1/4 back
echo ::progress soon
printf '::progress 75%%\r\n'
echo ::progressive
printf '::progress 80 no end'
`)
	for _, era := range eras {
		os.Remove(s.path("heard"))
		x := s.client(era).Go("tools/call", hubtest.ToolParams("work", ""), `"progressToken":"t"`)
		// The order between the two streams is nobody's promise.
		before := []hubtest.Message{x.Next()}
		if first := steps(before); first[0] == "1/4 begun" {
			before = append(before, x.Next())
		}
		s.write("heard", "")
		rest, m := x.Wait()
		got := steps(append(before, rest...))
		want := []string{"1/4 begun", "2/4 on stderr", "75/100 ", "80/0 no end"}
		if got[0] != want[0] {
			want = want[1:]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: progress (-want +got):\n%s", era, diff)
		}
		if text := decode(t, m).Content[0].Text; text != "first\n::progress soon\n::progressive\n" {
			t.Errorf("%s: output %q", era, text)
		}
	}
	os.Remove(s.path("heard"))
	s.write("heard", "")
	if text := decode(t, s.client(hubtest.Modern).Tool("work", "")).Content[0].Text; text != "first\n::progress soon\n::progressive\n" {
		t.Errorf("without a token: output %q", text)
	}
}

const hang = `
queue: {capacity: 1, timeoutMs: 300000}
tools:
  hang:
    command: [./hang.sh]
    timeoutMs: 300000
  late:
    command: [./hang.sh]
    timeoutMs: 300
  deaf:
    command: [sh, -c, "trap '' TERM; echo $$$$ >self; while :; do sleep 1; done"]
    timeoutMs: 300
  alive:
    command: [sh, -c, "for i in 1 2 3 4 5 6; do echo ::progress $i; sleep 0.3; done; echo done"]
    timeoutMs: 1500
  max:
    command: [sh, -c, "i=0; while :; do i=$((i+1)); echo ::progress $i; done"]
    timeoutMs: 500
    maxTimeoutMs: 500
  leaves:
    command: [sh, -c, "sleep 1000 & echo $! >child; echo left"]
  quick:
    command: [echo, hi]
`

// hangStage has tools that start a child and wait for it.
func hangStage(t *testing.T) *stage {
	s := open(t, hang)
	s.write("hang.sh", "#!/bin/sh\nsleep 1000 &\necho $! >child\necho $$ >self\nwait\n")
	return s
}

func TestTimeout(t *testing.T) {
	s := hangStage(t)
	c := s.client(hubtest.Legacy)
	for _, name := range []string{"late", "deaf"} {
		f := c.Tool(name, "").Fault()
		if f.Code != -32003 || f.Data.Kind != "timeout" || !strings.Contains(f.Message, "did not end within 300ms") {
			t.Errorf("%s: %+v", name, f)
		}
		gone(t, s.pid("self"))
	}
	gone(t, s.pid("child"))
	if got := decode(t, c.Tool("alive", "")); got.Content[0].Text != "done\n" {
		t.Errorf("progress gives no more time: %+v", got)
	}
	if f := c.Tool("max", "").Fault(); f.Data.Kind != "timeout" {
		t.Errorf("progress gives time without end: %+v", f)
	}
	if f := s.client(hubtest.Modern).Tool("late", "").Fault(); f.Code != -31003 {
		t.Errorf("modern: %+v", f)
	}
}

// What a command leaves behind in its group goes with it.
func TestNothingIsLeft(t *testing.T) {
	s := hangStage(t)
	if got := decode(t, s.client(hubtest.Modern).Tool("leaves", "")); got.Content[0].Text != "left\n" {
		t.Errorf("%+v", got)
	}
	gone(t, s.pid("child"))
}

func TestCancel(t *testing.T) {
	s := hangStage(t)
	for _, how := range []string{"notification", "away"} {
		os.Remove(s.path("self"))
		c := s.client(hubtest.Legacy)
		x := c.Go("tools/call", hubtest.ToolParams("hang", ""))
		self, child := s.pid("self"), s.pid("child")
		if how == "away" {
			x.Close()
		} else {
			c.Notify("notifications/cancelled", `{"requestId":`+x.ID+`}`)
		}
		gone(t, self)
		gone(t, child)
		await.Until(t, "the slot is free", func() bool { return s.Status().Running == 0 })
	}
}

func TestCloseEndsCommands(t *testing.T) {
	s := hangStage(t)
	s.client(hubtest.Modern).Go("tools/call", hubtest.ToolParams("hang", ""))
	self, child := s.pid("self"), s.pid("child")
	s.Close()
	gone(t, self)
	gone(t, child)
}

func TestQueue(t *testing.T) {
	s := hangStage(t)
	c := s.client(hubtest.Legacy)
	first := c.Go("tools/call", hubtest.ToolParams("hang", ""))
	s.pid("self")
	second := c.Go("tools/call", hubtest.ToolParams("quick", ""), `"progressToken":7`)
	if got := steps([]hubtest.Message{second.Next()}); got[0] != "-1/0 waiting for desk: place 1 in its queue" {
		t.Errorf("place: %s", got)
	}
	m := c.Tool("quick", "")
	f := m.Fault()
	if f.Code != -32002 || f.Data.Kind != "queue_full" || !strings.Contains(string(m.Error), `"queued":1`) || !strings.Contains(string(m.Error), `"capacity":1`) {
		t.Errorf("full: %s", m.Error)
	}
	for _, path := range []string{"/status", "/"} {
		a := hubtest.Dial(t, s.url, hubtest.ClientOptions{Face: path}).Do(hubtest.Sent{Verb: "GET"})
		got := hubtest.Decode[map[string]any](a.Body)
		for key, want := range map[string]any{"name": "desk", "queued": 1.0, "running": 1.0, "concurrency": 1.0, "capacity": 1.0, "done": 0.0, "failed": 0.0, "averageMs": 0.0} {
			if got[key] != want {
				t.Errorf("GET %s: %s is %v, want %v", path, key, got[key], want)
			}
		}
	}
	first.Close()
	if got := decode(t, second.Response()); got.Content[0].Text != "hi\n" {
		t.Errorf("the one that waited: %+v", got)
	}
	await.Until(t, "both are counted", func() bool { st := s.Status(); return st.Done == 2 && st.Failed == 1 && st.AverageMs > 0 })
}

func TestQueueTimeout(t *testing.T) {
	s := open(t, "queue: {timeoutMs: 50}\ntools:\n  hang: {command: [sh, -c, 'echo $$$$ >self; exec sleep 1000'], timeoutMs: 300000}\n")
	c := s.client(hubtest.Legacy)
	c.Go("tools/call", hubtest.ToolParams("hang", ""))
	s.pid("self")
	if f := c.Tool("hang", "").Fault(); f.Code != -32003 || f.Data.Kind != "timeout" || !strings.Contains(f.Message, "waited 50ms in the queue") {
		t.Errorf("%+v", f)
	}
}

// A call that comes of one that runs must not wait for it.
func TestNestedCall(t *testing.T) {
	s := hangStage(t)
	chain := func(calls ...string) hubtest.Meta {
		text, err := seal.Random().Sign("stoac1.", map[string]any{"c": calls})
		if err != nil {
			t.Fatal(err)
		}
		if got := call.ReadChain(text); !cmp.Equal(got, calls) {
			t.Fatalf("chain %v, want %v", got, calls)
		}
		return hubtest.Meta(`"stoa/chain":` + hubtest.Quote(text))
	}
	c := s.client(hubtest.Modern)
	c.Go("tools/call", hubtest.ToolParams("hang", ""), chain("a", "b"))
	s.pid("self")
	if got := decode(t, c.Tool("quick", "", chain("a", "b", "c"))); got.Content[0].Text != "hi\n" {
		t.Errorf("%+v", got)
	}
	if st := s.Status(); st.Running != 1 || st.Done != 0 {
		t.Errorf("status %+v", st)
	}
}

func TestReap(t *testing.T) {
	start := func() *exec.Cmd {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	left, released := start(), start()
	Reap(strings.NewReader(fmt.Sprintf("+%d\n+%d\n-%d\n+1\n\nx\n", left.Process.Pid, released.Process.Pid, released.Process.Pid)))
	if err := left.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("what was left: %v", err)
	}
	if syscall.Kill(released.Process.Pid, 0) != nil {
		t.Error("what had ended its call was killed")
	}
	_ = released.Process.Kill()
	_ = released.Wait()
}
