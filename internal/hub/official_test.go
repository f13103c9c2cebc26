package hub_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// official is the official server in the legacy era, with a tool that ends its event stream before
// each of its steps, so that the client has to come again for the rest.
func official(t *testing.T) *httptest.Server {
	t.Helper()
	srv := sdk.NewServer(&sdk.Implementation{Name: "official", Version: "1"}, nil)
	sdk.AddTool(srv, &sdk.Tool{Name: "walk"}, func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		for n := range 3 {
			req.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: 20 * time.Millisecond})
			err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(n + 1)})
			if err != nil {
				return nil, nil, err
			}
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "there"}}}, nil, nil
	})
	sdk.AddTool(srv, &sdk.Tool{Name: "quiz"}, quiz)
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return srv },
		&sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)})
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		for s := range srv.Sessions() {
			s.Close()
		}
		web.CloseClientConnections()
		web.Close()
	})
	return web
}

// quiz asks three things at once, and a fourth when it knows them.
func quiz(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
	ask := func(what string) (string, error) {
		r, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: what, RequestedSchema: map[string]any{"type": "object"}})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s=%v", what, r.Content["is"]), nil
	}
	var wg sync.WaitGroup
	got, errs := make([]string, 3), make([]error, 3)
	for i := range got {
		wg.Go(func() { got[i], errs[i] = ask(fmt.Sprint("n", i)) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	last, err := ask("last")
	if err != nil {
		return nil, nil, err
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(append(got, last), " ")}}}, nil, nil
}

// What a legacy server asks at once is put to a modern client in one round,
// and what the client leaves out is asked again with what follows.
func TestQuestionsAtOnceComeInOneRound(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.HTTP("up", official(t).URL))
	c := h.Client(t, hubtest.ClientOptions{Capabilities: `{"elicitation":{"form":{}}}`})
	type demand struct {
		ResultType    string
		InputRequests map[string]struct{ Params struct{ Message string } }
		RequestState  string
	}
	round := func(m hubtest.Message, leave string) (messages, next string) {
		d := hubtest.Decode[demand](m.Result)
		var asked, answers []string
		for key, q := range d.InputRequests {
			asked = append(asked, q.Params.Message)
			if q.Params.Message != leave {
				answers = append(answers, fmt.Sprintf(`%q:{"action":"accept","content":{"is":"<%s>"}}`, key, q.Params.Message))
			}
		}
		slices.Sort(asked)
		return strings.Join(asked, " "), `,"inputResponses":{` + strings.Join(answers, ",") + `},"requestState":` + hubtest.Quote(d.RequestState)
	}
	const params = `{"name":"up__quiz","arguments":{}`
	await.Until(t, "what the server asks at once comes in one round", func() bool {
		m := c.Call("tools/call", params+"}")
		asked, next := round(m, "n1")
		rounds := []string{asked}
		for m = c.Call("tools/call", params+next+"}"); m.Text() == ""; m = c.Call("tools/call", params+next+"}") {
			if asked, next = round(m, ""); asked == "" {
				t.Fatalf("after %q: %s", rounds, m.Raw)
			}
			rounds = append(rounds, asked)
		}
		if m.Text() != "n0=<n0> n1=<n1> n2=<n2> last=<last>" {
			t.Fatalf("in the end %s", m.Raw)
		}
		// A server on a busy machine may be slow to ask, and then there are more.
		return slices.Equal(rounds, []string{"n0 n1 n2", "n1", "last"})
	})
}

// A legacy server that ends the stream of a call on purpose is asked for the
// rest, and the client gets all of it, in order, whatever its own era.
func TestStreamsThatTheServerEndsAreResumed(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.HTTP("up", official(t).URL))
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		c := h.Client(t, hubtest.ClientOptions{Era: era})
		before, response := c.Go("tools/call", hubtest.ToolParams("up__walk", "{}"), `"progressToken":"mine"`).Wait()
		var steps []string
		for _, m := range before {
			p := hubtest.Decode[struct {
				ProgressToken string
				Progress      float64
			}](m.Params)
			steps = append(steps, fmt.Sprint(p.ProgressToken, p.Progress))
		}
		if got := strings.Join(steps, " "); got != "mine1 mine2 mine3" || response.Text() != "there" {
			t.Errorf("%s: steps %q, then %s %s", era, got, response.Result, response.Error)
		}
	}
}

// A server that ends the stream and does not let it be resumed has lost the
// call, and the client is told so at once.
func TestStreamThatCannotBeResumedIsLost(t *testing.T) {
	hubtest.Parallel(t)
	web := official(t)
	through := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		web.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(through.Close)
	h := hubtest.New(t, hubtest.HTTP("up", through.URL))
	c := h.Client(t, hubtest.ClientOptions{})
	f := c.Tool("up__walk", "{}").Fault()
	if f.Data.Kind != "upstream_lost" || !strings.Contains(f.Message, "405") {
		t.Errorf("told %+v", f)
	}
}

// The official legacy server refuses unknown methods by a status and plain
// text; a client gets what the protocol has for it.
func TestUnknownMethodOfAnAgentThatSaysItByStatus(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.HTTP("up", official(t).URL))
	for era, status := range map[hubtest.Era]int{hubtest.Legacy: http.StatusOK, hubtest.Modern: http.StatusNotFound} {
		c := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/mcps/up/mcp"})
		for range 8 { // more than a breaker takes
			x := c.Go("no/such/method", "{}")
			f := x.Response().Fault()
			if f.Code != -32601 || f.Data.Kind != "unknown_method" || !strings.Contains(f.Message, `"no/such/method" unsupported`) || x.Status != status {
				t.Fatalf("%s: status %d, %+v", era, x.Status, f)
			}
		}
		if m := c.Call("tools/list", "{}"); !strings.Contains(string(m.Result), `"walk"`) {
			t.Errorf("%s: afterwards %s %s", era, m.Result, m.Error)
		}
	}
}
