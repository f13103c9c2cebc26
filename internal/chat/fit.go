package chat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/rank"
)

// Definitions of tools are sent with every request. Where they would leave a
// conversation too little room, the model is told less of them: first of each,
// then of fewer. Those that it is not told of can be called all the same, and
// found by the tool that searches.

// searchTool is modules.SearchName.
const searchTool = "tools_search"

const (
	answerPart   = 8        // of the limit: room for the answer
	mostAnswer   = 4 << 10  // tokens
	mostTalk     = 16 << 10 // tokens that are left to the conversation, whatever there is to offer
	briefText    = 160      // bytes of a description that is shortened
	briefArg     = 60       // the same, of an argument
	lookedAt     = 3        // messages of the user that say which tools matter
	guidancePart = 2        // of the limit in tokens: the bytes of guidance
	leastGuide   = 1000     // bytes: below, shorten leaves no tail
	guideMark    = 64       // bytes, which say that something is left out
	rounding     = 32       // tokens, by which estimates of parts may miss that of the whole
)

// room is how many tokens a request may take, so that the answer fits too; 0:
// not known.
func (t *turn) room() int {
	limit := t.limit()
	answer := min(limit/answerPart, mostAnswer)
	if n := t.agent.MaxTokens; n > 0 {
		answer = min(n, limit/2)
	}
	return limit - answer
}

// kit is what one request tells the model of tools.
type kit struct {
	tools []llm.Tool
	brief bool // descriptions are shortened
	left  int  // tools that it is not told of
}

// fit chooses what the model is told of tools: all of them, as long as that
// leaves the conversation its part of the room.
func (t *turn) fit(now *State) kit {
	room := t.room()
	all := t.tools.offered
	if room == 0 || len(all) == 0 {
		return kit{tools: all}
	}
	text, _, _ := t.system()
	system := t.e.meter.EstimateText(t.model.ID, text)
	most := room - min(room/2, mostTalk) - system
	if t.tight { // rather fewer tools than no answer
		most = room - system - t.e.meter.Estimate(llm.Request{Model: t.model.ID, Messages: now.History()}) - rounding
	}
	if t.takes(all...) <= most {
		return kit{tools: all}
	}
	brief := t.tools.briefly()
	if t.takes(brief...) <= most {
		return kit{tools: brief, brief: true}
	}
	return t.pick(now, brief, most)
}

// takes estimates the tokens of definitions.
func (t *turn) takes(tools ...llm.Tool) int {
	return t.e.meter.Estimate(llm.Request{Model: t.model.ID, Tools: tools})
}

// pick takes as many tools as there is room for: those that the conversation
// has used or found, and then those that what the user said is about.
func (t *turn) pick(now *State, tools []llm.Tool, most int) kit {
	k := kit{brief: true}
	search := t.tools.byName[searchTool]
	if search != nil {
		most -= t.takes(search.Tool)
	}
	var chosen []int
	for _, i := range relevant(now.History(), tools) {
		if tools[i].Name == searchTool {
			continue
		}
		if n := t.takes(tools[i]); n <= most {
			most -= n
			chosen = append(chosen, i)
		}
	}
	slices.Sort(chosen) // as they are listed: providers remember how a request begins
	for _, i := range chosen {
		k.tools = append(k.tools, tools[i])
	}
	k.left = len(tools) - len(chosen)
	if search != nil {
		if slices.ContainsFunc(tools, func(l llm.Tool) bool { return l.Name == searchTool }) {
			k.left--
		}
		k.tools = append(k.tools, search.Tool)
	}
	return k
}

// relevant orders tools by how much they matter to a conversation now.
func relevant(history []llm.Message, tools []llm.Tool) []int {
	docs, at := make([]rank.Doc, len(tools)), make(map[string]int, len(tools))
	for i, tool := range tools {
		docs[i] = rank.Doc{Name: tool.Name, Text: tool.Description}
		at[tool.Name] = i
	}
	last := make([]int, len(tools)) // the newest message that has to do with it, from 1 on
	var said []string
	for i := len(history) - 1; i >= 0; i-- {
		m := history[i]
		if m.Role == llm.User && len(said) < lookedAt {
			said = append(said, m.Text())
		}
		for _, p := range m.Parts {
			for _, name := range mentioned(p, at) {
				if j := at[name]; last[j] == 0 {
					last[j] = i + 1
				}
			}
		}
	}
	scores := rank.Scores(strings.Join(said, "\n"), docs)
	within, seen := make([]int, len(tools)), map[string]int{} // its place among those of its server
	order := make([]int, len(tools))
	for i, tool := range tools {
		server, _, _ := strings.Cut(tool.Name, "__")
		order[i], within[i] = i, seen[server]
		seen[server]++
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(last[j], last[i]), cmp.Compare(scores[j], scores[i]), cmp.Compare(within[i], within[j]))
	})
	return order
}

// mentioned are the tools that a part has called or found.
func mentioned(p llm.Part, known map[string]int) (names []string) {
	switch {
	case p.Call != nil:
		if _, ok := known[p.Call.Name]; ok {
			names = []string{p.Call.Name}
		}
	case p.Result != nil && p.Result.Name == searchTool:
		for name := range known {
			if strings.Contains(p.Result.Content, `"`+name+`"`) {
				names = append(names, name)
			}
		}
	}
	return names
}

// briefing keeps what a toolset is shortened to.
type briefing struct {
	once  sync.Once
	tools []llm.Tool
}

// briefly are the offered tools with as few words as tell them apart.
func (s *toolset) briefly() []llm.Tool {
	s.brief.once.Do(func() {
		for _, tool := range s.offered {
			tool.Description = sentence(tool.Description, briefText)
			tool.Schema = briefSchema(tool.Schema)
			s.brief.tools = append(s.brief.tools, tool)
		}
	})
	return s.brief.tools
}

// sentence is how a text begins: its first sentence, or less.
func sentence(text string, n int) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if end := strings.Index(text, ". "); end > 0 {
		text = text[:end+1]
	}
	return shorten(text, n)
}

// briefSchema leaves out of a schema what says nothing of its own, and
// shortens what it says in words. The hub holds arguments to the whole of it.
func briefSchema(raw json.RawMessage) json.RawMessage {
	var schema map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if len(raw) == 0 || d.Decode(&schema) != nil {
		return raw
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(briefly(schema)) != nil || out.Len() >= len(raw) {
		return raw
	}
	return bytes.TrimSpace(out.Bytes())
}

// wordy are the keywords of schemas that only comment.
var wordy = []string{"$schema", "$id", "$comment", "title", "examples", "default", "additionalProperties"}

func briefly(schema map[string]any) map[string]any {
	for _, key := range wordy {
		switch schema[key].(type) {
		case string, bool, json.Number, []any, nil:
			delete(schema, key)
		}
	}
	if text, ok := schema["description"].(string); ok {
		schema["description"] = sentence(text, briefArg)
	}
	for key, value := range schema {
		switch value := value.(type) {
		case map[string]any:
			switch key {
			case "properties", "$defs", "definitions", "patternProperties", "dependentSchemas": // names, not keywords
				for name, sub := range value {
					if sub, ok := sub.(map[string]any); ok {
						value[name] = briefly(sub)
					}
				}
			case "items", "not", "if", "then", "else", "additionalProperties", "contains", "propertyNames":
				schema[key] = briefly(value)
			}
		case []any:
			if key != "anyOf" && key != "oneOf" && key != "allOf" && key != "prefixItems" {
				continue
			}
			for i, sub := range value {
				if sub, ok := sub.(map[string]any); ok {
					value[i] = briefly(sub)
				}
			}
		}
	}
	return schema
}

// system is the system prompt, with what servers say of their tools cut to a
// part of the window. said is how many bytes that has, and most how many there is
// room for.
func (t *turn) system() (text string, said, most int) {
	text, said, most = t.prompt(), len(t.tools.guide), len(t.tools.guide)
	if limit := t.limit(); limit > 0 {
		most = limit / guidancePart
	}
	if said <= most {
		return text, said, most
	}
	// Of each server a head and a tail, so that nobody's words become another's.
	left, share := most, max(leastGuide, most/len(t.tools.guides)-guideMark)
	var told []string
	for _, one := range t.tools.guides {
		if one = shorten(one, share); len(one) <= left+guideMark {
			told, left = append(told, one), left-len(one)
		}
	}
	return strings.Replace(text, t.tools.guide, strings.Join(told, "\n\n"), 1), said, most
}

// sparing says what the model is not told of tools, and why; "" if nothing.
func (t *turn) sparing(k kit) string {
	if _, said, most := t.system(); said > most {
		return strings.TrimSpace(fmt.Sprintf("What servers say of their tools has %d bytes, of which a model that may have %d tokens (%s) is told %d. %s", said, t.limit(), t.limitKey(), most, t.sparingTools(k)))
	}
	return t.sparingTools(k)
}

func (t *turn) sparingTools(k kit) string {
	if !k.brief && k.left == 0 {
		return ""
	}
	// Without what was learnt of the model: the same is told once.
	whole := new(llm.Meter).Estimate(llm.Request{Tools: t.tools.offered})
	text := fmt.Sprintf("The definitions of the %d tools take about %d tokens, too many for a model that may have %d (%s): ", len(t.tools.offered), whole, t.limit(), t.limitKey())
	if k.left == 0 {
		return text + "their descriptions are shortened."
	}
	text += "it is told of those that seem to matter"
	if t.tools.byName[searchTool] != nil {
		text += ", and can search for the others"
	}
	return text + ". Raise the limit, or offer fewer tools."
}

// limitKey is the setting that limit comes from.
func (t *turn) limitKey() string {
	if m, s := t.model.MaxTokenCount, t.s.MaxTokenCount; s == 0 || m != 0 && m < s {
		return "models." + t.model.Name + ".maxTokenCount"
	}
	return "chat.maxTokenCount, MAX_TOKEN_COUNT"
}
