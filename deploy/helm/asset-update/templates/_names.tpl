{{- define "asset-update.fullname" -}}
{{- $both := printf "%s-%s" .Release.Name .Chart.Name }}
{{- $usual := ternary .Release.Name $both (contains .Chart.Name .Release.Name) }}
{{- $name := .Values.fullnameOverride | default $usual | trunc 50 | trimSuffix "-" }}
{{- if not (regexMatch "^[a-z]([a-z0-9-]*[a-z0-9])?$" $name) }}
{{- fail (printf "%s can name no Service: it must begin with a letter, and have only a-z, 0-9 and -. Set fullnameOverride" $name) }}
{{- end }}
{{- $name }}
{{- end }}

{{- define "asset-update.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "asset-update.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "asset-update.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- define "asset-update.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "asset-update.labels" -}}
{{ include "asset-update.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The roles of the shape, and of the one that is to follow it, as a JSON list. */}}
{{- define "asset-update.roles" -}}
{{- $roles := dict "all" (list "all") "apart" (list "api" "worker") }}
{{- concat (get $roles .Values.shape) (get $roles (default "" .Values.nextShape) | default list) | uniq | toJson }}
{{- end }}

{{/* The role that callers reach. */}}
{{- define "asset-update.apiRole" -}}
{{- ternary "api" "all" (eq .Values.shape "apart") }}
{{- end }}
