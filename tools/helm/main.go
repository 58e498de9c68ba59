// Program helm-original renders charts with Helm's own library. It reads and writes the lines that
// `groundwork-judge template helm` reads and writes, so that a test can compare the two. With the argument `client` it does to a
// release in a cluster what the ordinary client does.
package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// version changes when the answers may.
const version = "1.1.0"

type request struct {
	Name        *string           `json:"name"`
	Chart       map[string]string `json:"chart"`
	ChartBinary map[string]string `json:"chartBinary"`
	From        string            `json:"from"`
	Archive     string            `json:"archive"`
	Dir         string            `json:"dir"`
	Values      map[string]any    `json:"values"`
	Release     struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		Revision  int    `json:"revision"`
		IsUpgrade bool   `json:"isUpgrade"`
	} `json:"release"`
	KubeVersion          string                 `json:"kubeVersion"`
	KubeVersionRaw       *chartutil.KubeVersion `json:"kubeVersionRaw"`
	APIVersions          []string               `json:"apiVersions"`
	IncludeCRDs          bool                   `json:"includeCrds"`
	SkipSchemaValidation bool                   `json:"skipSchemaValidation"`
}

type hook struct {
	Name              string   `json:"name"`
	Kind              string   `json:"kind"`
	Path              string   `json:"path"`
	Events            []string `json:"events"`
	Weight            int      `json:"weight"`
	DeletePolicies    []string `json:"deletePolicies,omitempty"`
	OutputLogPolicies []string `json:"outputLogPolicies,omitempty"`
	Manifest          string   `json:"manifest"`
}

type output struct {
	Manifest string   `json:"manifest"`
	Hooks    []hook   `json:"hooks,omitempty"`
	Notes    string   `json:"notes,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

type failure struct {
	Stage   string `json:"stage"`
	Message string `json:"message"`
}

type answer struct {
	Name   *string  `json:"name"`
	Output *output  `json:"output,omitempty"`
	Error  *failure `json:"error,omitempty"`
}

// client does to a release what the ordinary client does, and prints what it would show, as JSON.
func client(kubeconfig, namespace, command string, arguments []string) error {
	// As the command calls itself.
	kube.ManagedFieldsManager = "helm"
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.Namespace = &kubeconfig, &namespace
	configuration := new(action.Configuration)
	if err := configuration.Init(flags, namespace, "secret", func(string, ...any) {}); err != nil {
		return err
	}
	show := func(value any, err error) error {
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(value)
	}
	about := func(r *release.Release, err error) error {
		if err != nil {
			return err
		}
		return show(map[string]any{
			"name": r.Name, "revision": r.Version, "status": r.Info.Status, "chart": r.Chart.Metadata.Name + "-" + r.Chart.Metadata.Version,
			"notes": r.Info.Notes, "description": r.Info.Description,
		}, nil)
	}
	chartOf := func(archive string) (*chart.Chart, error) {
		data, err := base64.StdEncoding.DecodeString(archive)
		if err != nil {
			return nil, err
		}
		return loader.LoadArchive(bytes.NewReader(data))
	}
	name := ""
	if len(arguments) > 0 {
		name = arguments[0]
	}
	switch command {
	case "list":
		releases, err := action.NewList(configuration).Run()
		names := []string{}
		for _, r := range releases {
			names = append(names, fmt.Sprintf("%s %d %s", r.Name, r.Version, r.Info.Status))
		}
		return show(names, err)
	case "status":
		return about(action.NewStatus(configuration).Run(name))
	case "history":
		releases, err := action.NewHistory(configuration).Run(name)
		revisions := []string{}
		for _, r := range releases {
			revisions = append(revisions, fmt.Sprintf("%d %s", r.Version, r.Info.Status))
		}
		slices.Sort(revisions)
		return show(revisions, err)
	case "values":
		values, err := action.NewGetValues(configuration).Run(name)
		return show(values, err)
	case "manifest":
		r, err := action.NewGet(configuration).Run(name)
		if err != nil {
			return err
		}
		return show(r.Manifest, nil)
	case "rollback":
		rollback := action.NewRollback(configuration)
		rollback.Version, _ = strconv.Atoi(arguments[1])
		return rollback.Run(name)
	case "uninstall":
		_, err := action.NewUninstall(configuration).Run(name)
		return err
	case "install", "upgrade":
		c, err := chartOf(arguments[1])
		if err != nil {
			return err
		}
		values := map[string]any{}
		if err := json.Unmarshal([]byte(arguments[2]), &values); err != nil {
			return err
		}
		if command == "upgrade" {
			upgrade := action.NewUpgrade(configuration)
			upgrade.Namespace = namespace
			return about(upgrade.Run(name, c, values))
		}
		install := action.NewInstall(configuration)
		install.ReleaseName, install.Namespace = name, namespace
		return about(install.Run(c, values))
	}
	return fmt.Errorf("unknown command %q", command)
}

func main() {
	if len(os.Args) > 4 && os.Args[1] == "client" {
		if err := client(os.Args[2], os.Args[3], os.Args[4], os.Args[5:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		fmt.Println("helm-original", version)
		return
	}
	log.SetOutput(io.Discard)
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "helm-original:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
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

func reply(line []byte) (a answer) {
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return answer{Error: &failure{"input", err.Error()}}
	}
	a.Name = r.Name
	defer func() {
		if p := recover(); p != nil {
			a.Output, a.Error = nil, &failure{"render", fmt.Sprint(p)}
		}
	}()
	c, err := load(r)
	if err != nil {
		a.Error = &failure{"load", err.Error()}
		return a
	}
	rel, err := render(c, r)
	if err != nil {
		a.Error = &failure{"render", err.Error()}
		return a
	}
	o := output{Manifest: rel.Manifest, Notes: rel.Info.Notes}
	for _, h := range rel.Hooks {
		o.Hooks = append(o.Hooks, hook{
			Name: h.Name, Kind: h.Kind, Path: h.Path, Weight: h.Weight, Manifest: h.Manifest,
			Events: texts(h.Events), DeletePolicies: texts(h.DeletePolicies), OutputLogPolicies: texts(h.OutputLogPolicies),
		})
	}
	a.Output = &o
	return a
}

func texts[T ~string](words []T) []string {
	var all []string
	for _, word := range words {
		all = append(all, string(word))
	}
	return all
}

// load reads a chart from where the request has it.
func load(r request) (*chart.Chart, error) {
	if r.Dir != "" {
		return loader.Load(r.Dir)
	}
	if r.Archive != "" {
		data, err := base64.StdEncoding.DecodeString(r.Archive)
		if err != nil {
			return nil, err
		}
		return loader.LoadArchive(bytes.NewReader(data))
	}
	files := map[string][]byte{}
	for name, text := range r.Chart {
		files[name] = []byte(text)
	}
	for name, text := range r.ChartBinary {
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, err
		}
		files[name] = data
	}
	if r.From == "archive" {
		return loadArchive(files)
	}
	return loadDirectory(files)
}

func loadArchive(files map[string][]byte) (*chart.Chart, error) {
	var buffer bytes.Buffer
	zipped := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(zipped)
	for _, name := range sorted(files) {
		header := tar.Header{Name: "chart/" + name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		return nil, err
	}
	return loader.LoadArchive(&buffer)
}

func loadDirectory(files map[string][]byte) (*chart.Chart, error) {
	folder, err := os.MkdirTemp("", "chart-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	for name, data := range files {
		file := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return nil, err
		}
	}
	return loader.LoadDir(folder)
}

func sorted(files map[string][]byte) []string {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// render does what `helm template` does, or an upgrade of a release that is there.
func render(c *chart.Chart, r request) (*release.Release, error) {
	kube := chartutil.KubeVersion{Version: "v1.34.0", Major: "1", Minor: "34"}
	if r.KubeVersion != "" {
		parsed, err := chartutil.ParseKubeVersion(r.KubeVersion)
		if err != nil {
			return nil, err
		}
		kube = *parsed
	}
	if r.KubeVersionRaw != nil {
		kube = *r.KubeVersionRaw
	}
	name, namespace := r.Release.Name, r.Release.Namespace
	if name == "" {
		name = "release-name"
	}
	if namespace == "" {
		namespace = "default"
	}
	values := r.Values
	if values == nil {
		values = map[string]any{}
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = kube
	capabilities.APIVersions = append(slices.Clone(capabilities.APIVersions), r.APIVersions...)
	memory := driver.NewMemory()
	memory.SetNamespace(namespace)
	configuration := &action.Configuration{
		Releases:     storage.Init(memory),
		KubeClient:   &kubefake.PrintingKubeClient{Out: io.Discard},
		Capabilities: capabilities,
		Log:          func(string, ...any) {},
	}
	if r.Release.IsUpgrade && r.Release.Revision > 1 {
		former := &release.Release{
			Name: name, Namespace: namespace, Version: r.Release.Revision - 1, Chart: c, Config: map[string]any{},
			Info: &release.Info{Status: release.StatusDeployed},
		}
		if err := configuration.Releases.Create(former); err != nil {
			return nil, err
		}
		upgrade := action.NewUpgrade(configuration)
		upgrade.Namespace = namespace
		upgrade.DryRun = true
		upgrade.DryRunOption = "client"
		upgrade.SkipSchemaValidation = r.SkipSchemaValidation
		upgrade.ResetValues = true
		return upgrade.Run(name, c, values)
	}
	install := action.NewInstall(configuration)
	install.ReleaseName = name
	install.Namespace = namespace
	install.DryRun = true
	install.DryRunOption = "client"
	install.ClientOnly = true
	install.Replace = true
	install.KubeVersion = &kube
	install.APIVersions = chartutil.VersionSet(r.APIVersions)
	install.IncludeCRDs = r.IncludeCRDs
	install.IsUpgrade = r.Release.IsUpgrade
	install.SkipSchemaValidation = r.SkipSchemaValidation
	rel, err := install.Run(c, values)
	if rel != nil && err != nil && strings.HasPrefix(err.Error(), "YAML parse error") {
		rel = nil
	}
	return rel, err
}
