{{/* One setting as the text of an environment variable: a large number without an exponent. */}}
{{- define "asset-update.text" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end }}
{{- end }}

{{/* The build id of the workers. If the digest selects the image, the tag does not identify it. */}}
{{- define "asset-update.buildId" -}}
{{- if .Values.workerVersions.buildId }}
{{- .Values.workerVersions.buildId }}
{{- else if .Values.image.digest }}
{{- .Values.image.digest | trimPrefix "sha256:" | trunc 12 }}
{{- else }}
{{- default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{/* The name of the worker deployment, as the service derives it (src/temporal/workerVersion.ts). */}}
{{- define "asset-update.deploymentName" -}}
{{- default (regexReplaceAll "[.:]" (include "asset-update.taskQueue" .) "-") .Values.workerVersions.deploymentName }}
{{- end }}

{{- define "asset-update.taskQueue" -}}
{{- default "notifications" .Values.config.TASK_QUEUE }}
{{- end }}

{{- define "asset-update.env" -}}
{{- with .Values.workerVersions }}
{{- range $name := list "TEMPORAL_WORKER_BUILD_ID" "TEMPORAL_DEPLOYMENT_NAME" }}
{{- if and $.Values.workerVersions.enabled (hasKey $.Values.config $name) }}{{ fail (printf "%s is in config, and workerVersions sets it" $name) }}{{ end }}
{{- end }}
{{- if .enabled }}
- name: TEMPORAL_WORKER_BUILD_ID
  value: {{ include "asset-update.buildId" $ | quote }}
{{- with .deploymentName }}
- name: TEMPORAL_DEPLOYMENT_NAME
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.config }}
{{- if hasKey $.Values.secretEnv $name }}{{ fail (printf "%s is in config and in secretEnv" $name) }}{{ end }}
{{- if not (kindIs "invalid" $value) }}
- name: {{ $name }}
  value: {{ include "asset-update.text" $value | quote }}
{{- end }}
{{- end }}
{{- range $name, $from := .Values.secretEnv }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ $from.name }}
      key: {{ $from.key }}
{{- end }}
{{- end }}

{{/*
Seconds until a Pod is killed. The service ends by itself SHUTDOWN_DELAY_SECONDS + ATTEMPT_TIMEOUT_SECONDS + 15 after the
signal; 15 more are for closing connections and settling the work under way.
*/}}
{{- define "asset-update.graceSeconds" -}}
{{- $delay := include "asset-update.text" (default 0 .Values.config.SHUTDOWN_DELAY_SECONDS) | float64 }}
{{- $timeout := include "asset-update.text" (default 10 .Values.config.ATTEMPT_TIMEOUT_SECONDS) | float64 }}
{{- $least := addf $delay $timeout 30 | ceil | int }}
{{- $given := .Values.terminationGracePeriodSeconds }}
{{- if kindIs "invalid" $given }}
{{- $least }}
{{- else if lt (int $given) $least }}
{{- fail (printf "terminationGracePeriodSeconds must be at least %d with these settings" $least) }}
{{- else }}
{{- int $given }}
{{- end }}
{{- end }}
