{{- define "gpuwhy.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- /* Labels that select the pods of a part; a dict of root and part. */}}
{{- define "gpuwhy.selector" -}}
app.kubernetes.io/name: gpuwhy
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "gpuwhy.labels" -}}
{{ include "gpuwhy.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "gpuwhy.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "gpuwhy.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}

{{- /* Of hubs and recorders, which read no device. */}}
{{- define "gpuwhy.unprivileged" -}}
runAsNonRoot: true
runAsUser: 10003
runAsGroup: 10003
fsGroup: 10003
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "gpuwhy.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
{{- end }}
