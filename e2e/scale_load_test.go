package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/hubtest/proc"
)

var builtBench = sync.OnceValues(func() (string, error) { return build("bench", "./bench") })

// wideUpstream runs a server of so many tools, echo_00000 and on, in a process of its own until the test ends, and
// returns its URL. It is the benchmark's, which does as little for a call as a server can.
func wideUpstream(t *testing.T, tools int) string {
	t.Helper()
	program, err := builtBench()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "role", "upstream", "-tools", strconv.Itoa(tools))
	cmd.Stderr = os.Stderr
	stdin, stdout, err := proc.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close() // it ends with it
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server of %d tools: %v", tools, err)
		}
	})
	var note struct{ Address string }
	line, err := stdout.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &note)
	}
	if err != nil {
		t.Fatalf("the server of %d tools did not say its address: %v", tools, err)
	}
	return "http://" + note.Address + "/mcp"
}

// crowd is a hub with much in it: tools, Sessions that hold something, one Session that holds much, and a plan that ran.
type crowd struct {
	hub
	tools, sessions int
	token           string
	pid             int
	http            *http.Client
}

func newCrowd(t *testing.T, set toolset, tools, sessions int) *crowd {
	t.Helper()
	command, args, env := peer.Command(peer.Spec{Tools: []peer.Tool{{Name: "echo"},
		{Name: "no", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"content":[{"type":"text","text":"closed"}],"isError":true}`}}}})
	h := startHub(t, set, map[string]server{"shop": {Command: command, Args: args, Env: env},
		"wide": {URL: wideUpstream(t, tools-tools/10)}, "side": {URL: wideUpstream(t, tools/10)}})
	c := &crowd{hub: h, tools: tools, sessions: sessions, token: ownToken(t, h), pid: h.pid(t)}
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	c.http = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	c.fill(t)
	return c
}

// fill stores a value in each Session, and as many again in one.
func (c *crowd) fill(t *testing.T) {
	t.Helper()
	const atOnce = 8
	errs := make(chan error, atOnce)
	for w := range atOnce {
		go func() {
			for i := w; i < 2*c.sessions; i += atOnce {
				session, name := fmt.Sprintf("s%04d", i), "v"
				if i >= c.sessions {
					session, name = "big", fmt.Sprintf("v%04d", i-c.sessions)
				}
				if err := c.call("context_add?session="+session, fmt.Sprintf(`{"name":%q,"data":{"of":%q,"rows":[1,2,3]}}`, name, session), true); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range atOnce {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if err := c.call("plan_execute?session=big", `{"plan":{"title":"one step","steps":[{"id":"a","tool":"shop__echo","args":{}}]}}`, true); err != nil {
		t.Fatal(err)
	}
}

// call calls a tool over the JSON API, and checks whether it says yes as it should.
func (c *crowd) call(tool, args string, want bool) error {
	request, err := http.NewRequest("POST", "http://"+c.address+"/api/tools/"+tool, strings.NewReader(args))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var answer struct{ Success *bool }
	if err := json.Unmarshal(text, &answer); err != nil || answer.Success == nil || *answer.Success != want {
		return fmt.Errorf("%s: %s: %v: %.500s", tool, response.Status, err, text)
	}
	return nil
}

// rss is the memory of the hub's process, in bytes.
func (c *crowd) rss(t *testing.T) float64 {
	t.Helper()
	n, err := proc.Resident(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	return float64(n)
}

// events is the number of the last record of the hub.
func (c *crowd) events(t *testing.T) int64 {
	t.Helper()
	request, err := http.NewRequest("GET", "http://"+c.address+"/api/v1/events?types=health&wait=0s&level=error", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := c.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var page struct{ Next int64 }
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil {
		t.Fatal(err)
	}
	return page.Next
}

// callers make calls at a pace.
type callers struct {
	made atomic.Int64
	stop func() // waits until the last call is answered; says what went wrong
}

// drive makes so many calls a second until the test ends or stop is called. They go to all tools in turn, every other
// one in a Session, and each hundredth to a tool that says no. All have to be answered as they should be.
func (c *crowd) drive(t *testing.T, perSecond int) *callers {
	t.Helper()
	d := &callers{}
	ctx, cancel := context.WithCancel(context.Background())
	const atOnce = 8
	due := make(chan int, perSecond)
	errs := make([]error, atOnce)
	var group sync.WaitGroup
	for w := range atOnce {
		group.Go(func() {
			for i := range due {
				if err := c.one(i); err != nil {
					errs[w] = err
					cancel()
					continue
				}
				d.made.Add(1)
			}
		})
	}
	group.Go(func() {
		defer close(due)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		began, next := time.Now(), 0
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				for owed := int(now.Sub(began).Seconds() * float64(perSecond)); next < owed; next++ {
					select {
					case due <- next:
					default: // it cannot keep the pace; what it does reach is reported
					}
				}
			}
		}
	})
	d.stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(d.stop)
	return d
}

func (c *crowd) one(i int) error {
	tool := fmt.Sprintf("wide__echo_%05d", i%(c.tools-c.tools/10))
	switch {
	case i%100 == 99:
		return c.call("shop__no", "{}", false)
	case i%2 == 0:
		tool += fmt.Sprintf("?session=s%04d", i%c.sessions)
	}
	return c.call(tool, `{"text":"hello"}`, true)
}
