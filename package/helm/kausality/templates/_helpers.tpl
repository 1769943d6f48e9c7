{{- define "kausality.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end }}

{{- define "kausality.namespace" -}}
{{- if ne .Release.Namespace "kausality-system" -}}
{{- fail "install it in namespace kausality-system: helm install kausality … --namespace kausality-system --create-namespace. Webhook, gate and ValidatingAdmissionPolicies know their ServiceAccounts by that name" -}}
{{- end -}}
kausality-system
{{- end }}

{{- define "kausality.labels" -}}
app.kubernetes.io/name: kausality
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "kausality.selector" -}}
app.kubernetes.io/name: kausality
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- define "kausality.pod" -}}
{{- $root := index . 0 }}{{- $c := index . 1 }}{{- $v := index . 2 -}}
serviceAccountName: kausality-{{ $c }}
automountServiceAccountToken: {{ ne $c "notifier" }}
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with $v.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $v.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "kausality.selector" $c | nindent 14 }}
{{- end }}

{{- define "kausality.container" -}}
{{- $root := index . 0 }}{{- $v := index . 1 -}}
image: {{ include "kausality.image" $root | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources: {{- toYaml $v.resources | nindent 2 }}
{{- end }}

{{- /* What is kept of a list is a fraction of it: GOGC bounds the garbage in general, GOMEMLIMIT during the first lists. */ -}}
{{- define "kausality.env" -}}
env:
  - {name: GOGC, value: {{ .gcPercent | quote }}}
  {{- with .resources.limits }}{{ if .memory }}
  - name: GOMEMLIMIT
    valueFrom: {resourceFieldRef: {resource: limits.memory}}
  {{- end }}{{ end }}
{{- end }}

{{- define "kausality.memory" -}}
env:
  - name: GOMEMLIMIT
    valueFrom: {resourceFieldRef: {resource: limits.memory}}
{{- end }}

{{- define "kausality.probes" -}}
livenessProbe:
  httpGet: {path: /healthz, port: probes}
  periodSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: probes}
  periodSeconds: 2
  failureThreshold: 1
startupProbe:
  httpGet: {path: /readyz, port: probes}
  periodSeconds: 2
  failureThreshold: 60
{{- end }}

{{- define "kausality.args" -}}
- --default-mode={{ .Values.defaultMode }}
- --leader-elect
- --health-probe-bind-address=:8081
- --metrics-bind-address={{ if .Values.metrics.enabled }}:8080{{ else }}0{{ end }}
{{- end }}

{{- /* Where DriftReports are sent to, as webhook, gate and notify test take it. */ -}}
{{- define "kausality.driftReceivers" -}}
{{- range .Values.driftWebhooks.urls }}
- {{ printf "--drift-webhook-url=%s" . | quote }}
{{- end }}
{{- if .Values.notifier.enabled }}
- --drift-webhook-url=https://kausality-notifier.kausality-system.svc:8443/
{{- end }}
{{- if or .Values.notifier.enabled .Values.driftWebhooks.caSecretName }}
- --drift-webhook-ca-file=/etc/kausality/drift-ca/ca.crt
{{- end }}
{{- if .Values.clusterName }}
- {{ printf "--cluster-name=%s" .Values.clusterName | quote }}
{{- end }}
{{- end }}

{{- define "kausality.driftArgs" -}}
{{- include "kausality.driftReceivers" . }}
{{- range .Values.driftWebhooks.links }}
- {{ printf "--drift-webhook-link=%s" . | quote }}
{{- end }}
{{- with include "kausality.changeURL" . }}
- {{ printf "--drift-webhook-link=page=%s" . | quote }}
{{- end }}
{{- if .Values.driftWebhooks.objects }}
- --drift-webhook-objects
{{- end }}
{{- end }}

{{- /* Where the page shows a change, with placeholders; empty without a page. */ -}}
{{- define "kausality.changeURL" -}}
{{- with .Values.page.url }}{{ trimSuffix "/" . }}/change/{id}?namespace={namespace}{{ end }}
{{- end }}

{{- define "kausality.driftMounts" -}}
{{- if include "kausality.driftSecret" . }}
- {name: drift-ca, mountPath: /etc/kausality/drift-ca, readOnly: true}
{{- end }}
{{- if .Values.driftWebhooks.secretName }}
- {name: drift-webhooks, mountPath: /etc/kausality/drift-webhooks, readOnly: true}
{{- end }}
{{- end }}

{{- define "kausality.driftVolumes" -}}
{{- with include "kausality.driftSecret" . }}
- name: drift-ca
  secret:
    secretName: {{ . }}
    items: [{key: ca.crt, path: ca.crt}]
{{- end }}
{{- with .Values.driftWebhooks.secretName }}
- name: drift-webhooks
  secret: {secretName: {{ . }}}
{{- end }}
{{- end }}

{{- define "kausality.recordArgs" -}}
{{- if or .Values.records.sinks .Values.history.enabled }}
- --record-spool-dir=/var/lib/kausality/records
- --record-spool-size={{ .Values.records.spoolSize }}
{{- range .Values.records.sinks }}
- {{ printf "--record-sink=%s" . | quote }}
{{- end }}
{{- if .Values.history.enabled }}
- "--record-sink=cloudevents=https://kausality-history.kausality-system.svc:8443/v1/records,token-file=/var/run/secrets/kubernetes.io/serviceaccount/token,ca-file=/etc/kausality/history-ca/ca.crt"
{{- end }}
{{- end }}
{{- end }}

{{- define "kausality.recordMounts" -}}
{{- if or .Values.records.sinks .Values.history.enabled }}
- {name: records, mountPath: /var/lib/kausality/records}
{{- if .Values.history.enabled }}
- {name: history-ca, mountPath: /etc/kausality/history-ca, readOnly: true}
{{- end }}
{{- if .Values.records.secretName }}
- {name: records-secret, mountPath: /etc/kausality/records, readOnly: true}
{{- end }}
{{- if .Values.records.tokenAudience }}
- {name: records-token, mountPath: /var/run/secrets/kausality, readOnly: true}
{{- end }}
{{- end }}
{{- end }}

{{- define "kausality.recordVolumes" -}}
{{- if or .Values.records.sinks .Values.history.enabled }}
- name: records
  {{- toYaml (.Values.records.volume | default (dict "emptyDir" dict)) | nindent 2 }}
{{- if .Values.history.enabled }}
- name: history-ca
  secret:
    secretName: kausality-webhook-tls
    items: [{key: ca.crt, path: ca.crt}]
{{- end }}
{{- with .Values.records.secretName }}
- name: records-secret
  secret: {secretName: {{ . }}}
{{- end }}
{{- with .Values.records.tokenAudience }}
- name: records-token
  projected:
    sources:
      - serviceAccountToken: {audience: {{ . | quote }}, path: token, expirationSeconds: 3600}
{{- end }}
{{- end }}
{{- end }}

{{- define "kausality.driftSecret" -}}
{{- if .Values.driftWebhooks.caSecretName }}{{ .Values.driftWebhooks.caSecretName }}{{ else if .Values.notifier.enabled }}{{ .Values.notifier.tlsSecretName }}{{ end }}
{{- end }}

{{- define "kausality.ports" -}}
- {name: probes, containerPort: 8081}
{{- if .Values.metrics.enabled }}
- {name: metrics, containerPort: 8080}
{{- end }}
{{- end }}

{{- /* The rules by which Slack acts as the users of a configuration: by their names, unless it is to act as any. */ -}}
{{- define "kausality.slackImpersonation" -}}
{{- $constrained := .constrainedImpersonation }}
{{- $users := list }}{{- $groups := list }}
{{- range $id, $p := .users }}
{{- $users = append $users $p.user }}{{- $groups = concat $groups ($p.groups | default list) }}
{{- end }}
{{- if and .email (not .users) }}{{- $groups = .email.groups | default list }}{{ end }}
{{- $group := "" }}{{- $verb := "impersonate" }}
{{- if $constrained }}
{{- $group = "authentication.k8s.io" }}{{- $verb = "impersonate:user-info" }}
{{- $on := "impersonate-on:user-info:" }}
{{- range $constrained.resources | sortAlpha }}
{{- $parts := splitn "." 2 . }}
- {apiGroups: [{{ $parts._1 | default "" | quote }}], resources: [{{ $parts._0 }}], verbs: ["{{ $on }}get", "{{ $on }}patch"]}
{{- end }}
- {apiGroups: [kausality.io], resources: [allowancepolicies, upgradeallowances, approvalpolicies, clusterapprovalpolicies, approvalrules], verbs: ["{{ $on }}list"]}
- {apiGroups: [kausality.io], resources: [approvalpolicies, clusterapprovalpolicies], verbs: ["{{ $on }}get", "{{ $on }}create"]}
- {apiGroups: [authentication.k8s.io], resources: [selfsubjectreviews], verbs: ["{{ $on }}create"]}
- {apiGroups: [""], resources: [namespaces], verbs: ["{{ $on }}get"]}
- {apiGroups: [admissionregistration.k8s.io], resources: [mutatingwebhookconfigurations], verbs: ["{{ $on }}get", "{{ $on }}list"]}
{{- end }}
{{- include "kausality.impersonate" (dict "group" $group "verb" $verb "users" $users "groups" $groups "anyUser" (or .impersonateAnyone (and $constrained (not .users)))) }}
{{- end }}

{{- /* The rules by which a process acts as users: verb on users and groups of an API group, by their names, or as any. */ -}}
{{- define "kausality.impersonate" -}}
{{- if .anyUser }}
- {apiGroups: [{{ .group | quote }}], resources: [users], verbs: ["{{ .verb }}"]}
{{- else if .users }}
- {apiGroups: [{{ .group | quote }}], resources: [users], resourceNames: {{ .users | sortAlpha | uniq | toJson }}, verbs: ["{{ .verb }}"]}
{{- end }}
{{- if .anyGroup }}
- {apiGroups: [{{ .group | quote }}], resources: [groups], verbs: ["{{ .verb }}"]}
{{- else if .groups }}
- {apiGroups: [{{ .group | quote }}], resources: [groups], resourceNames: {{ .groups | sortAlpha | uniq | toJson }}, verbs: ["{{ .verb }}"]}
{{- end }}
{{- end }}
