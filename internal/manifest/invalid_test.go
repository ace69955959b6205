package manifest_test

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/deploy/crds"
	"drydock.dev/drydock/internal/manifest"
)

// invalidCase is a file that must be refused, and every line of the error.
type invalidCase struct {
	name, text string
	lines      []string
	// onlyOffline: no schema can express the rule, so a cluster accepts the object.
	onlyOffline bool
	// cluster are the fields that a cluster names, if they differ from those of the lines: it stops at an unknown field, then at a wrong type, and
	// checks one object at a time.
	cluster []string
}

// rollout is a ClusterGroupUpgrade with a valid selection and strategy, and these fields added to its spec.
func rollout(fields string) string {
	return `
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {name: r}
spec:
  clusters: [c1]
  remediationStrategy: {maxConcurrency: 1}
` + indented(fields)
}

func indented(fields string) string {
	return strings.ReplaceAll("\n"+strings.TrimSpace(fields), "\n", "\n  ") + "\n"
}

// invalidCases are all files that must be refused.
func invalidCases() []invalidCase {
	return slices.Concat(invalidFiles(), invalidMaintenances(), invalidBudgets(), invalidWindows())
}

func invalidFiles() []invalidCase {
	const cgu, nm = "f: ClusterGroupUpgrade r: ", "f: NodeMaintenance r: "
	return []invalidCase{
		{name: "a file that is not YAML", text: "a: b: c", lines: []string{"f: document 1: yaml: mapping values are not allowed in this context"}},
		{name: "a file that holds no object", text: "[1, 2]", lines: []string{"f: document 1: is not a Kubernetes object"}},
		{name: "an object without a kind", text: "apiVersion: v1", lines: []string{"f: document 1: kind: must be set: this is not a Kubernetes object"}},
		{
			name: "an object without an apiVersion, in a list", text: "{apiVersion: v1, kind: List, items: [{kind: Node}]}",
			lines: []string{"f: document 1, items[0]: apiVersion: must be set: this is not a Kubernetes object"},
		},
		{
			name: "a duplicate key", text: rollout("clusters: [c2]"),
			lines: []string{`f: document 1: line 9: key "clusters" appears twice: keep one`},
		},
		{
			name: "a tab", text: strings.Replace(rollout("clusters: [c2]"), "  clusters", "\tclusters", 1),
			lines: []string{`f: document 1: line 6: a tab indents "clusters: [c1]": indent YAML with spaces`},
		},
		{
			name: "a duplicate key in JSON", text: `{"apiVersion": "v1", "kind": "Node", "kind": "Pod"}`,
			lines: []string{`f: document 1: duplicate field "kind"`},
		},
		{
			name: "an unknown kind", text: "{apiVersion: v1, kind: Pod, metadata: {name: p}}",
			lines: []string{"f: Pod p: kind Pod of v1 is not one that Drydock reads; it reads " + strings.Join(kindsOfCRDs(), ", ")},
		},
		{
			name: "no name", text: strings.Replace(rollout(""), "name: r", "namespace: prod", 1),
			lines: []string{"f: ClusterGroupUpgrade prod/: metadata.name: must be set"},
		},
		{
			name: "receivers whose fields exclude each other", text: rollout("notify: [{url: 'mailto:ann@example.com', format: Slack}, {url: 'https://a', template: {title: a}}, {url: 'https://a', format: Slack, template: {title: a}}]"),
			lines: []string{cgu + "spec.notify[0].format: Forbidden: e-mails have no format", cgu + "spec.notify[1].template: Forbidden: only e-mails and notifications with format Slack have a text"},
		},
		{
			name: "receivers that cannot be notified", text: rollout("notify: [{url: 'mailto:ann@example.com?bcc=eve@example.com'}, {url: 'mailto:ann@example.com', template: {title: '{{ .Nmae }}', body: '{{ range .Name }}{{ end }}'}}]"),
			lines: []string{
				cgu + `spec.notify[0].url: Invalid value: "mailto:ann@example.com?bcc=eve@example.com": "ann@example.com?bcc=eve@example.com": must have no fields of a header: use the template; write mailto: and addresses, joined by commas`,
				cgu + "spec.notify[1].template.body: Invalid value: range is not allowed",
				cgu + `spec.notify[1].template.title: Invalid value: template: template:1:3: executing "template" at <.Nmae>: can't evaluate field Nmae in type notify.templateData`,
			}, onlyOffline: true,
		},
		{
			name: "a maintenance whose receiver cannot be notified", text: request("notify: [{url: 'mailto:ann@@example.com'}]"),
			lines:       []string{nm + `spec.notify[0].url: Invalid value: "mailto:ann@@example.com": "ann@@example.com": is not an e-mail address such as ann@example.com; write mailto: and addresses, joined by commas`},
			onlyOffline: true,
		},
		{name: "a namespace on a kind that has none", text: `
apiVersion: lcm.mirantis.com/v1alpha1
kind: ClusterMaintenanceRequest
metadata: {name: r, namespace: prod}
`, lines: []string{"f: ClusterMaintenanceRequest prod/r: metadata.namespace: Forbidden: not allowed on this type"}, onlyOffline: true},
		{
			name: "an unknown field in the metadata", text: strings.Replace(rollout(""), "name: r", "name: r, label: {a: b}", 1),
			lines: []string{cgu + "metadata.label: unknown field"},
		},
		{
			name: "a misspelled field, and the one that is missing", text: strings.Replace(rollout(""), "maxConcurrency", "maxConcurency", 1),
			lines:   []string{cgu + "spec.remediationStrategy.maxConcurency: unknown field; did you mean maxConcurrency?", cgu + "spec.remediationStrategy.maxConcurrency: Required value"},
			cluster: []string{"spec.remediationStrategy.maxConcurency"},
		},
		{
			name: "no spec", text: "{apiVersion: ran.openshift.io/v1alpha1, kind: ClusterGroupUpgrade, metadata: {name: r}}",
			lines: []string{cgu + "spec: Required value"},
		},
		{
			name: "text instead of a list", text: strings.Replace(rollout(""), "[c1]", "c1", 1),
			lines: []string{cgu + "spec.clusters: must be of type array, not string: write a list, in brackets or with one item a line after a dash"},
		},
		{
			name: "minutes with a unit", text: strings.Replace(rollout("approvals: {expiry: 2h}"), "maxConcurrency: 1", "maxConcurrency: 1, timeout: 4h, clusterTimeout: 90m", 1),
			lines: []string{
				cgu + "spec.approvals.expiry: must be of type integer, not string: write 120, in minutes",
				cgu + "spec.remediationStrategy.clusterTimeout: must be of type integer, not string: write 90, in minutes",
				cgu + "spec.remediationStrategy.timeout: must be of type integer, not string: write 240, in minutes",
			},
		},
		{name: "text instead of a boolean", text: rollout("enable: maybe"), lines: []string{cgu + "spec.enable: must be of type boolean, not string: write true or false"}},
		{
			name: "a concurrency of zero", text: strings.Replace(rollout(""), "maxConcurrency: 1", "maxConcurrency: 0", 1),
			lines: []string{cgu + "spec.remediationStrategy.maxConcurrency: Invalid value: 0: must be a number of at least 1 or a percentage from 1% to 100%"},
		},
		{
			name: "a percentage above 100", text: strings.Replace(rollout(""), "maxConcurrency: 1", "maxConcurrency: 101%", 1),
			lines: []string{cgu + `spec.remediationStrategy.maxConcurrency: Invalid value: "101%": must be a number of at least 1 or a percentage from 1% to 100%`},
		},
		{
			name: "a percentage with a fraction", text: strings.Replace(rollout(""), "maxConcurrency: 1", "maxConcurrency: 12.5%", 1),
			lines: []string{cgu + `spec.remediationStrategy.maxConcurrency: Invalid value: "12.5%": must be a number of at least 1 or a percentage from 1% to 100%`},
		},
		{
			name: "a concurrency that is too large", text: strings.Replace(rollout(""), "maxConcurrency: 1", "maxConcurrency: 3000000000", 1),
			lines: []string{cgu + "spec.remediationStrategy.maxConcurrency: Invalid value: 3000000000: must be at most 2147483647"},
		},
		{
			name: "a drain to retry in a rollout that does not drain", text: rollout("nodeMaintenance: {onDrainTimeout: Retry}"),
			lines: []string{cgu + "spec.nodeMaintenance.onDrainTimeout: Forbidden: there is no drain to retry: set drainSpec, {} drains with the defaults"},
		},
		{
			name: "a timeout of zero", text: strings.Replace(rollout(""), "maxConcurrency: 1", "maxConcurrency: 1, timeout: 0", 1),
			lines: []string{cgu + "spec.remediationStrategy.timeout: Invalid value: 0: should be greater than or equal to 1"},
		},
		{
			name: "a number too large for its field", text: strings.Replace(rollout(""), "maxConcurrency: 1", "maxConcurrency: 1, soakSeconds: 3000000000", 1),
			lines: []string{cgu + "spec.remediationStrategy.soakSeconds: must be a whole number from -2147483648 to 2147483647"},
		},
		{
			name: "times longer than a year", text: strings.Replace(rollout("approvals: {expiry: 525601}"), "maxConcurrency: 1", "maxConcurrency: 1, timeout: 525601, clusterTimeout: 525601", 1),
			lines: []string{
				cgu + "spec.approvals.expiry: Invalid value: 525601: should be less than or equal to 525600",
				cgu + "spec.remediationStrategy.clusterTimeout: Invalid value: 525601: should be less than or equal to 525600",
				cgu + "spec.remediationStrategy.timeout: Invalid value: 525601: should be less than or equal to 525600",
			},
		},
		{
			name: "an unsupported value", text: rollout("batchTimeoutAction: Stop"),
			lines: []string{cgu + `spec.batchTimeoutAction: Unsupported value: "Stop": supported values: "Continue", "Abort"`},
		},
		{
			name: "a cluster without a name", text: strings.Replace(rollout(""), "clusters: [c1]", "clusters: ['', c1]", 1),
			lines: []string{cgu + `spec.clusters[0]: Invalid value: "": should be at least 1 chars long`},
		},
		{
			name: "a canary without a name", text: strings.Replace(rollout(""), "maxConcurrency: 1", "maxConcurrency: 1, canaries: [c1, '']", 1),
			lines: []string{cgu + `spec.remediationStrategy.canaries[1]: Invalid value: "": should be at least 1 chars long`},
		},
		{
			name: "a policy without a name", text: rollout("managedPolicies: [p, '']"),
			lines: []string{cgu + `spec.managedPolicies[1]: Invalid value: "": should be at least 1 chars long`},
		},
		{
			name: "a manifest work template without a name", text: rollout("manifestWorkTemplates: ['']"),
			lines: []string{cgu + `spec.manifestWorkTemplates[0]: Invalid value: "": should be at least 1 chars long`},
		},
		{
			name: "no cluster selection", text: strings.Replace(rollout(""), "clusters: [c1]", "clusters: []", 1),
			lines: []string{cgu + "spec: Invalid value: nothing to select clusters from: set clusters, clusterLabelSelectors or clusterSelector"},
		},
		{
			name: "two remediations", text: rollout("managedPolicies: [p]\nnodeMaintenance: {}"),
			lines: []string{cgu + "spec: Invalid value: at most one of managedPolicies, manifestWorkTemplates and nodeMaintenance may be set"},
		},
		{
			name: "a manifest work template twice", text: rollout("manifestWorkTemplates: [a, b, a]"),
			lines: []string{cgu + `spec.manifestWorkTemplates[2]: Duplicate value: "a"`}, onlyOffline: true,
		},
		{
			name: "a broken rule and a wrong type are reported together", text: strings.Replace(rollout("enable: maybe"), "maxConcurrency: 1", "maxConcurrency: none", 1),
			lines: []string{
				cgu + "spec.enable: must be of type boolean, not string: write true or false",
				cgu + `spec.remediationStrategy.maxConcurrency: Invalid value: "none": must be a number of at least 1 or a percentage from 1% to 100%`,
			}, cluster: []string{"spec.enable"},
		},
		{
			name: "a label selector with an operator that does not exist", text: rollout("clusterLabelSelectors: [{matchExpressions: [{key: a, operator: Is, values: [b]}]}]"),
			lines: []string{cgu + `spec.clusterLabelSelectors[0].matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`}, onlyOffline: true,
		},
		{
			name: "an old selector that is not key=value", text: rollout("clusterSelector: [a=b, a=b=c]"),
			lines: []string{cgu + `spec.clusterSelector[1]: Invalid value: "a=b=c": must be key=value, or key for that label with an empty value: ` +
				`values[0][a]: Invalid value: "b=c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', ` +
				`and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}, onlyOffline: true,
		},
		{
			name: "a node selector without values", text: rollout("nodeMaintenance: {nodeSelector: {matchExpressions: [{key: a, operator: In}]}}"),
			lines: []string{cgu + "spec.nodeMaintenance.nodeSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"}, onlyOffline: true,
		},
		{
			name: "several problems in one object", text: rollout(`
enabled: true
nodeMaintenance:
  drainSpec: {timeoutSeconds: -1, podEvictionFilters: [{byResourceNameRegex: "("}]}
  waitForPodCompletion: {podSelector: "a in ("}
`),
			lines: []string{
				cgu + "spec.enabled: unknown field; did you mean enable?",
				cgu + "spec.nodeMaintenance.drainSpec.podEvictionFilters[0].byResourceNameRegex: Invalid value: \"(\": error parsing regexp: missing closing ): `(`",
				cgu + "spec.nodeMaintenance.drainSpec.timeoutSeconds: Invalid value: -1: should be greater than or equal to 0",
				cgu + "spec.nodeMaintenance.waitForPodCompletion.podSelector: Invalid value: \"a in (\": unable to parse requirement: found '', expected: ',', ')' or identifier",
			}, cluster: []string{"spec.enabled"},
		},
		{
			name: "problems in several documents", text: rollout("enabled: true") + "---" + request("cordoned: true"),
			lines: []string{cgu + "spec.enabled: unknown field; did you mean enable?", nm + "spec.cordoned: unknown field; did you mean cordon?"}, cluster: []string{"spec.enabled"},
		},

		{name: "a lock policy whose selectors cannot be read", text: `
apiVersion: drydock.dev/v1alpha1
kind: WorkloadLockPolicy
metadata: {name: tf}
spec:
  controllerName: tf
  namespace: tf
  nodeSelector: {matchLabels: {a: '-'}}
  nodePodSelector: {matchLabels: {b: '-'}}
`, lines: []string{
			`f: WorkloadLockPolicy tf: spec.nodePodSelector.matchLabels: Invalid value: "-": ` + labelValueRule,
			`f: WorkloadLockPolicy tf: spec.nodeSelector.matchLabels: Invalid value: "-": ` + labelValueRule,
		}, onlyOffline: true},
	}
}

const labelValueRule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with " +
	"an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"

// kindsOfCRDs returns the kinds that have CRDs, as in messages.
func kindsOfCRDs() []string {
	files, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil {
		panic(err)
	}
	var kinds []string
	for _, file := range files {
		text, err := fs.ReadFile(crds.Files, file)
		if err != nil {
			panic(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			panic(err)
		}
		for _, version := range crd.Spec.Versions {
			kinds = append(kinds, fmt.Sprintf("%s (%s/%s)", crd.Spec.Names.Kind, crd.Spec.Group, version.Name))
		}
	}
	slices.Sort(kinds)
	return kinds
}

func TestEveryProblemIsReportedWithItsPath(t *testing.T) {
	for _, test := range invalidCases() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // the cases share the compiled rules
			_, err := manifest.Decode("f", []byte(test.text))
			require.Error(t, err)
			require.IsType(t, manifest.Invalid{}, err)
			require.Equal(t, test.lines, strings.Split(err.Error(), "\n"))
		})
	}
}
