package rank

import (
	"strings"
	"testing"
)

var tools = []Doc{
	{"files__read_text_file", "Read the complete contents of a file from the file system as text."},
	{"files__write_file", "Create a new file or completely overwrite an existing file with new content."},
	{"files__list_directory", "Get a detailed listing of all files and directories in a specified path."},
	{"files__move_file", "Move or rename files and directories."},
	{"memory__create_entities", "Create multiple new entities in the knowledge graph"},
	{"memory__search_nodes", "Search for nodes in the knowledge graph based on a query"},
	{"mail__sendMessage", "Sends a message to a person."},
}

func TestScores(t *testing.T) {
	for query, want := range map[string]string{
		"what does todo.md say? read it":      "files__read_text_file",
		"show me the directories in notes":    "files__list_directory",
		"rename report.txt to final.txt":      "files__move_file",
		"remember a new entity":               "memory__create_entities",
		"search the graph for Anna":           "memory__search_nodes",
		"send Anna a message":                 "mail__sendMessage",
		"overwrite the existing contents now": "files__write_file",
	} {
		scores, best := Scores(query, tools), 0
		for i := range scores {
			if scores[i] > scores[best] {
				best = i
			}
		}
		if got := tools[best].Name; got != want || scores[best] == 0 {
			t.Errorf("%q: %s, by %v", query, got, scores)
		}
	}
}

func TestNothingFits(t *testing.T) {
	for _, query := range []string{"", "hello", "?!", "the and for", strings.Repeat("ü", 1000)} {
		for i, s := range Scores(query, tools) {
			if s != 0 {
				t.Errorf("%.20q fits %s: %g", query, tools[i].Name, s)
			}
		}
	}
	if got := Scores("read", nil); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
