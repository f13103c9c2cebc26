package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// furnish fills the folder that the servers work in, each time with the same.
func furnish(t *testing.T, folder string) {
	t.Helper()
	f := &furniture{t: t, folder: folder, dice: rand.New(rand.NewPCG(4, 8))}
	f.write("logs/server.log", f.log())
	for i := range 12 {
		dir := fmt.Sprintf("project/service-%02d/", i)
		f.write(dir+"main.go", fmt.Sprintf("package main\n\nfunc main() { serve(%q) }\n", dir))
		f.write(dir+"config.yaml", fmt.Sprintf("port: %d\nreplicas: %d\n", 9000+i, 1+i%3))
		for _, part := range []string{"handler", "store", "client", "metrics", "queue", "retry"} {
			f.write(dir+"internal/"+part+"/"+part+".go", "package "+part+"\n")
			f.write(dir+"internal/"+part+"/"+part+"_test.go", "package "+part+"\n")
		}
	}
	f.write("memory.jsonl", f.graph())
	f.write("vault/.obsidian/app.json", "{}")
	f.write("vault/essays/stoa.md", f.essay())
	for i := range 8 {
		f.write(fmt.Sprintf("vault/daily/2026-03-%02d.md", i+1), fmt.Sprintf("# Day %d\n\nRead about the colonnade; %s\n", i+1, f.sentence(12)))
	}
	f.write("archive/.keep", "")
	f.write("out/.keep", "")
	f.repository()
}

type furniture struct {
	t      *testing.T
	folder string
	dice   *rand.Rand
}

func (f *furniture) write(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *furniture) of(words ...string) string { return words[f.dice.IntN(len(words))] }

func (f *furniture) sentence(n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = f.of("the", "a", "market", "column", "shade", "visitor", "speaks", "walks", "under", "between", "long", "open", "and", "with", "message", "merchant", "listens", "north", "painted", "wall")
	}
	return strings.Join(words, " ") + "."
}

func (f *furniture) log() string {
	var b strings.Builder
	at := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	for i := range 220 {
		at = at.Add(time.Duration(f.dice.IntN(20000)) * time.Millisecond)
		level, message := "info", "served"
		if f.dice.IntN(25) == 0 {
			level, message = "error", "payment service: no answer within 5s"
		}
		fmt.Fprintf(&b, "%s level=%s msg=%q request=%06x path=/api/%s/%d took=%dms\n", at.Format("2006-01-02T15:04:05.000Z"), level, message,
			f.dice.IntN(1<<24), f.of("orders", "customers", "invoices"), i, f.dice.IntN(400))
	}
	return b.String()
}

// graph is what the memory server keeps: a line of JSON for each thing.
func (f *furniture) graph() string {
	var b strings.Builder
	line := func(v map[string]any) {
		text, err := json.Marshal(v)
		if err != nil {
			f.t.Fatal(err)
		}
		b.Write(append(text, '\n'))
	}
	for i := range 60 {
		line(map[string]any{"type": "entity", "name": fmt.Sprintf("Person %d", i), "entityType": "person", "observations": []string{f.sentence(10), f.sentence(8)}})
	}
	for i := range 59 {
		line(map[string]any{"type": "relation", "from": fmt.Sprintf("Person %d", i), "to": fmt.Sprintf("Person %d", f.dice.IntN(60)), "relationType": f.of("knows", "teaches", "trades with")})
	}
	return b.String()
}

func (f *furniture) essay() string {
	var b strings.Builder
	b.WriteString("# The stoa\n")
	for i := range 20 {
		fmt.Fprintf(&b, "\n## Part %d: the colonnade\n\n", i+1)
		for range 9 {
			b.WriteString(f.sentence(18) + "\n")
		}
	}
	return b.String()
}

// repository makes a history whose hashes are always the same.
func (f *furniture) repository() {
	dir := filepath.Join(f.folder, "repo")
	at := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	git := func(args ...string) {
		f.t.Helper()
		cmd := exec.Command("git", append([]string{"-C", f.folder, "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false"}, args...)...)
		stamp := at.Format(time.RFC3339)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.folder, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_DATE=" + stamp, "GIT_COMMITTER_DATE=" + stamp,
			"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com"}
		if said, err := cmd.CombinedOutput(); err != nil {
			f.t.Fatalf("git %s: %v\n%s", args, err, said)
		}
	}
	git("init", "-q", dir)
	for range 60 {
		at = at.Add(7 * time.Hour)
		part := f.of("store", "router", "console", "wire")
		var b strings.Builder
		for n := range 6 {
			fmt.Fprintf(&b, "%s line %d: %s\n", part, n, f.sentence(9))
		}
		f.write("repo/"+part+"/"+f.of("a", "b", "c")+".txt", b.String())
		git("-C", dir, "add", ".")
		git("-C", dir, "commit", "-q", "--allow-empty", "-m", part+": "+f.sentence(6))
	}
}
