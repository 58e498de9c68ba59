{{- define "c.name" -}}{{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}{{- end }}
{{- define "c.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}
{{- define "c.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "c.sel" . }}
{{- if .Chart.AppVersion }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "c.sel" -}}
app.kubernetes.io/name: {{ include "c.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "tplvalues.render" -}}
{{- $value := typeIs "string" .value | ternary .value (.value | toYaml) }}
{{- if contains "{{" (toJson .value) }}
  {{- if .scope }}
      {{- tpl (cat "{{- with $.RelativeScope -}}" $value "{{- end }}") (merge (dict "RelativeScope" .scope) .context) }}
  {{- else }}
    {{- tpl $value .context }}
  {{- end }}
{{- else }}
    {{- $value }}
{{- end }}
{{- end -}}
{{- define "ret" }}{{ .x }}{{ end }}
{{- define "loop" -}}{{ if gt (int .n) 0 }}{{ .n }}{{ include "loop" (dict "n" (sub (int .n) 1)) }}{{ end }}{{- end }}
{{- define "json" -}}{{ dict "a" 1 "b" (list 1 2) | toJson }}{{- end }}
{{- define "images.image" -}}
{{- $registryName := default .imageRoot.registry ((.global).imageRegistry) -}}
{{- $repositoryName := .imageRoot.repository -}}
{{- $separator := ":" -}}
{{- $termination := .imageRoot.tag | toString -}}
{{- if not .imageRoot.tag }}{{- if .chart }}{{- $termination = .chart.AppVersion | toString -}}{{- end -}}{{- end -}}
{{- if .imageRoot.digest }}{{- $separator = "@" -}}{{- $termination = .imageRoot.digest | toString -}}{{- end -}}
{{- if $registryName }}{{- printf "%s/%s%s%s" $registryName $repositoryName $separator $termination -}}{{- else -}}{{- printf "%s%s%s"  $repositoryName $separator $termination -}}{{- end -}}
{{- end -}}

{{- define "nats.defaultValues" }}
{{- if not .defaultValuesSet }}
  {{- with .Values }}
    {{- $_ := set $ "fullname" (.name | default "x") }}
    {{- $_ := set . "extra" (mergeOverwrite (dict "a" 1) (.nope | default dict)) }}
  {{- end }}
  {{- $values := get (include "tplYaml" (dict "doc" .Values.tplmap "ctx" $) | fromJson) "doc" }}
  {{- $_ := set . "rendered" $values }}
  {{- $_ := set . "defaultValuesSet" true }}
{{- end }}
{{- end }}
{{- define "tplYaml" -}}
{{- $patch := get (include "tplYamlItr" (dict "ctx" .ctx "parentKind" "" "parentPath" "" "path" "/" "value" .doc) | fromJson) "patch" -}}
{{- toJson (dict "doc" .doc "n" (len $patch)) -}}
{{- end }}
{{- define "tplYamlItr" -}}
{{- $params := . -}}
{{- $kind := kindOf $params.value -}}
{{- $patch := list -}}
{{- $joinPath := $params.path -}}
{{- if eq $params.path "/" -}}{{- $joinPath = "" -}}{{- end -}}
{{- if eq $kind "slice" -}}
  {{- range $i, $v := $params.value -}}
    {{- $itr := dict "ctx" $params.ctx "parentKind" $kind "path" (printf "%s/%d" $joinPath $i) "value" $v -}}
    {{- $itrPatch := get (include "tplYamlItr" $itr | fromJson) "patch" -}}
    {{- $patch = concat $patch $itrPatch -}}
  {{- end -}}
{{- else if eq $kind "map" -}}
  {{- range $k, $v := $params.value -}}
    {{- $kPath := replace "~" "~0" $k | replace "/" "~1" -}}
    {{- $itr := dict "ctx" $params.ctx "parentKind" $kind "path" (printf "%s/%s" $joinPath $kPath) "value" $v -}}
    {{- $itrPatch := get (include "tplYamlItr" $itr | fromJson) "patch" -}}
    {{- $patch = concat $patch $itrPatch -}}
  {{- end -}}
{{- else if and (eq $kind "string") (contains "{{" $params.value) -}}
  {{- $patch = append $patch (dict "op" "replace" "path" $params.path "value" (tpl $params.value $params.ctx)) -}}
{{- end -}}
{{- toJson (dict "patch" $patch) -}}
{{- end -}}
{{- define "argo.merged" }}{{ mergeOverwrite (deepCopy .Values.labels) (dict "z" "1") | toYaml }}{{ end }}
{{- define "with.return" }}{{ if .b }}true{{ end }}{{ end }}
{{- define "probe" -}}
{{- if kindIs "invalid" . }}inv{{ else if kindIs "map" . }}{{ range $k, $v := . }}{{ $k }}:{{ include "probe" $v }},{{ end }}{{ else if kindIs "slice" . }}[{{ range . }}{{ include "probe" . }};{{ end }}]{{ else }}{{ kindOf . }}={{ . }}{{ end }}
{{- end -}}
