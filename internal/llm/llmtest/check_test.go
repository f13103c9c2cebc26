package llmtest

import (
	"encoding/json"
	"strings"
	"testing"
)

// breach is a body that breaks one rule and none before it.
type breach struct{ rule, body string }

// eachBroken fails unless every rule has a body that is refused by it, so that
// no rule is a sentence only, and unless each names where it can be read.
func eachBroken[B any](t *testing.T, rules []Rule[B], check func([]byte) error, good string, breaches []breach) {
	t.Helper()
	if err := check([]byte(good)); err != nil {
		t.Errorf("refused, though it breaks no rule: %v", err)
	}
	broken := map[string]bool{}
	for _, b := range breaches {
		if !json.Valid([]byte(b.body)) {
			t.Errorf("%s: no JSON: %s", b.rule, b.body)
		}
		if err := check([]byte(b.body)); err == nil || !strings.HasPrefix(err.Error(), b.rule+": ") {
			t.Errorf("%s: %v\nby %s", b.rule, err, b.body)
		}
		broken[b.rule] = true
	}
	for _, r := range rules {
		if !broken[r.Name] || r.Source == "" {
			t.Errorf("rule %q: broken by a body: %t, source %q", r.Name, broken[r.Name], r.Source)
		}
	}
}

func TestOpenAIRules(t *testing.T) {
	const call = `{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	const result = `{"role":"tool","tool_call_id":"c1","content":""}`
	say := func(messages ...string) string { return `{"messages":[` + strings.Join(messages, ",") + `]}` }
	with := func(old, new string) string { return strings.Replace(say(call, result), old, new, 1) }
	const tools = `{"messages":[{"role":"user","content":"q"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}`
	eachBroken(t, OpenAIRules, CheckOpenAI, say(`{"role":"user","content":"q"}`, call, result), []breach{
		{"form", `{"messages":{}}`},
		{"there are messages", say()},
		{"roles are known", say(`{"role":"model","content":"x"}`)},
		{"a message has content, unless it has calls", say(`{"role":"assistant"}`)},
		{"only the assistant calls", with("assistant", "user")},
		{"each call is followed by its result", say(call)},
		{"each call is followed by its result", say(call, `{"role":"user","content":"stop"}`, result)},
		{"each result follows its call", say(result)},
		{"each result follows its call", say(call, result, result)},
		{"ids have 40 characters at most", strings.ReplaceAll(say(call, result), "c1", strings.Repeat("c", 41))},
		{"names have 64 characters of a-z, A-Z, 0-9, _ and - at most", with(`"f"`, `"server:tool"`)},
		{"names have 64 characters of a-z, A-Z, 0-9, _ and - at most", strings.Replace(tools, `"f"`, `"a.b"`, 1)},
		{"arguments are JSON", with(`"{}"`, `"{\"a\":"`)},
		{"parameters are an object", strings.Replace(tools, `"object"`, `"string"`, 1)},
	})
}

func TestAnthropicRules(t *testing.T) {
	const user, call, result = `{"role":"user","content":[{"type":"text","text":"q"}]}`, `{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]}`, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]}`
	say := func(messages ...string) string {
		return `{"max_tokens":2000,"messages":[` + strings.Join(messages, ",") + `]}`
	}
	with := func(old, new string) string { return strings.Replace(say(user, call, result), old, new, 1) }
	think := func(budget string, rest ...string) string {
		return strings.Replace(say(rest...), "{", `{"thinking":{"type":"enabled","budget_tokens":`+budget+`},`, 1)
	}
	const thought = `{"type":"thinking","thinking":"hm","signature":"x"}`
	answered := strings.Replace(call, `[`, `[`+thought+`,`, 1)
	eachBroken(t, AnthropicRules, CheckAnthropic, think("1024", user, answered, result), []breach{
		{"max_tokens is said", `{"messages":[` + user + `]}`},
		{"turns alternate, the user's first", say(call)},
		{"turns alternate, the user's first", say(user, user)},
		{"the user's turn is last", say(user, `{"role":"assistant","content":[{"type":"text","text":"a"}]}`)},
		{"the user's turn is last", say()},
		{"messages have content", say(`{"role":"user","content":[]}`)},
		{"text says something", say(`{"role":"user","content":[{"type":"text","text":" \n"}]}`)},
		{"blocks stand with their role", say(`{"role":"user","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]}`)},
		{"blocks stand with their role", say(`{"role":"user","content":[{"type":"picture"}]}`)},
		{"calls are last", with(`"input":{}}`, `"input":{}},{"type":"text","text":"and"}`)},
		{"results are first", with(`[{"type":"tool_result"`, `[{"type":"text","text":"x"},{"type":"tool_result"`)},
		{"each call has its result in the next message", say(user, call, user)},
		{"each result has its call in the message before", say(result)},
		{"each result has its call in the message before", with(`{"type":"tool_result","tool_use_id":"t1"}`, `{"type":"tool_result","tool_use_id":"t1"},{"type":"tool_result","tool_use_id":"t1"}`)},
		{"ids of calls occur once", say(user, call, result, call, result)},
		{"ids are of a-z, A-Z, 0-9, _ and -", strings.ReplaceAll(say(user, call, result), "t1", "t:1")},
		{"names have 64 characters of a-z, A-Z, 0-9, _ and - at most", with(`"f"`, `"s:f"`)},
		{"names have 64 characters of a-z, A-Z, 0-9, _ and - at most", strings.Replace(say(user), "{", `{"tools":[{"name":"s:f","input_schema":{"type":"object"}}],`, 1)},
		{"input is an object", with(`"input":{}`, `"input":"{}"`)},
		{"schemas are objects without combinations at their root", strings.Replace(say(user), "{", `{"tools":[{"name":"f","input_schema":{"type":"object","anyOf":[]}}],`, 1)},
		{"reasoning comes first and is not last", say(user, `{"role":"assistant","content":[`+thought+`]}`, user)},
		{"reasoning comes first and is not last", say(user, `{"role":"assistant","content":[{"type":"text","text":"a"},`+thought+`,{"type":"text","text":"b"}]}`, user)},
		{"asked to reason, the calls that are being answered began with reasoning", think("1024", user, call, result)},
		{"reasoning has 1024 tokens at least, and fewer than the answer", think("1000", user)},
		{"reasoning has 1024 tokens at least, and fewer than the answer", think("2000", user)},
		{"reasoning goes with neither a temperature nor a forced call", strings.Replace(think("1024", user), "{", `{"temperature":0.5,`, 1)},
		{"reasoning goes with neither a temperature nor a forced call", strings.Replace(think("1024", user), "{", `{"tool_choice":{"type":"any"},`, 1)},
	})
}

func TestGeminiRules(t *testing.T) {
	const user, model, call, response = `{"role":"user","parts":[{"text":"q"}]}`, `{"role":"model","parts":[{"text":"a"}]}`,
		`{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"eA=="}]}`, `{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}`
	say := func(contents ...string) string { return `{"contents":[` + strings.Join(contents, ",") + `]}` }
	with := func(old, new string) string { return strings.Replace(say(user, call, response), old, new, 1) }
	tools := func(list string) string {
		return `{"contents":[` + user + `],"tools":[{"functionDeclarations":` + list + `}]}`
	}
	eachBroken(t, GeminiRules, CheckGemini, say(user, call, response, user, model, user), []breach{
		{"the user is first", say()},
		{"the user is first", say(call, response)},
		{"the user is last", say(user, model)},
		{"roles are user and model", say(user, `{"role":"assistant","parts":[{"text":"a"}]}`, user)},
		{"contents have parts, and parts have data", say(`{"role":"user","parts":[{}]}`)},
		{"contents have parts, and parts have data", say(`{"role":"user","parts":[]}`)},
		{"contents have parts, and parts have data", `{"contents":[` + user + `],"systemInstruction":{"parts":[{}]}}`},
		{"functions stand with their role", say(`{"role":"user","parts":[{"functionCall":{"name":"f"}}]}`)},
		{"there are as many responses as calls, right after them and of their names", say(user, call, user)},
		{"there are as many responses as calls, right after them and of their names", say(response)},
		{"there are as many responses as calls, right after them and of their names", with(`{"functionResponse":{"name":"f"`, `{"functionResponse":{"name":"g"`)},
		{"there are as many responses as calls, right after them and of their names", with(`{"functionResponse":{"name":"f"`, `{"functionResponse":{"id":"1","name":"f"`)},
		{"responses stand alone", with(`"response":{}}}`, `"response":{}}},{"text":"and"}`)},
		{"calls come right after a turn of the user or responses", say(user, model, call, response)},
		{"otherwise roles alternate", say(user, user)},
		{"in the current turn, the first call of each step is signed", with(`,"thoughtSignature":"eA=="`, ``)},
		{"names begin with a letter or _ and have 64 characters of a-z, A-Z, 0-9, _, . and - at most", strings.ReplaceAll(say(user, call, response), `"f"`, `"21st"`)},
		{"names begin with a letter or _ and have 64 characters of a-z, A-Z, 0-9, _, . and - at most", tools(`[{"name":"s:f"}]`)},
		{"arguments and responses are objects", with(`"args":{}`, `"args":[]`)},
		{"arguments and responses are objects", with(`"response":{}`, `"response":"ok"`)},
		{"lists of functions are not empty", tools(`[]`)},
		{"parameters are an object with properties, or none", tools(`[{"name":"f","parameters":{"type":"OBJECT","properties":{}}}]`)},
	})
}

func TestOllamaRules(t *testing.T) {
	const call, result = `{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]}`, `{"role":"tool","tool_name":"f"}`
	say := func(messages ...string) string {
		return `{"model":"m","truncate":false,"options":{"num_ctx":1},"messages":[` + strings.Join(messages, ",") + `]}`
	}
	user := `{"role":"user","content":"q"}`
	eachBroken(t, OllamaRules, CheckOllama, say(user, call, result), []breach{
		{"there are a model and messages", say()},
		{"the size of the context is said", strings.Replace(say(user), `"num_ctx":1`, ``, 1)},
		{"what does not fit is refused, not cut", strings.Replace(say(user), `"truncate":false,`, ``, 1)},
		{"roles are known", say(`{"role":"model","content":"a"}`)},
		{"messages say something", say(`{"role":"user","content":""}`)},
		{"calls are the assistant's, have a name, and arguments that are an object", strings.Replace(say(call, result), `"arguments":{}`, `"arguments":"{}"`, 1)},
		{"calls are the assistant's, have a name, and arguments that are an object", strings.Replace(say(call, result), `assistant`, `user`, 1)},
		{"results follow their calls in order, by name", say(call, user)},
		{"results follow their calls in order, by name", say(call)},
		{"results follow their calls in order, by name", say(result)},
	})
}
