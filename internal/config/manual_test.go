package config

import (
	"bytes"
	"fmt"
	"strings"
)

// manual renders docs/config.md from the schema. It lives in the tests because
// only the golden test runs it.
func manual() []byte {
	var b bytes.Buffer
	b.WriteString(manualHead)
	root := tree()
	chapter(&b, 2, "Top-level keys", root)
	for _, p := range root.Properties {
		if !p.schema.foreign && p.key != "servers" && p.key != "models" && p.key != "agents" {
			chapters(&b, 2, p.key, p.schema)
		}
	}
	b.WriteString("\n" + manualModels)
	model := DefaultModel()
	chapters(&b, 3, "Keys of a model", objectSchema(&model, modelFields()))
	b.WriteString("\n" + manualAgents)
	chapters(&b, 3, "Keys of an agent", objectSchema(&Agent{Listed: true}, agentFields()))
	chapter(&b, 3, "Keys of a rule", objectSchema(&Rule{}, ruleFields()))
	chapter(&b, 3, "Keys of a condition", objectSchema(&Cond{}, condFields()))
	def := DefaultServer()
	server := objectSchema(&def, serverFields())
	b.WriteString("\n" + manualServers)
	chapter(&b, 3, "Keys of a server", server)
	for _, p := range server.Properties {
		chapters(&b, 3, p.key, p.schema)
	}
	b.WriteString("\n" + manualTail)
	variableTable(&b)
	return b.Bytes()
}

// variableTable lists the variables that decide keys.
func variableTable(b *bytes.Buffer) {
	b.WriteString("\n## Variables that decide keys\n\n" + manualVariables + "\n| variable | decides | values |\n|---|---|---|\n")
	row := func(name, key, doc string) { fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, key, doc) }
	row("MCP_JSON_PATH", "the file", "a path; a relative one starts at the current folder")
	row("AIUR_SERVER_HOST", "`listen`", "the host; left out, 127.0.0.1")
	row("AIUR_SERVER_PORT", "`listen`", "the port; left out, 8080")
	row("PORT", "`listen`", "the port on 127.0.0.1; the two above win")
	row("STOA_DATA", "`data`", "a folder")
	row("DEFAULT_TOOL_TIMEOUT_MS", "`timeoutMs` of every server that does not say it", "milliseconds; never more than the server's own `maxTimeoutMs`")
	row("AIUR_MODULES", "`modules`", "names separated by commas, turned on besides those that are on anyway; `file=/notes:/docs` also gives the module file its folders, of which relative ones start at the current folder")
	for _, v := range variables() {
		row(v.name, "`"+strings.ReplaceAll(v.path[1:], "/", ".")+"`", v.doc)
	}
}

// chapters describes the keys of an object, if s is one, and of those in it.
func chapters(b *bytes.Buffer, level int, title string, s *schema) {
	if len(s.AnyOf) > 0 {
		s = s.AnyOf[0]
	}
	if values, ok := s.Values.(*schema); ok && len(s.Properties) == 0 {
		s = values
	}
	if len(s.Properties) == 0 {
		return
	}
	chapter(b, level, title, s)
	for _, p := range s.Properties {
		if !p.schema.foreign {
			chapters(b, level, title+"."+p.key, p.schema)
		}
	}
}

func chapter(b *bytes.Buffer, level int, title string, s *schema) {
	fmt.Fprintf(b, "\n%s %s\n\n| key | type | default | meaning |\n|---|---|---|---|\n", strings.Repeat("#", level), title)
	for _, foreign := range []bool{false, true} {
		for _, p := range s.Properties {
			if p.schema.foreign == foreign {
				fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", p.key, cell(typeName(p.schema)), cell(defaultText(p.schema)), cell(p.schema.Description))
			}
		}
	}
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func defaultText(s *schema) string {
	if s.Default == nil {
		return ""
	}
	return "`" + compact(s.Default) + "`"
}

func typeName(s *schema) string {
	switch {
	case len(s.AnyOf) > 0:
		var all []string
		for _, one := range s.AnyOf {
			all = append(all, typeName(one))
		}
		return strings.Join(all, " or ")
	case s.Ref == "#/$defs/condition":
		return "condition"
	case len(s.Enum) > 0:
		return "`" + strings.Join(s.Enum, "`, `") + "`"
	case s.Pattern == durationPattern:
		return "duration"
	case s.Type == "array" && s.Items != nil && s.Items.Type == "string":
		return "list of strings"
	case s.Type == "array":
		return "list"
	case s.Type == "integer" && s.Minimum != nil && *s.Minimum == *s.Maximum:
		return fmt.Sprintf("`%d`", *s.Minimum)
	case s.Type == "integer" && s.Minimum != nil:
		return fmt.Sprintf("integer, %d to %d", *s.Minimum, *s.Maximum)
	}
	return s.Type
}

const manualHead = `# Configuration

<!-- Generated from the field tables in internal/config by its golden test; run that test with -update after a change. -->

Stoa needs no configuration. What it can be told is in one file, or in the file that another host already has.

` + "`stoa config check`" + ` reads the files and names every problem with its place, ` + "`stoa config show`" + ` prints what is in effect and where each
value came from, ` + "`stoa config schema`" + ` prints the JSON Schema of this format.

## Files

The files given by ` + "`--config`" + ` are read, in their order; else the one that ` + "`MCP_JSON_PATH`" + ` names; else the first of ` + "`stoa.yaml`, `stoa.yml`,\n`stoa.jsonc`, `stoa.json`, `mcp.json`" + ` in the current folder, then in ` + "`stoa`" + ` in the user's configuration folder; else the defaults stand.

A file with ` + "`stoa: 1`" + ` is Stoa's own and read strictly: an unknown key is a problem. It is JSON with comments and trailing commas, or YAML.
Of any other file (` + "`claude_desktop_config.json`, `.cursor/mcp.json`, `.vscode/mcp.json`" + `, …) only the servers are read, from ` + "`mcpServers`, `servers` or\n`mcp.servers`" + `, as they are; what was left out is told as a note.

Of several files the later wins: per key, and for a server as a whole. Each replacement is told as a note. A key given twice in one file is a problem.
A file may have 4 MiB, 100 levels and 1000 servers; YAML may have 100000 words and marks.

## Variables

Where the tables say so, ` + "`${NAME}`" + ` in a string is replaced by the variable and ` + "`${NAME:-default}`" + ` by the default where the variable is unset or empty;
` + "`$$`" + ` is a dollar sign. Nothing else is interpreted: there is no shell. A variable that is not set is a problem (of a disabled server, a note).

What is wrong with one server or agent keeps no hub from running: it is listed among the servers as misconfigured, with the reason, and the others work. One without a name of its own gets another, such as entry-2. ` + "`stoa config check`" + ` names it nevertheless. A change of the files that would make a server
unusable that works now is refused whole.

` + "`${env:NAME}`, `${workspaceFolder}`, `${workspaceFolderBasename}` and `${userHome}`" + ` of editors are understood; ` + "`${input:…}`" + ` is a problem, since nobody can be asked.

Variables come from the environment, then from the files of ` + "`--env-file`" + ` (the later first), then from ` + "`.env`" + ` beside the configuration file.
Such a file has lines ` + "`NAME=value`, `NAME='literal'` or `NAME=\"with \\n escapes\"`; `#`" + ` begins a comment.

Durations are strings such as ` + "`\"30s\"` or `\"1h30m\"`; keys that end in `Ms`" + ` are whole milliseconds.
`

const manualServers = `## servers

` + "```yaml" + `
stoa: 1
servers:
  files:
    command: npx
    args: [-y, "@modelcontextprotocol/server-filesystem", "${HOME}/notes"]
  search:
    url: https://search.example.com/mcp
    headers:
      Authorization: Bearer ${SEARCH_TOKEN}
` + "```" + `

A server's name is made to fit ` + "`^[a-z][a-z0-9-]{0,19}$`" + ` (lower case, other characters become dashes, cut to length); two servers whose names then
are the same are a problem, and so are ` + "`stoa`, `mcp`, `context`, `plan`, `task`, `file`, `debug`" + `. Instead of a map, a list of servers with ` + "`id` or `name`" + ` will do.
In a map, an ` + "`id`" + ` that differs from the key is the name. ` + "`type`" + ` is the transport (` + "`stdio`, `http`, `sse`" + `), or says where the server runs (` + "`local`, `remote`" + `); a remote one with a ` + "`command`" + ` is a problem.
`

const manualModels = `## models

` + "```yaml" + `
stoa: 1
models:
  default: fast
  fast: {provider: gemini, model: gemini-2.5-flash}          # GEMINI_API_KEY is its key
  local: {provider: ollama, model: "qwen3:8b", maxTokenCount: 16384}
  other: {provider: openai, baseUrl: "https://llm.example.com/v1", model: some-model, apiKey: "${LLM_KEY}", functionCalling: false}
` + "```" + `

Every provider also is a model by its own name with all defaults (` + "`gemini`, `openai`, `anthropic`, `ollama`, `script`" + `), unless the file has one of that name. With no model in the file,
the first of ` + "`GEMINI_API_KEY`, `OPENAI_API_KEY` (or `OPENAI_BASE_URL`), `ANTHROPIC_API_KEY` and `OLLAMA_HOST`" + ` that is set decides; with none of them it is ` + "`script`" + `, which lists and calls tools on request and needs no
network. A model without its key can be configured; whoever asks it is told what to set.
` + "`default`" + ` names the model that is used where ` + "`chat.model`" + ` and an agent's ` + "`model`" + ` are left out; without it, it is the first of the file.
`

const manualAgents = `## agents

` + "```yaml" + `
stoa: 1
agents:
  writer:
    description: Writes and edits texts in the notes.
    model: fast
    systemPrompt: You write short, plain sentences.
    tools: [files, "context_*"]
    approvals: {rules: [{tools: "files:delete_*", action: ask}]}
  news: false
` + "```" + `

An agent is served at ` + "`/ws/{agent}`" + ` for WebSocket clients and at ` + "`/mcps/{agent}/mcp`" + ` as an MCP server with the tool ` + "`chat`" + `, by its name in any case. Names are made to fit as those of servers are, and share one namespace
with them: an agent and a server of one name are a problem, but a server takes the place of one of the four agents that exist without being configured. Those four are not offered on the merged faces unless configured.
`

const manualVariables = `What a file says wins over these, and they win over the defaults; an empty one counts as not set. They are looked up as other variables are, so a ` + "`.env`" + `
beside the file will do. A wrong value is a problem that names the variable and its file.
`

const manualTail = `## The listening address and the data folder

| what | order of precedence |
|---|---|
| address | ` + "`--listen`, `listen`, `AIUR_SERVER_HOST` with `AIUR_SERVER_PORT`, `PORT`, `127.0.0.1:8080`" + ` |
| data folder | ` + "`--data`, `data`, `STOA_DATA`, `$XDG_STATE_HOME/stoa`, `~/.local/state/stoa`" + ` |
| log level | ` + "`--quiet` (stderr only) or `--verbose`, `log.level`, `LOG_LEVEL`, `AIUR_VERBOSE`, `info`" + ` |
`
