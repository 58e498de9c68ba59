{{- /* The manifests of some folders, as the entries of one map: kind and name to object. Takes `root` and `folders`. */ -}}
{{- define "groundwork.objects" -}}
{{- $objects := dict -}}
{{- range $folder := .folders -}}
{{- range $path, $content := $.root.Files.Glob (printf "files/%s/**.yaml" $folder) -}}
{{- if not (has (base $path) (list "kustomization.yaml" "namespace.yaml")) -}}
{{- range $text := regexSplit "(?m)^---\\s*$" (toString $content | replace "groundwork-system" $.root.Release.Namespace) -1 -}}
{{- $object := fromYaml $text -}}
{{- if $object.kind -}}
{{- $_ := set $objects (printf "%s/%s" $object.kind $object.metadata.name) $object -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $objects -}}
{{- end -}}

{{- /* A list with the entries of another one before its own, in the place of those with the same key, as kustomize does. Takes `into`,
       `list` and `key`. */ -}}
{{- define "groundwork.listed" -}}
{{- $merged := .list | default list -}}
{{- $added := dict -}}
{{- range .list }}{{ $_ := set $added (get . $.key) true }}{{ end -}}
{{- range .into }}{{ if not (hasKey $added (get . $.key)) }}{{ $merged = append $merged . }}{{ end }}{{ end -}}
{{- toYaml (dict "list" $merged) -}}
{{- end -}}

{{- /* A strategic merge patch of a workload, as far as the overlays use any: replicas, what pods have, and of the first container
       variables, mounts and ports. Takes `object` and `patch`, and changes `object`. */ -}}
{{- define "groundwork.patch" -}}
{{- if hasKey .patch.spec "replicas" }}{{ $_ := set .object.spec "replicas" .patch.spec.replicas }}{{ end -}}
{{- $pod := .object.spec.template.spec -}}
{{- $patch := .patch.spec.template.spec -}}
{{- with $patch.topologySpreadConstraints }}{{ $_ := set $pod "topologySpreadConstraints" . }}{{ end -}}
{{- with $patch.volumes -}}
{{- $volumes := include "groundwork.listed" (dict "into" ($pod.volumes | default list) "list" . "key" "name") | fromYaml -}}
{{- $_ := set $pod "volumes" $volumes.list -}}
{{- end -}}
{{- $container := first $pod.containers -}}
{{- with (first $patch.containers).env -}}
{{- $env := include "groundwork.listed" (dict "into" ($container.env | default list) "list" . "key" "name") | fromYaml -}}
{{- $_ := set $container "env" $env.list -}}
{{- end -}}
{{- with (first $patch.containers).volumeMounts -}}
{{- $mounts := include "groundwork.listed" (dict "into" ($container.volumeMounts | default list) "list" . "key" "mountPath") | fromYaml -}}
{{- $_ := set $container "volumeMounts" $mounts.list -}}
{{- end -}}
{{- with (first $patch.containers).ports -}}
{{- $ports := include "groundwork.listed" (dict "into" ($container.ports | default list) "list" . "key" "name") | fromYaml -}}
{{- $_ := set $container "ports" $ports.list -}}
{{- end -}}
{{- end -}}

{{- /* The operations of files/ha/service.yaml on a Deployment: add and replace. Takes `object` and `operations`, and changes `object`. */ -}}
{{- define "groundwork.operations" -}}
{{- $pod := .object.spec.template.spec -}}
{{- $container := first $pod.containers -}}
{{- range .operations -}}
{{- if eq .path "/spec/replicas" -}}
{{- $_ := set $.object.spec "replicas" .value -}}
{{- else if eq .path "/spec/template/spec/topologySpreadConstraints" -}}
{{- $_ := set $pod "topologySpreadConstraints" .value -}}
{{- else if eq .path "/spec/template/spec/volumes/-" -}}
{{- $_ := set $pod "volumes" (append $pod.volumes .value) -}}
{{- else if eq .path "/spec/template/spec/containers/0/volumeMounts/-" -}}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts .value) -}}
{{- else if eq .path "/spec/template/spec/containers/0/env/-" -}}
{{- $_ := set $container "env" (append $container.env .value) -}}
{{- else if eq .path "/spec/template/spec/containers/0/env/0/value" -}}
{{- $url := .value -}}
{{- range $container.env }}{{ if eq .name "GROUNDWORK_NATS_URL" }}{{ $_ := set . "value" $url }}{{ end }}{{ end -}}
{{- else if ne .op "test" -}}
{{- fail (printf "files/ha/service.yaml: %s is not known to templates/_objects.tpl" .path) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* What a deployer is called. The mock one has the plain name. */ -}}
{{- define "groundwork.deployer" -}}
{{- $suffix := printf "-%s" .type -}}
{{- $name := printf "groundwork-deployer%s" $suffix -}}
{{- range $object := .objects -}}
{{- $_ := set $object.metadata "name" (printf "%s%s" $object.metadata.name $suffix) -}}
{{- $labels := merge (dict "app.kubernetes.io/name" $name) ($object.metadata.labels | default dict) -}}
{{- $_ := set $object.metadata "labels" $labels -}}
{{- with $object.roleRef }}{{ $_ := set . "name" (printf "%s%s" .name $suffix) }}{{ end -}}
{{- range $object.subjects }}{{ $_ := set . "name" (printf "%s%s" .name $suffix) }}{{ end -}}
{{- if eq $object.kind "NetworkPolicy" -}}
{{- $_ := set $object.spec.podSelector.matchLabels "app.kubernetes.io/name" $name -}}
{{- else if eq $object.kind "Deployment" -}}
{{- $_ := set $object.spec.selector.matchLabels "app.kubernetes.io/name" $name -}}
{{- $_ := set $object.spec.template.metadata.labels "app.kubernetes.io/name" $name -}}
{{- $_ := set $object.spec.template.spec "serviceAccountName" $name -}}
{{- range (first $object.spec.template.spec.containers).env -}}
{{- if eq .name "GROUNDWORK_DEPLOYER_TYPES" }}{{ $_ := set . "value" $.type }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* What values say about a workload. Takes `root` and `object`, and changes `object`. */ -}}
{{- define "groundwork.settings" -}}
{{- $values := .root.Values -}}
{{- $pod := .object.spec.template.spec -}}
{{- $container := first $pod.containers -}}
{{- $service := trimPrefix "groundwork-" .object.metadata.name -}}
{{- if hasPrefix "groundwork/" $container.image -}}
{{- $image := $container.image | trimPrefix "groundwork/" | splitList ":" | first -}}
{{- $tag := $values.image.tag | default .root.Chart.AppVersion -}}
{{- $_ := set $container "image" (printf "%s%s:%s" $values.image.repository $image $tag) -}}
{{- if and (not $values.nats.enabled) $values.nats.url -}}
{{- range $container.env }}{{ if eq .name "GROUNDWORK_NATS_URL" }}{{ $_ := set . "value" $values.nats.url }}{{ end }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $image := regexReplaceAll ":[^:/]*$" $container.image "" -}}
{{- with index ($values.image.digests | default dict) (base $image) -}}
{{- $_ := set $container "image" (printf "%s@%s" $image .) -}}
{{- end -}}
{{- with $values.image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" . }}{{ end -}}
{{- with $values.image.pullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end -}}
{{- with $values.pods.nodeSelector }}{{ $_ := set $pod "nodeSelector" . }}{{ end -}}
{{- with $values.pods.tolerations }}{{ $_ := set $pod "tolerations" . }}{{ end -}}
{{- with $values.pods.priorityClassName }}{{ $_ := set $pod "priorityClassName" . }}{{ end -}}
{{- with $values.pods.annotations -}}
{{- $_ := set $.object.spec.template.metadata "annotations" (merge (deepCopy .) ($.object.spec.template.metadata.annotations | default dict)) -}}
{{- end -}}
{{- with get $values.services $service -}}
{{- if hasKey . "replicas" }}{{ $_ := set $.object.spec "replicas" .replicas }}{{ end -}}
{{- with .resources }}{{ $_ := set $container "resources" (mergeOverwrite (deepCopy ($container.resources | default dict)) .) }}{{ end -}}
{{- $added := list -}}
{{- range $name, $value := .env }}{{ $added = append $added (dict "name" $name "value" $value) }}{{ end -}}
{{- $env := include "groundwork.listed" (dict "into" $container.env "list" $added "key" "name") | fromYaml -}}
{{- $_ := set $container "env" $env.list -}}
{{- end -}}
{{- end -}}
