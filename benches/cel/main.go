// Program bench evaluates the expressions of a file for as many targets, with cel-go: each compiled once, and each compiled for each
// use, as the original does. A line of its output is a name and nanoseconds for one target.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"

	"github.com/google/cel-go/cel"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: bench EXPRESSIONS TARGETS")
		os.Exit(2)
	}
	raw, err := os.ReadFile(os.Args[1])
	check(err)
	var expressions []string
	check(json.Unmarshal(raw, &expressions))
	count, err := strconv.Atoi(os.Args[2])
	check(err)
	all := make([]map[string]any, count)
	for n := range all {
		all[n] = bindings(n)
	}
	report("once", count, func() {
		programs := make([]cel.Program, len(expressions))
		for at, expression := range expressions {
			programs[at] = compile(expression)
		}
		for _, target := range all {
			for _, program := range programs {
				evaluate(program, target)
			}
		}
	})
	// A hundredth of them is enough to wait for.
	few := all[:max(1, count/100)]
	report("per-use", len(few), func() {
		for _, target := range few {
			for _, expression := range expressions {
				evaluate(compile(expression), target)
			}
		}
	})
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bindings(n int) map[string]any {
	env := "dev"
	if n%2 == 0 {
		env = "prod"
	}
	repository := map[string]any{
		"name":        fmt.Sprintf("cluster-%05d", n),
		"namespace":   "fleet",
		"labels":      map[string]string{"region": fmt.Sprintf("region-%d", n%50), "env": env},
		"annotations": map[string]string{"example.org/owner": fmt.Sprintf("team-%d", n%7)},
	}
	return map[string]any{
		"repoDefault":    repository["name"],
		"packageDefault": "dns",
		"upstream":       map[string]any{"namespace": "fleet", "name": "catalog.dns.v4"},
		"repository":     repository,
		"target":         repository,
	}
}

func compile(expression string) cel.Program {
	env, err := cel.NewEnv(
		cel.Variable("repoDefault", cel.StringType),
		cel.Variable("packageDefault", cel.StringType),
		cel.Variable("upstream", cel.DynType),
		cel.Variable("repository", cel.DynType),
		cel.Variable("target", cel.DynType),
	)
	check(err)
	ast, issues := env.Compile(expression)
	check(issues.Err())
	program, err := env.Program(ast)
	check(err)
	return program
}

func evaluate(program cel.Program, bindings map[string]any) {
	value, _, err := program.Eval(bindings)
	check(err)
	if _, ok := value.Value().(string); !ok {
		check(fmt.Errorf("%v is no string", value))
	}
}

// report prints the median of a few runs, for one target.
func report(name string, targets int, run func()) {
	var times []int64
	for len(times) < 3 {
		start := time.Now()
		run()
		times = append(times, time.Since(start).Nanoseconds())
	}
	sort.Slice(times, func(one, other int) bool { return times[one] < times[other] })
	fmt.Println(name, times[1]/int64(targets))
}
