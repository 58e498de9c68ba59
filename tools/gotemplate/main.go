// Program gotemplate-original answers template cases with Go's own engine and sprig. It reads and writes the lines that
// `groundwork-judge template go` reads and writes, so that a test can compare the two.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/Masterminds/sprig/v3"
)

// version changes when the answers may.
const version = "1.0.0"

type source struct {
	Name     string `json:"name"`
	Template string `json:"template"`
}

type testCase struct {
	Name       *string         `json:"name"`
	Template   *string         `json:"template"`
	Data       json.RawMessage `json:"data"`
	MissingKey string          `json:"missingkey"`
	Numbers    string          `json:"numbers"`
	Left       string          `json:"left"`
	Right      string          `json:"right"`
	Extra      []source        `json:"extra"`
	Execute    string          `json:"execute"`
	Sprig      *bool           `json:"sprig"`
}

type answer struct {
	Name   *string `json:"name"`
	Output *string `json:"output,omitempty"`
	Error  string  `json:"error,omitempty"`
	Phase  string  `json:"phase,omitempty"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		fmt.Println("gotemplate-original", version)
		return
	}
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gotemplate-original:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	// The zone of this process is read when it is first used.
	if err := os.Setenv("TZ", "UTC"); err != nil {
		return err
	}
	lines := bufio.NewReader(in)
	writer := bufio.NewWriter(out)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := encoder.Encode(reply(line)); err != nil {
				return err
			}
			if lines.Buffered() == 0 {
				if err := writer.Flush(); err != nil {
					return err
				}
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

func reply(line []byte) answer {
	var c testCase
	if err := json.Unmarshal(line, &c); err != nil {
		return answer{Error: err.Error(), Phase: "input"}
	}
	if c.Template == nil {
		return answer{Error: "there is no template", Phase: "input"}
	}
	name := "t"
	if c.Name != nil {
		name = *c.Name
	}
	output, phase, err := render(name, c)
	if err != nil {
		return answer{Name: &name, Error: err.Error(), Phase: phase}
	}
	return answer{Name: &name, Output: &output}
}

func render(name string, c testCase) (output, phase string, err error) {
	data, err := decode(c.Data, c.Numbers)
	if err != nil {
		return "", "input", err
	}
	missingKey := c.MissingKey
	if missingKey == "" {
		missingKey = "default"
	}
	first := name
	if len(c.Extra) > 0 {
		first = c.Extra[0].Name
	}
	set := template.New(first).Option("missingkey="+missingKey).Delims(c.Left, c.Right)
	if c.Sprig == nil || *c.Sprig {
		set = set.Funcs(sprig.TxtFuncMap())
	}
	main := set
	for i, s := range append(c.Extra, source{name, *c.Template}) {
		main = set
		if i > 0 {
			main = set.New(s.Name)
		}
		if _, err := main.Parse(s.Template); err != nil {
			return "", "parse", err
		}
	}
	var text bytes.Buffer
	if c.Execute != "" {
		err = main.ExecuteTemplate(&text, c.Execute, data)
	} else {
		err = main.Execute(&text, data)
	}
	return readable(text.Bytes()), "exec", err
}

// readable replaces each byte that is not part of a character.
func readable(text []byte) string {
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		out.WriteRune(r)
		text = text[size:]
	}
	return out.String()
}

// decode reads data; numbers says which types its numbers get.
func decode(raw []byte, numbers string) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return typed(value, numbers)
}

func typed(value any, numbers string) (any, error) {
	var err error
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			switch numbers {
			case "int64":
				return n, nil
			case "int":
				return int(n), nil
			}
		}
		return v.Float64()
	case []any:
		for i := range v {
			if v[i], err = typed(v[i], numbers); err != nil {
				return nil, err
			}
		}
		// What lies behind the end of a list depends on how the decoder grew it.
		return slices.Clip(v), nil
	case map[string]any:
		for k := range v {
			if v[k], err = typed(v[k], numbers); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}
