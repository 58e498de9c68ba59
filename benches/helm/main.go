// Program bench measures Helm's library on the charts of a folder: NAME.json, an object of paths and texts.
// Each line of its output is a name and nanoseconds for one operation.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
)

// long is how long one measurement takes at least.
const long = 300 * time.Millisecond

func main() {
	log.SetOutput(io.Discard)
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: bench FOLDER")
		os.Exit(2)
	}
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*.json"))
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
	name := strings.TrimSuffix(filepath.Base(file), ".json")
	raw, err := os.ReadFile(file)
	check(err)
	var texts map[string]string
	check(json.Unmarshal(raw, &texts))
	var paths []string
	for path := range texts {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	load := func() *chart.Chart {
		var files []*loader.BufferedFile
		for _, path := range paths {
			files = append(files, &loader.BufferedFile{Name: path, Data: []byte(texts[path])})
		}
		c, err := loader.LoadFiles(files)
		check(err)
		return c
	}
	size := 0
	render := func(c *chart.Chart) {
		values := map[string]any{}
		check(chartutil.ProcessDependenciesWithMerge(c, values))
		options := chartutil.ReleaseOptions{Name: "rel", Namespace: "ns", Revision: 1, IsInstall: true}
		all, err := chartutil.ToRenderValues(c, values, options, chartutil.DefaultCapabilities)
		check(err)
		files, err := engine.Render(c, all)
		check(err)
		for path := range files {
			if strings.HasSuffix(path, "NOTES.txt") {
				delete(files, path)
			}
		}
		_, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
		check(err)
		var text strings.Builder
		for _, manifest := range manifests {
			fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", manifest.Name, manifest.Content)
		}
		size = text.Len()
	}
	loaded := load()
	report("load/"+name, func() { load() })
	report("warm/"+name, func() { render(loaded) })
	report("cold/"+name, func() { render(load()) })
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	fmt.Printf("# %s %d bytes, %d kB of memory\n", name, size, memory.Sys/1024)
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
