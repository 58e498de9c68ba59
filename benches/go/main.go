// Program bench measures Go's text/template with sprig on the templates of a folder: NAME.tmpl with NAME.json.
// Each line of its output is a name and nanoseconds for one operation.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/Masterminds/sprig/v3"
)

// long is how long one measurement takes at least.
const long = 40 * time.Millisecond

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: bench FOLDER")
		os.Exit(2)
	}
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*.tmpl"))
	check(err)
	for _, file := range files {
		bench(file)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(file string) {
	name := strings.TrimSuffix(filepath.Base(file), ".tmpl")
	text, err := os.ReadFile(file)
	check(err)
	raw, err := os.ReadFile(strings.TrimSuffix(file, ".tmpl") + ".json")
	check(err)
	var data any
	check(json.Unmarshal(raw, &data))
	source := string(text)
	// What parse.Parse needs: the names of the functions, those of text/template included.
	functions := sprig.TxtFuncMap()
	builtins := map[string]any{}
	for _, word := range strings.Fields("and call html index slice js len not or print printf println urlquery eq ge gt le lt ne") {
		builtins[word] = true
	}
	var out bytes.Buffer
	whole := func() *template.Template {
		t, err := template.New("execution").Funcs(sprig.TxtFuncMap()).Option("missingkey=zero").Parse(source)
		check(err)
		return t
	}
	execute := func(t *template.Template) {
		out.Reset()
		check(t.Execute(&out, data))
	}
	report("parse.Parse/"+name, func() {
		_, err := parse.Parse("execution", source, "", "", functions, builtins)
		check(err)
	})
	report("parse/"+name, func() { whole() })
	parsed := whole()
	report("execute/"+name, func() { execute(parsed) })
	report("parse+execute/"+name, func() { execute(whole()) })
	fmt.Printf("# %s %d bytes\n", name, out.Len())
}

// report measures an operation, repeated until that takes long enough.
func report(name string, operation func()) {
	operation()
	for n := 1; ; n *= 2 {
		start := time.Now()
		for range n {
			operation()
		}
		if took := time.Since(start); took > long {
			fmt.Printf("%s %.0f\n", name, float64(took.Nanoseconds())/float64(n))
			return
		}
	}
}
