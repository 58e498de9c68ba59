// Program yardstick measures what go.yaml.in/yaml/v3 needs to read YAML documents to node trees and to write them again.
// Each line of standard input is `NAME FILE...`; it gives a line with the name and the median of several, in nanoseconds.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// budget is how long one input is measured at least, after a first time.
const budget = 400 * time.Millisecond

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		var texts [][]byte
		for _, file := range words[1:] {
			text, err := os.ReadFile(file)
			check(err)
			texts = append(texts, text)
		}
		stream := bytes.Join(texts, []byte("\n---\n"))
		copyOf(stream)
		var times []time.Duration
		for begin := time.Now(); len(times) < 3 || time.Since(begin) < budget; {
			start := time.Now()
			copyOf(stream)
			times = append(times, time.Since(start))
		}
		slices.Sort(times)
		fmt.Println(words[0], times[len(times)/2].Nanoseconds())
	}
	check(lines.Err())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "yardstick:", err)
		os.Exit(1)
	}
}

func copyOf(stream []byte) {
	decoder := yaml.NewDecoder(bytes.NewReader(stream))
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			break
		}
		check(err)
		check(encoder.Encode(&node))
	}
	check(encoder.Close())
}
