{{/* How this release works: standalone, hub or spoke. */}}
{{- define "drydock.mode" -}}
{{- if not .Values.temporal.address }}standalone{{ else if .Values.worker.cluster }}spoke{{ else }}hub{{ end }}
{{- end }}

{{/* The files of deploy/rbac that the worker gets, separated by commas. */}}
{{- define "drydock.roles" -}}
{{- $mode := include "drydock.mode" . }}
{{- if .Values.rbac.roles }}{{ join "," .Values.rbac.roles }}
{{- else if eq $mode "spoke" }}initiator
{{- else if .Values.clusters.secret }}hub
{{- else }}hub,initiator
{{- if .Values.clusters.discovery.secrets }},cluster-secrets{{ end }}
{{- if .Values.clusters.discovery.managedClusters }},managed-cluster-secrets{{ end }}
{{- end }}
{{- end }}

{{/* The ServiceAccount of the worker, as in deploy/rbac. */}}
{{- define "drydock.serviceAccount" -}}
{{- if eq (include "drydock.mode" .) "spoke" }}drydock-initiator{{ else }}drydock-hub{{ end }}
{{- end }}

{{/* Labels of all objects. */}}
{{- define "drydock.labels" -}}
app.kubernetes.io/name: drydock
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end }}

{{/* Labels that select the pods of a component: list $ COMPONENT. */}}
{{- define "drydock.selector" -}}
app.kubernetes.io/name: drydock
app.kubernetes.io/instance: {{ (first .).Release.Name }}
app.kubernetes.io/component: {{ last . }}
{{- end }}

{{/* Metadata of an object of a component: list $ NAME COMPONENT. */}}
{{- define "drydock.metadata" -}}
name: {{ index . 1 }}
namespace: {{ (first .).Release.Namespace }}
labels:
  {{- include "drydock.labels" (first .) | nindent 2 }}
  app.kubernetes.io/component: {{ last . }}
{{- end }}

{{/* Metadata of the pods of a component: list $ COMPONENT. */}}
{{- define "drydock.podMetadata" -}}
{{- $values := (first .).Values -}}
labels:
  {{- include "drydock.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ (first .).Chart.AppVersion }}
  {{- with $values.labels }}{{ toYaml . | nindent 2 }}{{ end }}
{{- with $values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What all pods have. Without a ServiceAccount they get no token. */}}
{{- define "drydock.podSpec" -}}
securityContext:
  runAsNonRoot: true
  {{- with .Values.fsGroup }}
  fsGroup: {{ int . }}
  {{- end }}
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" }}
{{- with get $.Values $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* What all containers have: list $ PROGRAM. */}}
{{- define "drydock.container" -}}
{{- $image := (first .).Values.image -}}
image: {{ with $image.registry }}{{ . }}/{{ end }}{{ last . }}:{{ $image.tag | default (first .).Chart.AppVersion }}
imagePullPolicy: {{ $image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* The environment of a container: how to reach Temporal, and the keys. */}}
{{- define "drydock.env" -}}
{{- with .Values.temporal }}
{{- if .address }}
- name: TEMPORAL_ADDRESS
  value: {{ .address | quote }}
- name: TEMPORAL_NAMESPACE
  value: {{ .namespace | quote }}
{{- end }}
{{- with .apiKeySecret }}
- name: TEMPORAL_API_KEY
  valueFrom: {secretKeyRef: {name: {{ . }}, key: api-key}}
{{- end }}
{{- if .tls.enabled }}
- name: TEMPORAL_TLS
  value: "true"
{{- end }}
{{- with .tls.serverName }}
- name: TEMPORAL_TLS_SERVER_NAME
  value: {{ . | quote }}
{{- end }}
{{- if .tls.caSecret }}
- name: TEMPORAL_TLS_SERVER_CA_CERT_PATH
  value: /etc/drydock/temporal-ca/ca.crt
{{- end }}
{{- if .tls.clientSecret }}
- name: TEMPORAL_TLS_CLIENT_CERT_PATH
  value: /etc/drydock/temporal-client/tls.crt
- name: TEMPORAL_TLS_CLIENT_KEY_PATH
  value: /etc/drydock/temporal-client/tls.key
{{- end }}
{{- end }}
{{- if .Values.encryption.secret }}
- name: DRYDOCK_ENCRYPTION_KEY_FILE
  value: /etc/drydock/keys/keys.yaml
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The Secrets of that environment, as NAME: SECRET. Each is mounted at /etc/drydock/NAME. */}}
{{- define "drydock.secrets" -}}
{{- with .Values.temporal.tls.caSecret }}
temporal-ca: {{ . }}
{{- end }}
{{- with .Values.temporal.tls.clientSecret }}
temporal-client: {{ . }}
{{- end }}
{{- with .Values.encryption.secret }}
keys: {{ . }}
{{- end }}
{{- end }}

{{/* Mounts and volumes of Secrets: a map of NAME: SECRET in YAML. */}}
{{- define "drydock.mounts" -}}
{{- range $name, $_ := fromYaml . }}
- name: {{ $name }}
  mountPath: /etc/drydock/{{ $name }}
  readOnly: true
{{- end }}
{{- end }}
{{- define "drydock.volumes" -}}
{{- range $name, $secret := fromYaml . }}
- name: {{ $name }}
  secret: {secretName: {{ $secret }}}
{{- end }}
{{- end }}

{{/* Names of a Service within the cluster, and other hosts, separated by commas: list $ SERVICE HOSTS. */}}
{{- define "drydock.hosts" -}}
{{- $names := list (index . 1) }}
{{- range list "" ".svc" ".svc.cluster.local" }}
{{- $names = append $names (printf "%s.%s%s" (index $ 1) (first $).Release.Namespace .) }}
{{- end }}
{{- concat $names (last .) | join "," }}
{{- end }}

{{/* Probes of a server with /healthz: list PORT SCHEME. */}}
{{- define "drydock.probes" -}}
livenessProbe:
  httpGet: {path: /healthz, port: {{ first . }}, scheme: {{ last . }}}
readinessProbe:
  httpGet: {path: /healthz, port: {{ first . }}, scheme: {{ last . }}}
{{- end }}

{{/* Probes of a worker. It answers once it has reached Temporal; /readyz asks Temporal and the hub. */}}
{{- define "drydock.workerProbes" -}}
startupProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: health}
readinessProbe:
  httpGet: {path: /readyz, port: health}
  timeoutSeconds: 5
{{- end }}
