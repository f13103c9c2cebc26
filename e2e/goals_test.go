package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
)

// goal is something that a person wants of real servers: what a plan is made from, what it is given, and how it is seen
// at the server that it was done. FOLDER stands for the folder, REPO for the repository in it.
type goal struct {
	name   string
	ask    string   // arguments of plan_create
	given  string   // inputs of the run
	says   []string // what the outputs hold
	file   string   // a file in the folder
	holds  string   // what it holds then; "-" means that there is no such file
	git    string   // arguments of git in the repository
	prints string   // what it prints then
}

var goals = []goal{
	{name: "write a file", ask: `{"allowableActions":[{"type":"save","tool":"files__write_file","inputs":["path","content"],"outputs":["saved"]}],"inputs":["path","content"],"requiredOutputs":["saved"]}`,
		given: `{"path":"FOLDER/a.txt","content":"one\ntwo\nthree\nfour"}`, file: "a.txt", holds: "one\ntwo\nthree\nfour"},
	{name: "read a file", ask: `{"tools":["files__*"],"inputs":["path"],"requiredOutputs":["content"]}`,
		given: `{"path":"FOLDER/a.txt"}`, says: []string{`"content":"one\ntwo\nthree\nfour"`}},
	{name: "read a file that is given under another name", ask: `{"tools":["files__*"],"inputs":["source_path"],"requiredOutputs":["content"]}`,
		given: `{"source_path":"FOLDER/a.txt"}`, says: []string{`"content":"one\ntwo\nthree\nfour"`}},
	{name: "read the text file", ask: `{"title":"Read the text file","tools":["files__*"],"inputs":["path"],"requiredOutputs":["content"]}`,
		given: `{"path":"FOLDER/a.txt"}`, says: []string{`"content":"one\ntwo\nthree\nfour"`}},
	{name: "summarise a document", ask: `{"title":"Summarise the document","tools":["files__*"],"inputs":["path"],"requiredOutputs":[{"name":"content","schema":{"type":"string"}}]}`,
		given: `{"path":"FOLDER/a.txt"}`, says: []string{`"content":"one\ntwo\nthree\nfour"`}},
	{name: "copy notes, by any tool that reads", ask: `{"title":"Copy notes","tools":["files__*"],"inputs":["path","target"],"requiredOutputs":["written"],"allowableActions":[{"type":"write","tool":"files__write_file","inputs":["content","target"],"outputs":["written"],"args":{"path":"@target","content":"@content"}}]}`,
		given: `{"path":"FOLDER/a.txt","target":"FOLDER/notes.txt"}`, file: "notes.txt", holds: "one\ntwo\nthree\nfour"},
	{name: "copy the text of a file", ask: `{"title":"Copy file text","tools":["files__*","memory__*"],"inputs":["path","target"],"requiredOutputs":["written"],"allowableActions":[{"type":"write","tool":"files__write_file","inputs":["content","target"],"outputs":["written"],"args":{"path":"@target","content":"@content"}}]}`,
		given: `{"path":"FOLDER/a.txt","target":"FOLDER/text.txt"}`, file: "text.txt", holds: "one\ntwo\nthree\nfour"},
	{name: "read the first lines", ask: `{"tools":["files__read*"],"inputs":["path","head"],"requiredOutputs":["content"]}`,
		given: `{"path":"FOLDER/a.txt","head":2}`, says: []string{`"content":"one\ntwo"`}},
	{name: "read the last lines", ask: `{"tools":["files__*"],"inputs":["path","tail"],"requiredOutputs":["content"]}`,
		given: `{"path":"FOLDER/a.txt","tail":1}`, says: []string{`"content":"four"`}},
	{name: "copy a file", ask: `{"allowableActions":[{"type":"read","tool":"files__read_text_file","args":{"path":"@source_path"},"inputs":["source_path"],"outputs":["content"]},{"type":"write","tool":"files__write_file","args":{"path":"@target_path","content":"@content"},"inputs":["target_path","content"],"outputs":["copy"]}],"inputs":["source_path","target_path"],"requiredOutputs":["copy"]}`,
		given: `{"source_path":"FOLDER/a.txt","target_path":"FOLDER/b.txt"}`, file: "b.txt", holds: "one\ntwo\nthree\nfour"},
	{name: "move a file", ask: `{"allowableActions":[{"type":"move","tool":"files__move_file","inputs":["source","destination"],"outputs":["moved"]}],"inputs":["source","destination"],"requiredOutputs":["moved"]}`,
		given: `{"source":"FOLDER/b.txt","destination":"FOLDER/c.txt"}`, file: "b.txt", holds: "-"},
	{name: "what was moved", ask: `{"tools":["files__read_text_file"],"inputs":["path"],"requiredOutputs":["content"]}`,
		given: `{"path":"FOLDER/c.txt"}`, file: "c.txt", holds: "one\ntwo\nthree\nfour", says: []string{"three"}},
	{name: "make a folder", ask: `{"allowableActions":[{"type":"mkdir","tool":"files__create_directory","inputs":["path"],"outputs":["folder"]}],"inputs":["path"],"requiredOutputs":["folder"]}`,
		given: `{"path":"FOLDER/sub"}`, file: "sub/none", holds: "-"},
	{name: "write into the new folder, once it is there", ask: `{"allowableActions":[{"type":"mkdir","tool":"files__create_directory","args":{"path":"@folder"},"inputs":["folder"],"outputs":["made"]},{"type":"write","tool":"files__write_file","inputs":["path","content","made"],"outputs":["written"]}],"inputs":["folder","path","content"],"requiredOutputs":["written"]}`,
		given: `{"folder":"FOLDER/sub/deep","path":"FOLDER/sub/deep/n.txt","content":"needle"}`, file: "sub/deep/n.txt", holds: "needle"},
	{name: "list a folder", ask: `{"title":"List the files and directories in a directory","tools":["files__list_directory","files__read_text_file"],"inputs":["path"],"requiredOutputs":["content"]}`,
		given: `{"path":"FOLDER"}`, says: []string{"[FILE] a.txt", "[DIR] sub"}},
	{name: "the tree of a folder", ask: `{"title":"A recursive tree as JSON","tools":["files__*"],"inputs":["path"],"requiredOutputs":["content"]}`,
		given: `{"path":"FOLDER/sub"}`, says: []string{`n.txt`, `children`}},
	{name: "search a folder", ask: `{"tools":["files__*"],"inputs":["path","pattern"],"requiredOutputs":["content"]}`,
		given: `{"path":"FOLDER","pattern":"**/n.*"}`, says: []string{"sub/deep/n.txt"}},
	{name: "facts of a file", ask: `{"title":"Detailed metadata of a file: size, modified, permissions","tools":["files__*"],"inputs":["path"],"requiredOutputs":["content"]}`,
		given: `{"path":"FOLDER/a.txt"}`, says: []string{"size: 18"}},
	{name: "read several files", ask: `{"tools":["files__*"],"inputs":["paths"],"requiredOutputs":["content"]}`,
		given: `{"paths":["FOLDER/a.txt","FOLDER/sub/deep/n.txt"]}`, says: []string{"needle", "three"}},
	{name: "which folders are allowed", ask: `{"title":"List the allowed directories","tools":["files__*"],"requiredOutputs":["content"]}`,
		given: `{}`, says: []string{"FOLDER"}},
	{name: "edit a file", ask: `{"allowableActions":[{"type":"edit","tool":"files__edit_file","args":{"path":"@path","edits":[{"oldText":"@old_text","newText":"@new_text"}]},"inputs":["path","old_text","new_text"],"outputs":["changed"]}],"inputs":["path","old_text","new_text"],"requiredOutputs":["changed"]}`,
		given: `{"path":"FOLDER/a.txt","old_text":"two","new_text":"zwei"}`, file: "a.txt", holds: "one\nzwei\nthree\nfour"},

	{name: "keep persons", ask: `{"allowableActions":[{"type":"keep","tool":"memory__create_entities","inputs":["entities"],"outputs":["kept"]}],"inputs":["entities"],"requiredOutputs":["kept"]}`,
		given: `{"entities":[{"name":"Zeno","entityType":"person","observations":["taught"]},{"name":"Chrysippus","entityType":"person","observations":[]}]}`, file: "graph.jsonl", holds: "Chrysippus"},
	{name: "keep who taught whom", ask: `{"allowableActions":[{"type":"relate","tool":"memory__create_relations","inputs":["relations"],"outputs":["related"]}],"inputs":["relations"],"requiredOutputs":["related"]}`,
		given: `{"relations":[{"from":"Zeno","to":"Chrysippus","relationType":"came before"}]}`, file: "graph.jsonl", holds: "came before"},
	{name: "note something", ask: `{"tools":["memory__*"],"inputs":["observations"],"requiredOutputs":["results"]}`,
		given: `{"observations":[{"entityName":"Zeno","contents":["walked in the stoa"]}]}`, says: []string{"walked in the stoa"}, file: "graph.jsonl", holds: "walked in the stoa"},
	{name: "search what was kept", ask: `{"tools":["memory__*"],"inputs":["query"],"requiredOutputs":["entities","relations"]}`,
		given: `{"query":"walked"}`, says: []string{`"name":"Zeno"`}},
	{name: "look somebody up", ask: `{"tools":["memory__*"],"inputs":["names"],"requiredOutputs":["entities"]}`,
		given: `{"names":["Chrysippus"]}`, says: []string{"Chrysippus"}},
	{name: "all that was kept", ask: `{"tools":["memory__*"],"requiredOutputs":["entities","relations"]}`,
		given: `{}`, says: []string{"Zeno", "Chrysippus", "came before"}},
	{name: "forget a note", ask: `{"tools":["memory__*"],"inputs":["deletions"],"requiredOutputs":["message"]}`,
		given: `{"deletions":[{"entityName":"Zeno","observations":["walked in the stoa"]}]}`, file: "graph.jsonl", holds: "not:walked in the stoa"},
	{name: "forget who came before whom", ask: `{"tools":["memory__*"],"inputs":["relations"],"requiredOutputs":["message"]}`,
		given: `{"relations":[{"from":"Zeno","to":"Chrysippus","relationType":"came before"}]}`, file: "graph.jsonl", holds: "not:came before"},
	{name: "forget somebody", ask: `{"title":"Delete entities","tools":["memory__*"],"inputs":["entityNames"],"requiredOutputs":["success","message"]}`,
		given: `{"entityNames":["Chrysippus"]}`, file: "graph.jsonl", holds: "not:Chrysippus"},

	{name: "an echo", ask: `{"tools":["everything__*"],"inputs":["message"],"requiredOutputs":["echo"]}`,
		given: `{"message":"hallo"}`, says: []string{"Echo: hallo"}},
	{name: "a sum", ask: `{"tools":["everything__*"],"inputs":["a","b"],"requiredOutputs":["get-sum"]}`,
		given: `{"a":2,"b":40}`, says: []string{"42"}},
	{name: "the weather", ask: `{"tools":["everything__*"],"inputs":["location"],"requiredOutputs":["temperature","conditions"]}`,
		given: `{"location":"Chicago"}`, says: []string{`"temperature":`, `"conditions":`}},
	{name: "the weather, said", ask: `{"tools":["everything__get-structured-content"],"allowableActions":[{"type":"say","tool":"everything__echo","args":{"message":"@conditions"},"inputs":["conditions"],"outputs":["said"]}],"inputs":["location"],"requiredOutputs":["said"]}`,
		given: `{"location":"New York"}`, says: []string{"Echo: "}},
	{name: "a message of a kind", ask: `{"tools":["everything__get-annotated-message"],"inputs":["messageType","includeImage"],"requiredOutputs":["get-annotated-message"]}`,
		given: `{"messageType":"error","includeImage":false}`, says: []string{"Error"}},
	{name: "something that takes its time", ask: `{"tools":["everything__trigger-long*"],"inputs":["duration","steps"],"requiredOutputs":["trigger-long-running-operation"]}`,
		given: `{"duration":0.1,"steps":2}`, says: []string{"completed"}},
	{name: "a file, said aloud", ask: `{"tools":["files__read_text_file"],"allowableActions":[{"type":"say","tool":"everything__echo","args":{"message":"@content"},"inputs":["content"],"outputs":["said"]}],"inputs":["path"],"requiredOutputs":["said"]}`,
		given: `{"path":"FOLDER/sub/deep/n.txt"}`, says: []string{"Echo: needle"}},
	{name: "the weather, into a file", ask: `{"tools":["everything__get-structured-content"],"allowableActions":[{"type":"write","tool":"files__write_file","args":{"path":"@path","content":"@conditions"},"inputs":["path","conditions"],"outputs":["written"]}],"inputs":["location","path"],"requiredOutputs":["written"]}`,
		given: `{"location":"Los Angeles","path":"FOLDER/weather.txt"}`, file: "weather.txt", holds: "unny"},

	{name: "begin a repository", ask: `{"tools":["git__git_init"],"inputs":["path","initialBranch"],"requiredOutputs":["isBare"]}`,
		given: `{"path":"REPO","initialBranch":"trunk"}`, says: []string{`"isBare":false`}, git: "symbolic-ref --short HEAD", prints: "trunk"},
	{name: "write a file and stage it", ask: `{"allowableActions":[{"type":"write","tool":"files__write_file","args":{"path":"@file","content":"@text"},"inputs":["file","text"],"outputs":["written"]},{"type":"stage","tool":"git__git_add","args":{"path":"@repo","all":true},"inputs":["repo","written"],"outputs":["staged"]}],"inputs":["repo","file","text"],"requiredOutputs":["staged"]}`,
		given: `{"repo":"REPO","file":"REPO/x.txt","text":"first\n"}`, git: "diff --cached --name-only", prints: "x.txt"},
	{name: "commit", ask: `{"tools":["git__*"],"inputs":["path","message"],"requiredOutputs":["commitHash"]}`,
		given: `{"path":"REPO","message":"Begin"}`, git: "log -1 --format=%s", prints: "Begin"},
	{name: "the log", ask: `{"tools":["git__*"],"inputs":["path"],"requiredOutputs":["commits"]}`,
		given: `{"path":"REPO"}`, says: []string{"Begin"}},
	{name: "whether all is committed", ask: `{"tools":["git__*"],"inputs":["path"],"requiredOutputs":["isClean"]}`,
		given: `{"path":"REPO"}`, says: []string{`"isClean":true`}},
	{name: "who wrote which line", ask: `{"tools":["git__*"],"inputs":["path","filePath"],"requiredOutputs":["lines"]}`,
		given: `{"path":"REPO","filePath":"x.txt"}`, says: []string{"first"}},
	{name: "a tag", ask: `{"tools":["git__git_tag"],"inputs":["path","mode","tagName"],"requiredOutputs":["created"]}`,
		given: `{"path":"REPO","mode":"create","tagName":"v1"}`, git: "tag", prints: "v1"},
	{name: "a branch", ask: `{"tools":["git__git_branch"],"inputs":["path","mode","branchName"],"requiredOutputs":["success"]}`,
		given: `{"path":"REPO","mode":"create","branchName":"side"}`, git: "branch --list side", prints: "side"},
	{name: "change to the branch", ask: `{"tools":["git__*"],"inputs":["path","target"],"requiredOutputs":["branchCreated"]}`,
		given: `{"path":"REPO","target":"side"}`, git: "symbolic-ref --short HEAD", prints: "side"},
	{name: "change a file and see the difference", ask: `{"allowableActions":[{"type":"edit","tool":"files__edit_file","args":{"path":"@file","edits":[{"oldText":"first","newText":"second"}]},"inputs":["file"],"outputs":["edited"]},{"type":"compare","tool":"git__git_diff","args":{"path":"@repo"},"inputs":["repo","edited"],"outputs":["diff"]}],"inputs":["repo","file"],"requiredOutputs":["diff"]}`,
		given: `{"repo":"REPO","file":"REPO/x.txt"}`, says: []string{"+second"}},
	{name: "commit and show what was committed", ask: `{"allowableActions":[{"type":"commit","tool":"git__git_commit","args":{"path":"@repo","message":"@why","filesToStage":["x.txt"]},"inputs":["repo","why"],"outputs":["commitHash"]},{"type":"show","tool":"git__git_show","args":{"path":"@repo","object":"@commitHash"},"inputs":["repo","commitHash"],"outputs":["content"]}],"inputs":["repo","why"],"requiredOutputs":["content"]}`,
		given: `{"repo":"REPO","why":"Change it"}`, says: []string{"Change it"}, git: "log --format=%s", prints: "Change it\nBegin"},
	{name: "what happened", ask: `{"tools":["git__*"],"inputs":["path","maxCount"],"requiredOutputs":["entries"]}`,
		given: `{"path":"REPO","maxCount":5}`, says: []string{"Change it"}},
}

// TestGoals has plans made for goals from the schemas of real servers, runs them, and looks at the servers.
func TestGoals(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	folder := resolvedFolder(t)
	repo := filepath.Join(folder, "repo")
	if err := os.Mkdir(repo, 0o755); err != nil {
		t.Fatal(err)
	}
	servers := published(set, folder, filepath.Join(folder, "graph.jsonl"))
	servers["git"] = server{Command: set.node, Args: []string{set.bin("git-mcp-server")}, Env: map[string]string{
		"MCP_TRANSPORT_TYPE": "stdio", "GIT_BASE_DIR": repo, "GIT_SIGN_COMMITS": "false", "LOGS_DIR": t.TempDir(),
		"GIT_USERNAME": "Zeno", "GIT_EMAIL": "zeno@example.org", "GIT_AUTHOR_NAME": "Zeno", "GIT_AUTHOR_EMAIL": "zeno@example.org", "GIT_COMMITTER_NAME": "Zeno", "GIT_COMMITTER_EMAIL": "zeno@example.org"}}
	h := startHub(t, set, servers)
	place := strings.NewReplacer("FOLDER", folder, "REPO", repo)
	for _, g := range goals {
		t.Run(g.name, func(t *testing.T) { g.reach(t, h, place, folder, repo) })
	}
}

func (g goal) reach(t *testing.T, h hub, place *strings.Replacer, folder, repo string) {
	made := apiTool(t, h, "plan_create", g.ask)
	if text, ok := made["problems"]; ok {
		t.Errorf("the plan cannot be run: %s", text)
	}
	ran := apiTool(t, h, "plan_execute", `{"plan":`+string(made["plan"])+`,"inputs":`+place.Replace(g.given)+`}`)
	var steps []struct {
		Tool     string
		Attempts int
	}
	if err := json.Unmarshal(ran["steps"], &steps); err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if s.Attempts != 1 {
			t.Errorf("%s was called %d times", s.Tool, s.Attempts)
		}
	}
	for _, want := range g.says {
		if !strings.Contains(string(ran["outputs"]), place.Replace(want)) {
			t.Errorf("the outputs lack %s: %s\nplan: %s", want, ran["outputs"], made["plan"])
		}
	}
	if g.file != "" {
		g.look(t, filepath.Join(folder, g.file))
	}
	if g.git != "" {
		out, err := exec.Command("git", append([]string{"-C", repo}, strings.Fields(g.git)...)...).CombinedOutput()
		if got := strings.TrimLeft(strings.TrimSpace(string(out)), "* "); err != nil || got != g.prints {
			t.Errorf("git %s: %v: %s", g.git, err, out)
		}
	}
}

// look holds a file to what it has to hold.
func (g goal) look(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	without, isWithout := strings.CutPrefix(g.holds, "not:")
	switch {
	case g.holds == "-":
		if !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", g.file, err)
		}
	case err != nil:
		t.Error(err)
	case isWithout && strings.Contains(string(text), without), !isWithout && !strings.Contains(string(text), g.holds):
		t.Errorf("%s holds %q", g.file, text)
	}
}

// apiTool calls a tool by POST /api/tools and returns the members of its data.
func apiTool(t *testing.T, h hub, name, args string) map[string]json.RawMessage {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(h.data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+h.address+"/api/tools/"+name, strings.NewReader(args))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Success bool
		Data    map[string]json.RawMessage
	}
	if err := json.Unmarshal(bytes.TrimSpace(text), &answer); err != nil || res.StatusCode != http.StatusOK || !answer.Success {
		t.Fatalf("%s %s: %s: %s", name, args, res.Status, text)
	}
	return answer.Data
}
