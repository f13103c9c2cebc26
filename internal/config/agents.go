package config

import (
	"fmt"
	"slices"
	"strings"
)

// Agent is a chat agent: a model with instructions and tools of its own, served
// at /ws/{agent} and, with the tool chat, at /mcps/{agent}/mcp.
type Agent struct {
	Name  string // the slug, ^[a-z][a-z0-9-]{0,19}$; one namespace with servers
	Title string // the name as the file has it

	Description  string
	Model        string // "": the chat's
	SystemPrompt string // "": the chat's
	Tools        []string
	Approvals    Rules
	Temperature  *float64
	MaxSteps     int // 0: the chat's
	MaxTokens    int // 0: the model's

	Listed bool // its tool is offered on merged faces too
	Stock  bool // it is one of those that exist without being configured
}

// Called is the name that people and clients use: as it is written where only
// capitals tell it from Name, else Name, which fits into a path.
func (a *Agent) Called() string {
	if strings.EqualFold(a.Title, a.Name) {
		return a.Title
	}
	return a.Name
}

// defaultAgents are the four that clients of WebSocket agents know. A server
// that is called like one takes its place.
func defaultAgents() []Agent {
	stock := func(title, description, prompt string) Agent {
		return Agent{Name: Slug(title), Title: title, Description: description, SystemPrompt: prompt, Stock: true}
	}
	return []Agent{
		stock("AIlumina", "A general assistant with all tools of the hub.", "You are AIlumina, a general assistant. Use the tools you have where they help, and say plainly what you did and what you do not know."),
		stock("collaborator", "Thinks a task through together with its asker.", "You are a collaborator: think the task through with the person, name assumptions and alternatives, propose the next steps, and use the tools you have to find out what is the case."),
		stock("crud", "Creates, reads, changes and deletes records with the tools of the hub.", "You are an assistant for records: create, read, update and delete them with the tools you have. Read before you change, change only what was asked for, and tell what has changed."),
		stock("news", "Finds and sums up what is new on a subject.", "You are an assistant for news: find what is new on the subject with the tools you have, sum it up briefly, name the source and date of each item, and say so if you could not look it up."),
	}
}

// Agent returns the agent of that name, in any case, or nil.
func (c *Config) Agent(name string) *Agent {
	slug := Slug(name)
	for i := range c.Agents {
		if c.Agents[i].Name == slug {
			return &c.Agents[i]
		}
	}
	return nil
}

// agentsField reads agents by name; false removes one that exists by default.
func agentsField() field[Config] {
	return field[Config]{
		key: "agents", doc: "Chat agents besides the servers, by name; see [agents](#agents). `crud`, `news`, `collaborator` and `AIlumina` exist by default; `false` removes one.",
		schema: func(*Config) *schema {
			off := false
			return &schema{Type: "object", Values: &schema{AnyOf: []*schema{{Ref: "#/$defs/agent"}, {Type: "boolean", Const: &off}}}}
		},
		decode: func(d *decoder, n *node, path string, c *Config) {
			if !d.want(n, object, "write the agents by name") {
				return
			}
			for _, m := range n.members {
				if m.value.kind != null {
					before := len(d.problems)
					d.doubled(m.value.ptr)
					d.agent(m, path, c)
					d.containAgent(before, m.name, c)
				}
			}
		},
		show: func(s *shower, path string, c *Config) {
			for i := range c.Agents {
				at := under(path, c.Agents[i].Name)
				if c.Agents[i].Title != c.Agents[i].Name {
					s.put(under(at, "title"), c.Agents[i].Title)
				}
				fields := agentFields()
				if c.Agents[i].Stock {
					fields = fields[:1] // the rest is nobody's choice
				}
				showObject(s, at, &c.Agents[i], fields)
			}
		},
	}
}

func agentFields() []field[Agent] {
	return []field[Agent]{
		textField("description", "What the agent is for, in a few words: other models read it.", asWritten, func(a *Agent) *string { return &a.Description }, nil),
		textField("model", "The name of its model, of `models` or a provider's; left out, that of `chat`.", asWritten, func(a *Agent) *string { return &a.Model }, nil),
		textField("systemPrompt", "What its model is told first; left out, as in `chat`.", asWritten, func(a *Agent) *string { return &a.SystemPrompt }, nil),
		textsField("tools", toolsDoc, asWritten, true, func(a *Agent) *[]string { return &a.Tools }, checkGlob),
		rulesField("approvals", "Which of its calls need a person's approval, before the rules of `policy`. A call that needs one is refused where nobody is there to be asked.", func(a *Agent) *Rules { return &a.Approvals }),
		numberField("temperature", "How freely its model chooses its words; left out, as in `chat`.", 0, 2, func(a *Agent) **float64 { return &a.Temperature }),
		openInt("maxSteps", "Answers of the model to one message; left out, `chat.maxSteps`.", 1, 1000, func(a *Agent) *int { return &a.MaxSteps }),
		openInt("maxTokens", "The longest answer, in tokens; left out, the model's `maxTokens`.", 1, 10_000_000, func(a *Agent) *int { return &a.MaxTokens }),
		boolField("listed", "Offer its tool `chat` on the merged faces too, as `agent__chat`. It is served at `/mcps/{agent}/mcp` and `/ws/{agent}` in any case.", func(a *Agent) *bool { return &a.Listed }),
	}
}

// agent reads one agent. What the file does not say of one that exists by
// default stays as it is; an earlier file's of that name is dropped.
func (d *decoder) agent(m member, path string, c *Config) {
	slug := Slug(m.name)
	at := under(path, slug)
	i := slices.IndexFunc(c.Agents, func(a Agent) bool { return a.Name == slug })
	if m.value.kind == boolean {
		switch {
		case m.value.text == "true" && i < 0:
			d.problem(m.value.at, m.value.ptr, `write {"systemPrompt": "…"}`, "true says nothing of the agent")
		case m.value.text == "false" && i >= 0:
			c.Agents = slices.Delete(c.Agents, i, i+1)
		case m.value.text == "false":
			d.note(m.at, m.value.ptr, didYouMean(m.name, agentTitles(c)), "there is no agent %q to remove", m.name)
		}
		return
	}
	if text, hint := checkChatAgent(m.name); text != "" {
		d.problem(m.at, m.value.ptr, hint, "%s", text)
		return
	}
	if !d.want(m.value, object, `write {"systemPrompt": "…"}, or false to remove it`) {
		return
	}
	one := Agent{Name: slug, Title: m.name, Listed: true}
	if i >= 0 {
		old := c.Agents[i]
		if p := d.trace.places[at]; !old.Stock && p.src == d.src {
			d.problem(m.at, m.value.ptr, "rename one of them", "the agent names %q and %q (line %d) are both %s", m.name, old.Title, p.at.line, slug)
			return
		} else if !old.Stock {
			d.note(m.at, m.value.ptr, "", "the agent %q replaces that of %s:%d", m.name, p.src.name, p.at.line)
		} else {
			one.Description, one.SystemPrompt = old.Description, old.SystemPrompt
		}
		d.trace.forget(at)
		c.Agents = slices.Delete(c.Agents, i, i+1)
	}
	d.trace.places[at] = place{src: d.src, at: m.at, ptr: m.value.ptr, holder: true}
	decodeObject(d, m.value, at, &one, agentFields())
	c.Agents = append(c.Agents, one)
}

func checkChatAgent(title string) (problem, hint string) {
	slug := Slug(title)
	switch {
	case slug == "":
		return fmt.Sprintf("the agent name %q has no letter or digit of a-z, 0-9", title), `give it a name such as "writer"`
	case Reserved(slug):
		return fmt.Sprintf("the agent name %q is reserved", slug), fmt.Sprintf("call it %q", slug+"-agent")
	}
	return "", ""
}

func agentTitles(c *Config) (titles []string) {
	for i := range c.Agents {
		titles = append(titles, c.Agents[i].Title)
	}
	return titles
}

// settleAgents sorts the agents, and drops those of the default ones whose
// name a server has.
func (c *Config) settleAgents() {
	c.Agents = slices.DeleteFunc(c.Agents, func(a Agent) bool { return a.Stock && c.Server(a.Name) != nil })
	slices.SortFunc(c.Agents, func(a, b Agent) int { return strings.Compare(a.Name, b.Name) })
}

// checkChat looks at what models, the chat and agents say of each other.
func checkChat(c *Config, problem func(path, text, hint string)) {
	names := c.Models.Names()
	model := func(path, name string) {
		if name != "" && !slices.Contains(names, name) {
			problem(path, fmt.Sprintf("there is no model %q", name), didYouMean(name, names))
		}
	}
	model("/models/default", c.Models.Default)
	model("/chat/model", c.Chat.Model)
	for i := range c.Servers {
		s := &c.Servers[i]
		at := under(under("/servers", s.Name), "samplingModel")
		if model(at, s.SamplingModel); s.SamplingModel != "" && s.Sampling != SamplingHost {
			problem(at, "it says nothing without sampling: host", `write "sampling": "host", or leave it out`)
		}
	}
	for i := range c.Agents {
		a := &c.Agents[i]
		at := under("/agents", a.Name)
		model(at+"/model", a.Model)
		if s := c.Server(a.Name); s != nil {
			problem(at, fmt.Sprintf("the agent %q is called like the server %q", a.Title, s.Title), "rename one of them: agents and servers share their addresses")
		}
	}
}

// validateChat checks and completes models and agents made by hand.
func (c *Config) validateChat(at func(path string) func(key, text, hint string)) {
	seen := map[string]bool{}
	for i := range c.Models.Named {
		m := &c.Models.Named[i]
		path := under("/models", m.Name)
		if m.settle(); !modelName.MatchString(m.Name) || m.Name == defaultKey || seen[m.Name] {
			at(path)("", fmt.Sprintf("%q cannot be the name of a model, or is there twice", m.Name), "rename it")
		}
		seen[m.Name] = true
		checkModel(m, at(path))
	}
	names := map[string]bool{}
	for i := range c.Agents {
		a := &c.Agents[i]
		if a.Title == "" {
			a.Title = a.Name
		}
		a.Name = Slug(a.Title)
		path := under("/agents", a.Name)
		if text, hint := checkChatAgent(a.Title); text != "" {
			at(path)("", text, hint)
		}
		if names[a.Name] {
			at(path)("", fmt.Sprintf("there are two agents called %s", a.Name), "rename one of them")
		}
		names[a.Name] = true
		checkRules(a.Approvals, path+"/approvals", func(key, text, hint string) { at("")(key, text, hint) })
	}
	checkRules(c.Chat.Approvals, "/chat/approvals", func(key, text, hint string) { at("")(key, text, hint) })
	c.settleAgents()
}
