package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
)

// step is one call that a model makes with handles. Without them it leaves out
// saveAs, writes what references stand for, and has no use for steps of the
// hub's own tools: it has seen all there is.
type step struct {
	server string // "" for the hub's own
	tool   string
	args   string // JSON; files are below /data
}

// conversation is a task and what a model does for it.
type conversation struct {
	name    string // also that of its recording
	task    string
	servers []string
	steps   []step
}

var conversations = []conversation{
	{"log", "find the errors in a log, archive the log, and write a note", []string{"files"}, []step{
		{"files", "list_directory", `{"path":"/data/logs"}`},
		{"files", "read_text_file", `{"path":"/data/logs/server.log","saveAs":"log"}`},
		{"", "context_get", `{"name":"log","path":"content","grep":"level=error"}`},
		{"files", "write_file", `{"path":"/data/archive/server.log","content":"@log.content"}`},
		{"files", "write_file", `{"path":"/data/archive/errors.md","content":"# Errors of 2 March\n\nAll are time-outs of the payment service, between 10:16 and 10:41. The log is kept beside this note.\n"}`},
		{"files", "list_directory", `{"path":"/data/archive"}`},
	}},
	{"tree", "look around in a project and read the files that matter", []string{"files"}, []step{
		{"files", "directory_tree", `{"path":"/data/project"}`},
		{"", "context_get", `{"name":"r_files_directory_tree_1","grep":"main|config"}`},
		{"files", "read_text_file", `{"path":"/data/project/service-03/config.yaml"}`},
		{"files", "read_text_file", `{"path":"/data/project/service-03/main.go"}`},
		{"files", "read_text_file", `{"path":"/data/project/service-07/config.yaml"}`},
	}},
	{"graph", "copy a knowledge graph to another server", []string{"memory", "archive"}, []step{
		{"memory", "read_graph", `{"saveAs":"graph"}`},
		{"", "context_get", `{"name":"graph","path":"entities","limit":3}`},
		{"archive", "create_entities", `{"entities":"@graph.entities"}`},
		{"archive", "create_relations", `{"relations":"@graph.relations"}`},
		{"archive", "search_nodes", `{"query":"Person 17"}`},
	}},
	{"history", "write the patch of one commit and the changes of a release to files", []string{"git", "files"}, []step{
		{"git", "git_log", `{"path":"/data/repo","maxCount":60,"saveAs":"history"}`},
		{"", "context_get", `{"name":"history","path":"commits","grep":"^store: "}`},
		{"git", "git_show", `{"path":"/data/repo","object":"HEAD~12","saveAs":"change"}`},
		{"files", "write_file", `{"path":"/data/out/change.patch","content":"@change.content"}`},
		{"git", "git_diff", `{"path":"/data/repo","source":"HEAD~30","target":"HEAD","saveAs":"release"}`},
		{"files", "write_file", `{"path":"/data/out/release.diff","content":"@release.diff"}`},
		{"files", "write_file", `{"path":"/data/out/README.md","content":"change.patch is the commit that was asked for; release.diff has everything since the last release.\n"}`},
	}},
	{"note", "file a long note in a knowledge graph and make a copy of it", []string{"obsidian", "memory"}, []step{
		{"obsidian", "obsidian_search_vault", `{"vault":"notes","query":"colonnade"}`},
		{"obsidian", "obsidian_read_note", `{"vault":"notes","path":"essays/stoa.md","saveAs":"note"}`},
		{"", "context_get", `{"name":"note","path":"data.content","grep":"^## "}`},
		{"memory", "create_entities", `{"entities":[{"name":"Essay on the stoa","entityType":"note","observations":["@note.data.content"]}]}`},
		{"obsidian", "obsidian_create_note", `{"vault":"notes","path":"copies/stoa.md","content":"@note.data.content","create_parents":true}`},
		{"memory", "create_relations", `{"relations":[{"from":"Essay on the stoa","to":"Person 17","relationType":"mentions"}]}`},
	}},
	{"small", "answer small questions, where there is nothing to gain", []string{"everything"}, []step{
		{"everything", "get-structured-content", `{"location":"Chicago","saveAs":"weather"}`},
		{"everything", "echo", `{"message":"@weather.conditions"}`},
		{"everything", "get-sum", `{"a":17,"b":25}`},
		{"everything", "echo", `{"message":"done"}`},
	}},
}

// exchange is one recorded call of a server.
type exchange struct {
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Result    json.RawMessage `json:"result"`
}

//go:embed testdata
var recordings embed.FS

// recorded returns the exchanges of a conversation.
func recorded(name string) ([]exchange, error) {
	var out []exchange
	err := load("testdata/"+name+".json", &out)
	return out, err
}

// definitions returns the tools of a server, as it lists them.
func definitions(server string) (json.RawMessage, error) {
	if server == "archive" {
		server = "memory" // a second process of the same
	}
	var out json.RawMessage
	err := load("testdata/tools/"+server+".json", &out)
	return out, err
}

func load(file string, into any) error {
	b, err := recordings.ReadFile(file)
	var compact bytes.Buffer // as servers send it: the files have line breaks for people
	if err == nil {
		err = json.Compact(&compact, b)
	}
	if err == nil {
		err = json.Unmarshal(compact.Bytes(), into)
	}
	if err != nil {
		return fmt.Errorf("read the recording %s: %w (make tools, then go test ./bench/tokens -update)", file, err)
	}
	return nil
}
