// Program cel-original evaluates expressions with cel-go in the environment that Porch's package variant sets have. It reads a line of
// JSON for each expression and writes one with its text or its error, so that a test can compare the two.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
)

// version changes when the answers may.
const version = "1.0.0"

type object struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type testCase struct {
	Expression string            `json:"expression"`
	Texts      map[string]string `json:"texts"`
	Objects    map[string]object `json:"objects"`
}

type answer struct {
	Text  *string `json:"text,omitempty"`
	Error string  `json:"error,omitempty"`
	// Whether it is another one each time: loops visit the keys of a map in any order.
	Varies bool `json:"varies,omitempty"`
}

// again is how often an expression with a loop is evaluated.
const again = 12

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		fmt.Println("cel-original", version)
		return
	}
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cel-original:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	environment, err := cel.NewEnv(
		cel.HomogeneousAggregateLiterals(),
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.Variable("repoDefault", cel.StringType),
		cel.Variable("packageDefault", cel.StringType),
		cel.Variable("upstream", cel.DynType),
		cel.Variable("repository", cel.DynType),
		cel.Variable("target", cel.DynType),
	)
	if err != nil {
		return err
	}
	lines := bufio.NewReader(in)
	writer := bufio.NewWriter(out)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := encoder.Encode(reply(environment, line)); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return writer.Flush()
		}
		if err != nil {
			return err
		}
	}
}

func reply(environment *cel.Env, line []byte) answer {
	var c testCase
	if err := json.Unmarshal(line, &c); err != nil {
		return answer{Error: "line: " + err.Error()}
	}
	first := outcome(environment, c)
	hasLoop := strings.Contains(c.Expression, ").map(") || strings.Contains(c.Expression, ").filter(")
	for n := 0; hasLoop && n < again; n++ {
		next := outcome(environment, c)
		if next.Error != first.Error || (next.Text != nil && first.Text != nil && *next.Text != *first.Text) {
			return answer{Varies: true}
		}
	}
	return first
}

func outcome(environment *cel.Env, c testCase) answer {
	text, err := evaluate(environment, c)
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return answer{Error: line}
	}
	return answer{Text: &text}
}

func evaluate(environment *cel.Env, c testCase) (string, error) {
	bindings := map[string]any{}
	for name, text := range c.Texts {
		bindings[name] = text
	}
	for name, o := range c.Objects {
		bindings[name] = map[string]any{
			"name": o.Name, "namespace": o.Namespace, "labels": o.Labels, "annotations": o.Annotations,
		}
	}
	ast, issues := environment.Compile(c.Expression)
	if issues.Err() != nil {
		return "", issues.Err()
	}
	program, err := environment.Program(ast, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return "", err
	}
	value, _, err := program.Eval(bindings)
	if err != nil {
		return "", err
	}
	text, err := value.ConvertToNative(reflect.TypeOf(""))
	if err != nil {
		return "", err
	}
	result, ok := text.(string)
	if !ok {
		return "", fmt.Errorf("%v is no string", text)
	}
	return result, nil
}
