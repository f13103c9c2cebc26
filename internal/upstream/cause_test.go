package upstream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What launchers print when they fail, as they print it: the line that tells why
// is found, and what can be done is said.
func TestCauseIn(t *testing.T) {
	for name, tc := range map[string]struct{ printed, said, hint string }{
		"npm, no such package": {`npm error code E404
npm error 404 Not Found - GET https://registry.example/@nobody%2fnothing - Not found
npm error 404
npm error 404  '@nobody/nothing@*' is not in this registry.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git folder.
npm error A complete log of this run can be found in: LOGFILE`,
			"'@nobody/nothing@*' is not in this registry", "name or version in args"},
		"npm, no such package, in newer words": {`npm error code E404
npm error 404 Not Found - GET https://registry.example/@nobody%2fnothing
npm error 404
npm error 404  The requested resource '@nobody/nothing@*' could not be found or you do not have permission to access it.
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.`, "The requested resource '@nobody/nothing@*' could not be found", "name or version in args"},
		"python, no such module": {"/usr/bin/python3: No module named nothing", "/usr/bin/python3: No module named nothing", "Install the module"},
		"npm, no such version": {`npm error code ETARGET
npm error notarget No matching version found for left-pad@99.0.0.
npm error notarget In most cases you or one of your dependencies are requesting
npm error A complete log of this run can be found in: LOGFILE`, "No matching version found for left-pad@99.0.0", "name or version in args"},
		"npm, no program": {`npm error could not determine executable to run
npm error A complete log of this run can be found in: LOGFILE`, "could not determine executable to run", "npx -y -p"},
		"npm, no network": {`npm error code ENOTFOUND
npm error network request to https://registry.example/x failed, reason: getaddrinfo ENOTFOUND registry.example
npm error network This is a problem related to network connectivity.`, "getaddrinfo ENOTFOUND registry.example", "Check the network"},
		"uvx, no such package": {`  × No solution found when resolving tool dependencies:
  ╰─▶ Because mcp-server-nothing was not found in the package registry and you require mcp-server-nothing, we can conclude that your requirements are unsatisfiable.`,
			"Because mcp-server-nothing was not found in the package registry", "name in args"},
		"docker, not running": {`docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?
See 'docker run --help'.`, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", "Start Docker"},
		"docker, no such image": {`Unable to find image 'nobody/nothing:latest' locally
docker: Error response from daemon: pull access denied for nobody/nothing, repository does not exist or may require 'docker login'.
See 'docker run --help'.`, "pull access denied for nobody/nothing, repository does not exist or may require 'docker login'", "image's name"},
		"python, no module": {`Traceback (most recent call last):
  File "/srv/server.py", line 1, in <module>
    import nothing
ModuleNotFoundError: No module named 'nothing'`, "ModuleNotFoundError: No module named 'nothing'", "Install the module"},
		"node, no file": {`node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module '/srv/nothing.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.20.2`, "Cannot find module '/srv/nothing.js'", "Correct the path"},
		"a server's own words": {`Starting
Error: None of the specified directories are accessible
    at main (index.js:1:1)

Node.js v20.20.2`, "Error: None of the specified directories are accessible", ""},
		"npm, a cache of root's": {`npm error code EACCES
npm error syscall mkdir
npm error path /home/ada/.npm/_cacache
npm error errno EACCES
npm error Your cache folder contains root-owned files, due to a bug in
npm error previous versions of npm which has since been addressed.
npm error To permanently fix this problem, please run:
npm error   sudo chown -R 1000:1000 "/home/ada/.npm"`, "Your cache folder contains root-owned files", "npm's cache folder"},
		"go, a panic": {`2026/01/01 10:00:00 loaded config
panic: runtime error: index out of range [3] with length 2

goroutine 1 [running]:
example.com/x/errors.(*T).Error(...)
	/src/errors/t.go:4
main.main()
	/src/main.go:10 +0x1d
exit status 2`, "panic: runtime error: index out of range [3] with length 2", ""},
		"node, a throw": {`booting
[eval]:1
setTimeout(()=>{throw new Error("ECONNREFUSED to postgres at 10.0.0.1:5432")},100)
                ^

Error: ECONNREFUSED to postgres at 10.0.0.1:5432
    at Timeout._onTimeout ([eval]:1:50)
    at process.processTimers (node:internal/timers:519:7)

Node.js v20.20.2`, "Error: ECONNREFUSED to postgres at 10.0.0.1:5432", ""},
		"python, an exception raised from another": {`Traceback (most recent call last):
  File "<string>", line 3, in <module>
    open("/nope/x")
FileNotFoundError: [Errno 2] No such file or directory: '/nope/x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "<string>", line 5, in <module>
RuntimeError: could not load configuration`,
			"RuntimeError: could not load configuration, caused by FileNotFoundError: [Errno 2] No such file or directory: '/nope/x'", ""},
		"a log of JSON": {`{"level":30,"msg":"starting"}
{"level":60,"err":{"message":"cannot open db /var/db"},"msg":"fatal"}`, `{"level":60,"err":{"message":"cannot open db /var/db"},"msg":"fatal"}`, ""},
		"no word of error": {"booting\ngoodbye\n\n", "goodbye", ""},
		"nothing":          {"", "", ""},
	} {
		said, hint := causeIn(strings.Split(tc.printed, "\n"))
		if said != tc.said || !strings.Contains(hint, tc.hint) || tc.hint == "" && hint != "" {
			t.Errorf("%s: said %q, hint %q", name, said, hint)
		}
	}
}

// A folder that is not there is told from a program that is not there.
func TestWrongFolderOfAProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		file + ".gone": "up: cannot start sh: there is no folder " + file + ".gone",
		file:           "up: cannot start sh: " + file + " is no folder",
	} {
		_, err := startProcess(&Options{Name: "up", Command: "sh", Dir: dir}, &tail{})
		if err == nil || err.Error() != want || !misconfigured(err) || Advice(err) != "Make the folder, or correct cwd in the config." {
			t.Errorf("%s: %v, misconfigured %v: %s", dir, err, misconfigured(err), Advice(err))
		}
	}
}
