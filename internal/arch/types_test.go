package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checked is a package of the module with the types of what is in it.
type checked struct {
	dir   string // from the root
	set   *token.FileSet
	files []*ast.File
	info  *types.Info
}

// listed is what the go command says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// check reads the module's packages, without tests, with their types. What they
// import is not read again: the compiler has left what it exports.
func check(t *testing.T, patterns ...string) (out []checked, set *token.FileSet, from types.Importer) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}, patterns...)...)
	cmd.Dir, cmd.Stderr = repo, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath") // as make builds the product: it is not compiled once more
	answer, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	var ours []listed
	for dec := json.NewDecoder(strings.NewReader(string(answer))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if exports[p.ImportPath] = p.Export; p.ImportPath == module || strings.HasPrefix(p.ImportPath, module+"/") {
			ours = append(ours, p)
		}
	}
	set = token.NewFileSet()
	from = importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, p := range ours {
		one := newChecked(set, strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/"))
		for _, name := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			one.add(t, name, string(src))
		}
		one.types(t, from)
		out = append(out, one)
	}
	return out, set, from
}

func newChecked(set *token.FileSet, dir string) checked {
	return checked{dir: dir, set: set, info: &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}}
}

func (c *checked) add(t *testing.T, name, src string) {
	t.Helper()
	f, err := parser.ParseFile(c.set, strings.TrimPrefix(c.dir+"/"+name, "/"), src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	c.files = append(c.files, f)
}

func (c *checked) types(t *testing.T, from types.Importer) {
	t.Helper()
	if _, err := (&types.Config{Importer: from}).Check(module+"/"+c.dir, c.set, c.files, c.info); err != nil {
		t.Fatalf("%s: %v", c.dir, err)
	}
}

// typeName is a type by the folder of its package and its name; "" if it has none.
func typeName(t types.Type) string {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || n.Obj().Pkg() == nil {
		return ""
	}
	return within(n.Obj().Pkg()) + "." + n.Obj().Name()
}

// within is the folder of a package of the module.
func within(p *types.Package) string { return strings.TrimPrefix(p.Path(), module+"/") }

// called names a function or method as lists have it, such as
// internal/call.Door.Do; "" for anything else.
func called(o types.Object) string {
	f, ok := o.(*types.Func)
	if !ok || f.Pkg() == nil {
		return ""
	}
	recv := f.Origin().Signature().Recv()
	switch {
	case recv == nil:
		return within(f.Pkg()) + "." + f.Name()
	case typeName(recv.Type()) != "":
		return typeName(recv.Type()) + "." + f.Name()
	}
	return fmt.Sprintf("interface.%s", f.Name())
}
