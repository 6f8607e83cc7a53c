{{/* One setting as the text of an environment variable: a large number without an exponent. */}}
{{- define "asset-update.text" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end }}
{{- end }}

{{/* Temporal's address, as far as the values say it. The default gives way to a Secret and to a profile of Temporal's client. */}}
{{- define "asset-update.temporalAddress" -}}
{{- $config := .Values.config }}
{{- $secret := .Values.secretEnv }}
{{- $profile := or $config.TEMPORAL_PROFILE $secret.TEMPORAL_PROFILE $config.TEMPORAL_CONFIG_FILE $secret.TEMPORAL_CONFIG_FILE }}
{{- if $config.TEMPORAL_ADDRESS }}
{{- $config.TEMPORAL_ADDRESS }}
{{- else if not (or $secret.TEMPORAL_ADDRESS $profile) }}
{{- "temporal-frontend:7233" }}
{{- end }}
{{- end }}

{{- define "asset-update.env" -}}
{{- if eq (int .Values.config.PORT) (int .Values.config.ADMIN_PORT) }}{{ fail "config.PORT and config.ADMIN_PORT are the same" }}{{ end }}
{{- $config := .Values.config }}
{{- with include "asset-update.temporalAddress" . }}
{{- $config = set (deepCopy $config) "TEMPORAL_ADDRESS" . }}
{{- end }}
{{- range $name, $value := $config }}
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
      name: {{ $from.name | quote }}
      key: {{ $from.key | quote }}
{{- end }}
{{- end }}

{{/*
Seconds until a Pod is killed. The service cuts itself off SHUTDOWN_DELAY_SECONDS + ATTEMPT_TIMEOUT_SECONDS + 30 after the
signal; 5 more are for its last line of the log.
*/}}
{{- define "asset-update.graceSeconds" -}}
{{- $delay := include "asset-update.text" (default 0 .Values.config.SHUTDOWN_DELAY_SECONDS) | float64 }}
{{- $timeout := include "asset-update.text" (default 10 .Values.config.ATTEMPT_TIMEOUT_SECONDS) | float64 }}
{{- $least := addf $delay $timeout 35 | ceil | int }}
{{- $given := .Values.terminationGracePeriodSeconds }}
{{- if kindIs "invalid" $given }}
{{- $least }}
{{- else if lt (int $given) $least }}
{{- fail (printf "terminationGracePeriodSeconds must be at least %d with these settings" $least) }}
{{- else }}
{{- int $given }}
{{- end }}
{{- end }}

{{/*
Peers of a NetworkPolicy: those given, else what the address of the store says: service.namespace(.svc...) is in that namespace, a
name without a dot in the release's own, and one with one dot in either, because it may be pod.service. An address elsewhere is
covered by the rule of public addresses, or must be given.
*/}}
{{- define "asset-update.storePeers" -}}
{{- $given := first . }}
{{- $host := regexReplaceAll "^[a-z+]*:?//([^@]*@)?|[:,/].*$" (default "" (last .)) "" }}
{{- $parts := splitList "." $host }}
{{- if $given }}
{{- toYaml $given }}
{{- else if or (not $host) (and (gt (len $parts) 2) (ne (index $parts 2) "svc")) }}
- namespaceSelector: {}
{{- else }}
{{- if le (len $parts) 2 }}
- podSelector: {}
{{- end }}
{{- if ge (len $parts) 2 }}
- namespaceSelector:
    matchLabels:
      kubernetes.io/metadata.name: {{ index $parts 1 }}
{{- end }}
{{- end }}
{{- end }}

{{/* The port of a store: the one given, else that of its address (of the last node, but no Sentinel's), else its usual one. */}}
{{- define "asset-update.storePort" -}}
{{- $named := regexFind ":[0-9]+(/[0-9]*)?$" (default "" (index . 1)) | regexFind "[0-9]+" }}
{{- first . | default $named | default (last .) }}
{{- end }}
