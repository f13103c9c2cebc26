package hub_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/incident"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// things are all rows of the table, for hubs on a server and an agent that can be
// registered.
func things(server *storetest.Server, agent string) []*thing {
	const never = "nobody can change it"
	return []*thing{
		aValue("value", []string{"session"}, 10),
		aValue("value over the size of an entry", []string{"session", "blob"}, 600_000),
		aSession(), aSwitch(), aConnection(), aConversation(), aLongTask(), aRun(), aDecision(never),
		aFile(never),
		{name: "published plan", keeps: []string{"bucket_plans"},
			make: publish("first"), change: publish("second"),
			look:   func(c apiClient, key string) string { return missingIs(c, "/api/v1/plans/"+key, whole) },
			remove: func(c apiClient, key string) { c.ok(http.MethodDelete, "/api/v1/plans/"+key, "") }},
		{name: "accepted definition", keeps: []string{"bucket_pins"}, waits: "a server has to change for it: TestTwoBooks in internal/pin holds it"},
		{name: "kept catalogue", keeps: []string{"bucket_lists"}, waits: "it is seen only while its server is away: TestHubsOnOneStoreKeepTheirLists holds it"},
		{name: "error that was met", keeps: []string{"errors"},
			make: func(c apiClient, key string) { c.tool("context_get?session="+key, `{"name":"nothing"}`) },
			look: func(c apiClient, key string) string {
				list := hubtest.Decode[errorPage](c.ok(http.MethodGet, "/api/v1/errors?tool=context_get", ""))
				if i := slices.IndexFunc(list.Last, func(e incident.Error) bool { return e.Context["session"] == key }); i >= 0 {
					return list.Last[i].ID
				}
				return ""
			},
			without: map[string]string{cellChanged: never, cellDeleted: "it goes when there are too many"}},
		aToken(server, never), aSignIn(server, never), anAgent(agent),
		aSwitchForAll(), // the last, since others use what it switches off
	}
}

// aValue is a value of a Session of its own.
func aValue(name string, keeps []string, size int) *thing {
	at := func(key string) string { return fmt.Sprintf("value%d-%s", size, key) }
	put := func(letter string) func(apiClient, string) {
		return func(c apiClient, key string) { c.put(at(key), "v", hubtest.Quote(strings.Repeat(letter, size))) }
	}
	return &thing{name: name, keeps: keeps, make: put("a"), change: put("b"),
		look: func(c apiClient, key string) string {
			return missingIs(c, "/api/v1/sessions/"+at(key)+"/values/v", func(body []byte) string {
				text := hubtest.Decode[string](body)
				return fmt.Sprintf("%.1s, %d times", text, strings.Count(text, text[:1]))
			})
		},
		remove: func(c apiClient, key string) {
			c.ok(http.MethodDelete, "/api/v1/sessions/"+at(key)+"/values/v", "")
		}}
}

// aSession is a whole Session.
func aSession() *thing {
	return &thing{name: "session", keeps: []string{"session"},
		make: func(c apiClient, key string) { c.put("session-"+key, "v", "1") },
		look: func(c apiClient, key string) string {
			return missingIs(c, "/api/v1/sessions/session-"+key, func(body []byte) string {
				return fmt.Sprint(hubtest.Decode[struct{ Session struct{ Values int } }](body).Session.Values, " values")
			})
		},
		change: func(c apiClient, key string) { c.put("session-"+key, "w", "2") },
		remove: removeSession("session-"),
	}
}

func removeSession(before string) func(c apiClient, key string) {
	return func(c apiClient, key string) { c.ok(http.MethodDelete, "/api/v1/sessions/"+before+key, "") }
}

// aSwitch is what a Session says of a module.
func aSwitch() *thing {
	say := func(on bool) func(c apiClient, key string) {
		return func(c apiClient, key string) {
			c.ok(http.MethodPut, "/api/v1/modules/up?session=switch-"+key, fmt.Sprintf(`{"on":%v}`, on))
		}
	}
	return &thing{name: "module switched in a session", keeps: []string{"session"}, make: say(false), change: say(true),
		look: func(c apiClient, key string) string {
			m := c.modules("?session=switch-" + key)["up"]
			if !m.Session {
				return ""
			}
			return fmt.Sprintf("on: %v", m.On)
		},
		remove: removeSession("switch-"),
	}
}

// aSwitchForAll is what is said of a module for all Sessions.
func aSwitchForAll() *thing {
	module := map[string]string{"kept": "debug", "gone": "task"}
	say := func(on string) func(c apiClient, key string) {
		return func(c apiClient, key string) { c.ok(http.MethodPut, "/api/v1/modules/"+module[key], `{"on":`+on+`}`) }
	}
	return &thing{name: "module switched for all", keeps: []string{"bucket_switches"}, make: say("false"), change: say("true"),
		look: func(c apiClient, key string) string {
			m := c.modules("")[module[key]]
			if !m.Hub {
				return ""
			}
			return fmt.Sprintf("on: %v", m.On)
		},
		remove: func(c apiClient, key string) { c.ok(http.MethodDelete, "/api/v1/modules/"+module[key], "") }}
}

// aConnection is a legacy client's, which need keep nothing.
func aConnection() *thing {
	ids := map[string]string{}
	at := func(c apiClient, key string) *hubtest.Client {
		client := c.hub.Client(c.t, hubtest.ClientOptions{Era: hubtest.Legacy, Sessionless: true})
		client.Session = ids[key]
		return client
	}
	return &thing{name: "connection of a legacy client", keeps: []string{"bucket_connections", "session"},
		make: func(c apiClient, key string) {
			ids[key] = c.hub.Client(c.t, hubtest.ClientOptions{Era: hubtest.Legacy}).Session
		},
		look: func(c apiClient, key string) string {
			client := at(c, key)
			if a := client.Do(client.Request("1", "tools/list", "{}")); a.Status != http.StatusOK {
				return ""
			}
			return "open"
		},
		remove:  func(c apiClient, key string) { at(c, key).End() },
		without: map[string]string{cellChanged: "there is nothing to change about it; what it keeps are values"}}
}

// aConversation has one turn, and another from the other hub.
func aConversation() *thing {
	say := func(c apiClient, key string) {
		c.ok(http.MethodPost, "/api/chat", `{"sessionId":"talk-`+key+`","text":"echo hello"}`)
	}
	return &thing{name: "conversation", keeps: []string{"chat", "chatblob"}, change: say,
		make: func(c apiClient, key string) {
			say(c, key)
			c.put("talk-"+key, "v", "1") // or there is no session to remove
		},
		look: func(c apiClient, key string) string {
			list := hubtest.Decode[struct{ Conversations []chat.Brief }](c.ok(http.MethodGet, "/api/chat", ""))
			if !slices.ContainsFunc(list.Conversations, func(b chat.Brief) bool { return b.Session == "talk-"+key }) {
				return ""
			}
			_, body := c.hub.Get("/api/chat/talk-" + key)
			return fmt.Sprint(strings.Count(string(body), "hello"), " times")
		},
		remove: removeSession("talk-")}
}

// aLongTask is one that would go on for an hour, and is cancelled.
func aLongTask() *thing {
	ids := map[string]string{}
	return &thing{name: "task", keeps: []string{"task", "taskblob"},
		make: func(c apiClient, key string) {
			status, e := c.tool("task_start?session=task-"+key, `{"tool":"up__slow"}`)
			if ids[key] = hubtest.Decode[struct{ Task string }](e.Data).Task; ids[key] == "" {
				c.t.Fatalf("task_start: %d %s", status, e.Error)
			}
		},
		look: func(c apiClient, key string) string {
			return missingIs(c, "/api/v1/tasks/"+ids[key], func(body []byte) string {
				return hubtest.Decode[struct{ Task struct{ Status string } }](body).Task.Status
			})
		},
		change:  func(c apiClient, key string) { c.ok(http.MethodDelete, "/api/v1/tasks/"+ids[key], "") },
		without: map[string]string{cellDeleted: "it goes by itself when its time is over"}}
}

// aRun is one that is paused, and moved on.
func aRun() *thing {
	ids := map[string]string{}
	return &thing{name: "run of a plan", keeps: []string{"plan", "planblob"},
		make: func(c apiClient, key string) {
			c.put("run-"+key, "v", "1") // or there is no session to remove
			page := c.run(http.MethodPost, "?wait=30s", `{"session":"run-`+key+`","plan":`+apiPlan+`,"breakpoints":["two"]}`)
			if ids[key] = page.Run.ID; page.Run.Status != plan.Paused {
				c.t.Fatalf("begun: %+v", page.Run)
			}
		},
		look: func(c apiClient, key string) string {
			return missingIs(c, "/api/v1/runs/"+ids[key], func(body []byte) string {
				return string(hubtest.Decode[runPage](body).Run.Status)
			})
		},
		change: func(c apiClient, key string) {
			c.run(http.MethodPost, "/"+ids[key]+"/continue?wait=30s", "")
			await.Until(c.t, "it is over", func() bool { return c.run(http.MethodGet, "/"+ids[key], "").Run.Status.Over() })
		},
		remove: removeSession("run-")}
}

// aDecision is what somebody said of a tool in a Session.
func aDecision(never string) *thing {
	remembered := func(c apiClient, key string) (policy.Remembered, bool) {
		list := hubtest.Decode[struct{ Remembered []policy.Remembered }](c.ok(http.MethodGet, "/api/v1/approvals/remembered", "")).Remembered
		if i := slices.IndexFunc(list, func(r policy.Remembered) bool { return r.Session == "asked-"+key }); i >= 0 {
			return list[i], true
		}
		return policy.Remembered{}, false
	}
	return &thing{name: "remembered decision", keeps: []string{"bucket_policy"},
		make: func(c apiClient, key string) {
			defer attend(c.t, c.hub, c.token)()
			x := c.hub.Client(c.t, hubtest.ClientOptions{Header: http.Header{"Stoa-Session": {"asked-" + key}}}).Go("tools/call", hubtest.ToolParams("up__write", `{}`))
			c.decide(c.asked().ID, `{"decision":"approve","remember":"session"}`)
			if m := x.Response(); m.Error != nil {
				c.t.Fatalf("%s", m.Raw)
			}
		},
		look: func(c apiClient, key string) string {
			r, ok := remembered(c, key)
			if !ok {
				return ""
			}
			return fmt.Sprintf("%s: %v", r.Ref, r.Approve)
		},
		remove: func(c apiClient, key string) {
			r, _ := remembered(c, key)
			c.ok(http.MethodDelete, "/api/v1/approvals/remembered/"+url.PathEscape(r.ID), "")
		},
		without: map[string]string{cellChanged: never + ": it is taken back, and somebody is asked anew"}}
}

// aFile is one that was uploaded.
func aFile(never string) *thing {
	ids := map[string]string{}
	return &thing{name: "uploaded file", keeps: []string{"file", "fileblob"},
		make: func(c apiClient, key string) {
			ids[key] = hubtest.Decode[chat.File](c.do(http.MethodPost, "/api/files?name="+key+".txt", "hello").Body).ID
		},
		look: func(c apiClient, key string) string {
			list := hubtest.Decode[struct{ Files []chat.File }](c.ok(http.MethodGet, "/api/files", "")).Files
			if !slices.ContainsFunc(list, func(f chat.File) bool { return f.ID == ids[key] && f.Name == key+".txt" }) {
				return ""
			}
			return missingIs(c, "/api/files/"+ids[key], whole)
		},
		remove:  func(c apiClient, key string) { c.ok(http.MethodDelete, "/api/files/"+ids[key], "") },
		without: map[string]string{cellChanged: never}}
}

func publish(title string) func(apiClient, string) {
	return func(c apiClient, key string) {
		c.ok(http.MethodPut, "/api/v1/plans/"+key, `{"title":"`+title+`","steps":[{"id":"a","tool":"up__echo"}]}`)
	}
}

// aToken is made and revoked on the store, and shown to a hub.
func aToken(server *storetest.Server, never string) *thing {
	secrets := map[string]string{}
	open := func(c apiClient) *hub.Principals { return principals(c.t, server) }
	return &thing{name: "token", keeps: []string{"bucket_tokens"},
		make: func(c apiClient, key string) {
			_, secret, err := open(c).Tokens.Create("holder-"+key, auth.Scopes{"*"}, 0)
			if err != nil {
				c.t.Fatal(err)
			}
			secrets[key] = secret
		},
		look: func(c apiClient, key string) string { return letsIn(c, secrets[key]) },
		remove: func(c apiClient, key string) {
			if _, err := open(c).Tokens.Revoke("holder-" + key); err != nil {
				c.t.Fatal(err)
			}
			await.Until(c.t, "the hub knows", func() bool { return letsIn(c, secrets[key]) == "" })
		},
		without: map[string]string{cellChanged: never}}
}

// aSignIn is a browser's, by a code and with a ticket.
func aSignIn(server *storetest.Server, never string) *thing {
	type browser struct{ ID, Secret string }
	in := map[string]browser{}
	return &thing{name: "sign-in of a browser, its code and ticket", keeps: []string{"bucket_signins", "bucket_codes", "bucket_tickets"},
		make: func(c apiClient, key string) {
			code := hubtest.Decode[struct{ Code string }](c.ok(http.MethodPost, "/api/v1/sign-ins/codes", "{}")).Code
			in[key] = hubtest.Decode[browser]((apiClient{c.t, c.hub, ""}).ok(http.MethodPost, "/api/v1/sign-ins", `{"code":`+hubtest.Quote(code)+`}`))
			(apiClient{c.t, c.hub, in[key].Secret}).ok(http.MethodPost, "/api/v1/tickets", `{"path":"/mcp/ws"}`)
		},
		look: func(c apiClient, key string) string { return letsIn(c, in[key].Secret) },
		remove: func(c apiClient, key string) {
			gone, err := principals(c.t, server).SignIns.Revoke(func(one auth.SignIn) bool { return one.ID == in[key].ID })
			if err != nil || len(gone) != 1 {
				c.t.Fatalf("%v, %v", gone, err)
			}
			await.Until(c.t, "the hub knows", func() bool { return letsIn(c, in[key].Secret) == "" })
		},
		without: map[string]string{cellChanged: never}}
}

// letsIn says whether a hub lets in who shows a secret.
func letsIn(c apiClient, secret string) string {
	c.t.Helper()
	switch status := (apiClient{c.t, c.hub, secret}).do(http.MethodGet, "/api/v1/tickets/none", "").Status; status {
	case http.StatusUnauthorized:
		return ""
	case http.StatusServiceUnavailable:
		c.t.Fatalf("status %d", status)
	}
	return "let in"
}

// anAgent has registered itself.
func anAgent(url string) *thing {
	leases := map[string]string{}
	at := func(c apiClient) desk { return desk{c.t, c.hub.URL, c.token} }
	return &thing{name: "registered agent", keeps: []string{"bucket_agents"},
		make: func(c apiClient, key string) {
			leases[key] = at(c).register("agent-"+key, url, longLease)
			at(c).waitFor("agent-"+key, "connected")
		},
		look: func(c apiClient, key string) string {
			if at(c).state("agent-"+key) == "" {
				return ""
			}
			return "registered"
		},
		remove: func(c apiClient, key string) {
			if status, _ := at(c).do(http.MethodDelete, "/mcps/agent-"+key, leases[key], ""); status != http.StatusNoContent {
				c.t.Fatalf("status %d", status)
			}
		},
		without: map[string]string{cellChanged: "it is renewed, and registers anew to say something else: TestAgentOfAllHubs"}}
}
