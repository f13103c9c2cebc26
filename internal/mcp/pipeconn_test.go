package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

func members(obj string) []wire.Field { return wire.Members([]byte(obj)) }

func isLost(err error) bool    { return errors.Is(err, ErrLost) && !errors.Is(err, ErrNotSent) }
func isNotSent(err error) bool { return errors.Is(err, ErrNotSent) }

func TestPipeConnPassesOverGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var garbage []string
		c, f := pipeTo(t, ConnOptions{}, func(line []byte) { garbage = append(garbage, string(line)) })
		call := start(t.Context(), c, request("tools/list", ""))
		f.got(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		f.say("Server started on stdio", "", `{"jsonrpc":"2.0","id":1}`, `{"jsonrpc":"2.0","id":9,"result":{"of":"nobody"}}`,
			`{"jsonrpc":"2.0","id":"x","result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`)
		call.want(t, `{"tools":[]}`)
		if diff := cmp.Diff([]string{"Server started on stdio", `{"jsonrpc":"2.0","id":1}`}, garbage); diff != "" {
			t.Error(diff)
		}
		f.hangUp()
		c.Close()
	})
}

func TestPipeConnEnds(t *testing.T) {
	for name, last := range map[string]string{
		"closed":           "",
		"half a frame":     `{"jsonrpc":"2.0","id":1,"result"`,
		"over-long, split": strings.Repeat("y", 2000),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, f := pipeTo(t, ConnOptions{MessageBytes: 1000}, nil)
				call := start(t.Context(), c, request("tools/list", ""))
				f.got(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
				if last != "" {
					f.w.Write([]byte(last))
				}
				f.w.Close()
				call.wantErr(t, isLost)
				<-c.Done()
				if !isLost(c.Err()) {
					t.Errorf("Err() = %v", c.Err())
				}
				if _, err := c.Call(t.Context(), request("ping", "")); !isNotSent(err) {
					t.Errorf("a call after the end: %v", err)
				}
				f.hangUp()
				c.Close()
			})
		})
	}
}

// A message that is too long concerns whoever waits for it, and nobody else.
func TestPipeConnPassesOverLongMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := pipeTo(t, ConnOptions{MessageBytes: 1000}, nil)
		long := strings.Repeat("x", 2000)
		var calls []*outcome
		for range 3 {
			calls = append(calls, start(t.Context(), c, request("tools/list", "")))
			f.in.ReadString('\n')
		}
		f.say(`{"jsonrpc":"2.0","id":1,"result":"`+long+`"}`, `{"result":"`+long+`","jsonrpc":"2.0","id":"2"}`)
		for _, call := range calls[:2] {
			call.wantErr(t, func(err error) bool {
				return fault.Is(err, fault.Limit) && strings.Contains(err.Error(), "larger than 1000 bytes") && strings.Contains(fault.Of(err).Hint, "limits.messageBytes")
			})
		}
		f.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"`+long+`"}}`, long, `{"jsonrpc":"2.0","id":9,"result":"`+long+`"}`)
		go io.WriteString(f.w, `{"jsonrpc":"2.0","id":"ask","method":"sampling/createMessage","params":{"text":"`+long+`"}}`+"\n")
		if line, err := f.in.ReadString('\n'); err != nil || !strings.Contains(line, `"id":"ask"`) || !strings.Contains(line, "larger than 1000 bytes") {
			t.Errorf("a long request was answered with %s, %v", line, err)
		}
		f.say(`{"jsonrpc":"2.0","id":3,"result":{"n":3}}`)
		calls[2].want(t, `{"n":3}`)
		f.hangUp()
		c.Close()
	})
}

func TestPipeConnAnswersInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := pipeTo(t, ConnOptions{}, nil)
		var calls []*outcome
		for range 3 {
			calls = append(calls, start(t.Context(), c, request("tools/list", "")))
			f.in.ReadString('\n')
		}
		f.say(`{"jsonrpc":"2.0","id":3,"result":{"n":3}}`, `{"jsonrpc":"2.0","id":"1","result":{"n":1}}`,
			`{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"no"}}`, `{"jsonrpc":"2.0","id":2,"result":{"n":"again"}}`)
		calls[2].want(t, `{"n":3}`)
		calls[0].want(t, `{"n":1}`)
		<-calls[1].done
		if string(calls[1].resp.Error) != `{"code":-1,"message":"no"}` {
			t.Errorf("error %s, %v", calls[1].resp.Error, calls[1].err)
		}
		f.hangUp()
		c.Close()
	})
}

func TestPipeConnCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := pipeTo(t, ConnOptions{}, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		rec := &recorder{}
		call := start(ctx, c, &Outgoing{Method: "tools/call", Stream: rec})
		f.got(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
		cancel(errors.New("enough"))
		f.got(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`)
		call.wantErr(t, func(err error) bool { return err.Error() == "enough" })
		f.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}`, `{"jsonrpc":"2.0","id":1,"result":{"late":true}}`)
		next := start(t.Context(), c, request("tools/list", ""))
		f.got(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		f.say(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		next.want(t, `{}`)
		if heard := rec.heard(); len(heard) != 0 {
			t.Errorf("a cancelled call heard %q", heard)
		}
		f.hangUp()
		c.Close()
	})
}

// A server that reads nothing keeps its callers only as long as they want to
// wait, and then lets them go one by one.
func TestPipeConnServerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := pipeTo(t, ConnOptions{}, nil)
		var calls []*outcome
		for i := range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Second)
			defer cancel()
			calls = append(calls, start(ctx, c, request("tools/call", "")))
		}
		began := time.Now()
		for i, call := range calls {
			call.wantErr(t, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) })
			if late := time.Since(began) - time.Duration(i+1)*time.Second; late > 2*time.Second {
				t.Errorf("call %d came back %v late", i, late)
			}
		}
		f.hangUp()
		c.Close()
	})
}

func TestPipeConnOrderOfNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shared []string
		c, f := pipeTo(t, ConnOptions{Note: func(method string, params []byte) { shared = append(shared, method+" "+string(params)) }}, nil)
		rec := &recorder{}
		call := start(t.Context(), c, &Outgoing{
			Method: "tools/call", Raw: []byte(`{"name":"x","_meta":{"progressToken":"mine"}}`), Fields: members(`{"name":"x","_meta":{"progressToken":"mine"}}`),
			Meta: members(`{"progressToken":"mine"}`), Token: []byte(`"mine"`), Stream: rec, Client: &Client{Era: Legacy},
		})
		f.got(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":1}}}`)
		f.say(
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a"}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":2,"progressToken":"1"}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":77,"progress":2}}`,
			`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
			`{"jsonrpc":"2.0","method":"notifications/vendor","params":{"v":1}}`,
			`{"jsonrpc":"2.0","id":1,"result":{}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":3}}`)
		call.want(t, `{}`)
		if diff := cmp.Diff([]string{
			`notifications/progress {"progressToken":"mine","progress":1}`,
			`notifications/message {"level":"info","data":"a"}`,
			`notifications/progress {"progress":2,"progressToken":"mine"}`,
		}, rec.heard()); diff != "" {
			t.Errorf("on the call's stream: %s", diff)
		}
		if diff := cmp.Diff([]string{"notifications/tools/list_changed ", `notifications/vendor {"v":1}`}, shared); diff != "" {
			t.Errorf("on no call's stream: %s", diff)
		}
		f.hangUp()
		c.Close()
	})
}

// On a connection that several clients share, a question of the server goes
// to the only client that could be meant, or to nobody.
func TestPipeConnAttribution(t *testing.T) {
	caps := []byte(`{"elicitation":{}}`)
	ask := func(context.Context, string) (Response, error) {
		return Response{Result: []byte(`{"action":"accept"}`)}, nil
	}
	able := func(connection string) *Outgoing {
		return &Outgoing{Method: "tools/call", Stream: &recorder{ask: ask}, Client: &Client{Era: Legacy, Capabilities: caps, Connection: connection}}
	}
	mute := func(connection string) *Outgoing {
		return &Outgoing{Method: "tools/call", Stream: &recorder{}, Client: &Client{Era: Legacy, Capabilities: caps, Connection: connection}}
	}
	alone := &Outgoing{Method: "tools/call", Client: &Client{Era: Modern}} // of a program, say, or a step of a plan
	lists := &Outgoing{Method: "tools/list", Stream: &recorder{ask: ask}, Client: able("b").Client}
	mutely := &Outgoing{Method: "tools/list", Client: able("b").Client}
	for name, tc := range map[string]struct {
		running []*Outgoing
		method  string
		answer  bool
	}{
		"nobody runs":                      {nil, "elicitation/create", false},
		"one that can":                     {[]*Outgoing{able("a")}, "elicitation/create", true},
		"one that lacks the capability":    {[]*Outgoing{able("a")}, "sampling/createMessage", false},
		"one that cannot be reached":       {[]*Outgoing{mute("mute")}, "elicitation/create", false},
		"one that can among others":        {[]*Outgoing{mute("mute"), able("a")}, "elicitation/create", false},
		"one that can beside one alone":    {[]*Outgoing{alone, able("a")}, "elicitation/create", false},
		"one that can beside the hub":      {[]*Outgoing{able("a"), {Method: "tools/call"}}, "elicitation/create", true},
		"one that can beside a list":       {[]*Outgoing{mutely, able("a")}, "elicitation/create", true},
		"one that can beside one that may": {[]*Outgoing{lists, able("a")}, "elicitation/create", false},
		"one that lists":                   {[]*Outgoing{lists}, "elicitation/create", true},
		"a client that can by one of two":  {[]*Outgoing{mute("a"), able("a")}, "elicitation/create", true},
		"two of one client":                {[]*Outgoing{able("a"), able("a")}, "elicitation/create", true},
		"two of two clients":               {[]*Outgoing{able("a"), able("b")}, "elicitation/create", false},
		"two that stand alone":             {[]*Outgoing{able(""), able("")}, "elicitation/create", false},
		"a method that does not exist":     {[]*Outgoing{able("a")}, "elicitation/destroy", false},
		"roots, which were never declared": {[]*Outgoing{able("a")}, "roots/list", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var refused, told []string
				var mu sync.Mutex // calls that are taken back tell of that, each by itself
				c, f := pipeTo(t, ConnOptions{
					Refused: func(method string) { refused = append(refused, method) },
					Aside: func(a Aside) {
						mu.Lock()
						defer mu.Unlock()
						told = append(told, fmt.Sprintf("%s %v %v", a.Method, a.Sent, bytes.Contains(a.Answer, []byte(`"code"`))))
					},
				}, nil)
				ctx, cancel := context.WithCancel(t.Context())
				var calls []*outcome
				for _, o := range tc.running {
					calls = append(calls, start(ctx, c, o))
					f.in.ReadString('\n')
				}
				f.say(`{"jsonrpc":"2.0","id":"q","method":"` + tc.method + `","params":{}}`)
				line, _ := f.in.ReadString('\n')
				if got := strings.Contains(line, `"action":"accept"`); got != tc.answer {
					t.Errorf("the server got %s", line)
				}
				_, known := askable[tc.method]
				if want := !tc.answer && known; want != slices.Contains(refused, tc.method) {
					t.Errorf("refused %q", refused)
				}
				f.say(`{"jsonrpc":"2.0","id":0,"method":"ping"}`)
				f.got(`{"jsonrpc":"2.0","id":0,"result":{}}`)
				want := []string{tc.method + " false true", "ping false false"}
				if tc.answer {
					want = want[1:] // the client answers, and that belongs to its call
				}
				mu.Lock()
				if !slices.Equal(told, want) {
					t.Errorf("told of %q", told)
				}
				mu.Unlock()
				cancel()
				f.hangUp()
				for _, call := range calls {
					<-call.done
				}
				c.Close()
			})
		})
	}
}

// A log line goes to the only client that it can be about, if that wants it, and
// never to another because that one would.
func TestPipeConnLogAttribution(t *testing.T) {
	modern := func(level string) *Outgoing {
		return &Outgoing{Method: "tools/call", LogLevel: level, Client: &Client{Era: Modern}}
	}
	legacy := func(connection, level string) *Outgoing {
		o := &Outgoing{Method: "tools/call", Client: &Client{Era: Legacy, Connection: connection}}
		if level != "" {
			o.Client.setLogLevel(level)
		}
		return o
	}
	for name, tc := range map[string]struct {
		era     Era
		running []*Outgoing
		want    []int // which of them are told
	}{
		"one that wants it":                      {Legacy, []*Outgoing{legacy("a", "")}, []int{0}},
		"one that wants less":                    {Legacy, []*Outgoing{legacy("a", "error")}, nil},
		"one beside one that asked for none":     {Legacy, []*Outgoing{modern(""), legacy("a", "")}, nil},
		"one beside one that wants less":         {Legacy, []*Outgoing{legacy("b", "error"), legacy("a", "")}, nil},
		"one beside one that lists":              {Legacy, []*Outgoing{{Method: "tools/list", Client: &Client{Era: Modern}}, legacy("a", "")}, nil},
		"one beside the hub's own":               {Legacy, []*Outgoing{{Method: "tools/list"}, legacy("a", "")}, []int{1}},
		"two of one client":                      {Legacy, []*Outgoing{legacy("a", ""), legacy("a", "")}, []int{0}},
		"modern: beside one that asked for none": {Modern, []*Outgoing{modern(""), modern("info")}, []int{1}},
		"modern: two that want it":               {Modern, []*Outgoing{modern("info"), modern("debug")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, f := pipeTo(t, ConnOptions{}, nil)
				c.agree(tc.era, "")
				ctx, cancel := context.WithCancel(t.Context())
				var calls []*outcome
				var told []*recorder
				for _, o := range tc.running {
					rec := &recorder{}
					o.Stream = rec
					told = append(told, rec)
					calls = append(calls, start(ctx, c, o))
					f.in.ReadString('\n')
				}
				f.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"secret"}}`, `{"jsonrpc":"2.0","id":0,"method":"ping"}`)
				f.got(`{"jsonrpc":"2.0","id":0,"result":{}}`)
				synctest.Wait()
				for i, rec := range told {
					if got := len(rec.heard()) > 0; got != slices.Contains(tc.want, i) {
						t.Errorf("request %d was told %q", i, rec.heard())
					}
				}
				cancel()
				f.hangUp()
				for _, call := range calls {
					<-call.done
				}
				c.Close()
			})
		})
	}
}

// A question ends with the call it belongs to, or when the server takes it back.
func TestPipeConnQuestionEnds(t *testing.T) {
	for name, end := range map[string]string{
		"server takes it back": `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`,
		"call is answered":     `{"jsonrpc":"2.0","id":1,"result":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, f := pipeTo(t, ConnOptions{}, nil)
				ended := make(chan error, 1)
				rec := &recorder{ask: func(ctx context.Context, _ string) (Response, error) {
					<-ctx.Done()
					ended <- context.Cause(ctx)
					return Response{}, context.Cause(ctx)
				}}
				call := start(t.Context(), c, &Outgoing{Method: "tools/call", Stream: rec, Client: &Client{Era: Legacy, Capabilities: []byte(`{"elicitation":{}}`)}})
				f.in.ReadString('\n')
				f.say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`, end)
				<-ended
				if line, _ := f.in.ReadString('\n'); !strings.HasPrefix(line, `{"jsonrpc":"2.0","id":"q","error":`) {
					t.Errorf("the server got %s", line)
				}
				f.say(`{"jsonrpc":"2.0","id":1,"result":{}}`)
				call.want(t, `{}`)
				f.hangUp()
				c.Close()
			})
		})
	}
}

func TestPipeConnRefusesToSendTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := pipeTo(t, ConnOptions{MessageBytes: 100}, nil)
		if _, err := c.Call(t.Context(), request("tools/call", `{"pad":"`+strings.Repeat("x", 200)+`"}`)); !fault.Is(err, fault.TooLarge) {
			t.Errorf("got %v", err)
		}
		f.hangUp()
		c.Close()
	})
}

func TestHandshakes(t *testing.T) {
	for name, tc := range map[string]struct {
		shake  func(context.Context, Conn) (*Hello, error)
		answer string
		want   string // of the introduction, or of the error
	}{
		"legacy":         {legacyShake, `"result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"s"}}`, `legacy 2025-03-26 {"tools":{}} {"name":"s"} [legacy]`},
		"legacy, refuse": {legacyShake, `"error":{"code":-32601,"message":"no"}`, `the server answered {"code":-32601,"message":"no"}`},
		"legacy, alien":  {legacyShake, `"result":{"protocolVersion":"2031-01-01","capabilities":{}}`, `initialize: the server wants protocol version "2031-01-01", which we do not speak`},
		"legacy, bare":   {legacyShake, `"result":{"protocolVersion":"2025-11-25"}`, `legacy 2025-11-25 {}  [legacy]`},
		"modern":         {Discover, `"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m"}}}`, `modern 2026-07-28 {"tools":{}} {"name":"m"} [modern]`},
		"dual":           {Discover, `"result":{"supportedVersions":["2025-11-25","2026-07-28"],"capabilities":[]}`, `modern 2026-07-28 {}  [legacy modern]`},
		"modern, silent": {Discover, `"result":{"capabilities":{}}`, `server/discover: the server names no supported versions`},
		"modern, alien":  {Discover, `"result":{"supportedVersions":["2031-01-01"]}`, `server/discover: the server speaks [2031-01-01]`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, f := pipeTo(t, ConnOptions{}, nil)
				go func() {
					f.in.ReadString('\n')
					f.w.Write([]byte(`{"jsonrpc":"2.0","id":1,` + tc.answer + "}\n"))
					f.in.ReadString('\n') // notifications/initialized
				}()
				h, err := tc.shake(t.Context(), c)
				got := ""
				if err != nil {
					got = err.Error()
				} else {
					got = strings.Join([]string{h.Era.String(), h.Version, string(h.Capabilities), string(h.Info), "[" + strings.Join(h.Eras().Strings(), " ") + "]"}, " ")
				}
				if got != tc.want {
					t.Errorf("got %s\nwant %s", got, tc.want)
				}
				f.hangUp()
				c.Close()
			})
		})
	}
}

func legacyShake(ctx context.Context, c Conn) (*Hello, error) {
	return Initialize(ctx, c, []byte("{}"), nil)
}
