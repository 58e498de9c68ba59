{{ define "fail" }}
{{ fail (printf "said: %s" .Values.which) }}{{ end }}
{{ define "deep" }}{{ include "deeper" . }}{{ end }}
{{ define "deeper" }}
  {{ index .Values.l 3 }}{{ end }}
{{ define "loop" }}{{ include "loop" . }}{{ end }}
