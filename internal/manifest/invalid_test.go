package manifest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/manifest"
)

// invalidCase is a file that must be refused, and every line that is said about it.
type invalidCase struct {
	name, text string
	lines      []string
	// onlyHere: no schema can express the rule, so a cluster accepts the object.
	onlyHere bool
}

// rollout is a ClusterGroupUpgrade with a good selection and strategy, and fields added to its spec.
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

// request is a NodeMaintenance with what is required, and fields added to its spec.
func request(fields string) string {
	return `
apiVersion: maintenance.nvidia.com/v1alpha1
kind: NodeMaintenance
metadata: {name: r}
spec:
  requestorID: me.example.com
  nodeName: n1
` + indented(fields)
}

func indented(fields string) string {
	return strings.ReplaceAll("\n"+strings.TrimSpace(fields), "\n", "\n  ") + "\n"
}

// job is an action with the template of a Job whose spec is given.
func job(spec string) string {
	return request(`
action:
  type: job
  job:
    namespace: maintenance
    template:
      spec: ` + spec)
}

func invalidCases() []invalidCase {
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
			name: "a key that is given twice", text: rollout("clusters: [c2]"),
			lines: []string{`f: document 1: yaml: unmarshal errors: line 9: key "clusters" already set in map`},
		},
		{
			name: "a key that is given twice in JSON", text: `{"apiVersion": "v1", "kind": "Node", "kind": "Pod"}`,
			lines: []string{`f: document 1: duplicate field "kind"`},
		},
		{
			name: "a kind that is not ours", text: "{apiVersion: v1, kind: Pod, metadata: {name: p}}",
			lines: []string{"f: Pod p: kind Pod of v1 is not one that Drydock reads; it reads ClusterGroupUpgrade (ran.openshift.io/v1alpha1), " +
				"ClusterMaintenanceRequest (lcm.mirantis.com/v1alpha1), ClusterWorkloadLock (lcm.mirantis.com/v1alpha1), HarborCluster (goharbor.io/v1beta1), " +
				"MaintenanceOperatorConfig (maintenance.nvidia.com/v1alpha1), NodeMaintenance (maintenance.nvidia.com/v1alpha1), " +
				"NodeMaintenanceRequest (lcm.mirantis.com/v1alpha1), NodeWorkloadLock (lcm.mirantis.com/v1alpha1), WorkloadLockPolicy (drydock.dev/v1alpha1)"},
		},
		{
			name: "no name", text: strings.Replace(rollout(""), "name: r", "namespace: prod", 1),
			lines: []string{"f: ClusterGroupUpgrade prod/: metadata.name: must be set"},
		},
		{name: "a namespace on a kind that has none", text: `
apiVersion: lcm.mirantis.com/v1alpha1
kind: ClusterMaintenanceRequest
metadata: {name: r, namespace: prod}
`, lines: []string{"f: ClusterMaintenanceRequest prod/r: metadata.namespace: Forbidden: not allowed on this type"}, onlyHere: true},
		{
			name: "an unknown field in the metadata", text: strings.Replace(rollout(""), "name: r", "name: r, label: {a: b}", 1),
			lines: []string{cgu + "metadata.label: unknown field"},
		},
		{
			name: "a misspelled field is named, and so is the one that is missing", text: strings.Replace(rollout(""), "maxConcurrency", "maxConcurency", 1),
			lines: []string{cgu + "spec.remediationStrategy.maxConcurency: unknown field", cgu + "spec.remediationStrategy.maxConcurrency: Required value"},
		},
		{
			name: "no spec", text: "{apiVersion: ran.openshift.io/v1alpha1, kind: ClusterGroupUpgrade, metadata: {name: r}}",
			lines: []string{cgu + "spec: Required value"},
		},
		{
			name: "text where a list is wanted", text: strings.Replace(rollout(""), "[c1]", "c1", 1),
			lines: []string{cgu + "spec.clusters: must be of type array, not string"},
		},
		{name: "text where a fact is wanted", text: rollout("enable: maybe"), lines: []string{cgu + "spec.enable: must be of type boolean, not string"}},
		{
			name: "a concurrency of zero", text: strings.Replace(rollout(""), "maxConcurrency: 1", "maxConcurrency: 0", 1),
			lines: []string{cgu + "spec.remediationStrategy.maxConcurrency: Invalid value: 0: must be a number of at least 1 or a percentage from 1% to 100%"},
		},
		{
			name: "a percentage above 100", text: strings.Replace(rollout(""), "maxConcurrency: 1", "maxConcurrency: 101%", 1),
			lines: []string{cgu + `spec.remediationStrategy.maxConcurrency: Invalid value: "101%": must be a number of at least 1 or a percentage from 1% to 100%`},
		},
		{
			name: "a timeout of no time", text: strings.Replace(rollout(""), "maxConcurrency: 1", "maxConcurrency: 1, timeout: 0", 1),
			lines: []string{cgu + "spec.remediationStrategy.timeout: Invalid value: 0: should be greater than or equal to 1"},
		},
		{
			name: "a number too large for its field", text: strings.Replace(rollout(""), "maxConcurrency: 1", "maxConcurrency: 1, timeout: 3000000000", 1),
			lines: []string{cgu + "spec.remediationStrategy.timeout: must be of type integer with format int32"},
		},
		{
			name: "a word that is not in the list", text: rollout("batchTimeoutAction: Stop"),
			lines: []string{cgu + `spec.batchTimeoutAction: Unsupported value: "Stop": supported values: "Continue", "Abort"`},
		},
		{
			name: "nothing to select from", text: strings.Replace(rollout(""), "clusters: [c1]", "clusters: []", 1),
			lines: []string{cgu + "spec: Invalid value: nothing to select clusters from: set clusters, clusterLabelSelectors or clusterSelector"},
		},
		{
			name: "two remediations", text: rollout("managedPolicies: [p]\nnodeMaintenance: {}"),
			lines: []string{cgu + "spec: Invalid value: at most one of managedPolicies, manifestWorkTemplates and nodeMaintenance may be set"},
		},
		{
			name: "a broken rule is told beside a wrong type elsewhere", text: strings.Replace(rollout("enable: maybe"), "maxConcurrency: 1", "maxConcurrency: none", 1),
			lines: []string{
				cgu + "spec.enable: must be of type boolean, not string",
				cgu + `spec.remediationStrategy.maxConcurrency: Invalid value: "none": must be a number of at least 1 or a percentage from 1% to 100%`,
			},
		},
		{
			name: "a label selector with an operator that does not exist", text: rollout("clusterLabelSelectors: [{matchExpressions: [{key: a, operator: Is, values: [b]}]}]"),
			lines: []string{cgu + `spec.clusterLabelSelectors[0].matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`}, onlyHere: true,
		},
		{
			name: "an old selector that is not key=value", text: rollout("clusterSelector: [a=b, a=b=c]"),
			lines: []string{cgu + `spec.clusterSelector[1]: Invalid value: "a=b=c": must be key=value, or key for that label with an empty value: ` +
				`values[0][a]: Invalid value: "b=c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', ` +
				`and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}, onlyHere: true,
		},
		{
			name: "a node selector without values", text: rollout("nodeMaintenance: {nodeSelector: {matchExpressions: [{key: a, operator: In}]}}"),
			lines: []string{cgu + "spec.nodeMaintenance.nodeSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"}, onlyHere: true,
		},
		{
			name: "everything that is wrong at once", text: rollout(`
enabled: true
nodeMaintenance:
  drainSpec: {timeoutSeconds: -1, podEvictionFilters: [{byResourceNameRegex: "("}]}
  waitForPodCompletion: {podSelector: "a in ("}
`),
			lines: []string{
				cgu + "spec.enabled: unknown field",
				cgu + "spec.nodeMaintenance.drainSpec.podEvictionFilters[0].byResourceNameRegex: Invalid value: \"(\": error parsing regexp: missing closing ): `(`",
				cgu + "spec.nodeMaintenance.drainSpec.timeoutSeconds: Invalid value: -1: should be greater than or equal to 0",
				cgu + "spec.nodeMaintenance.waitForPodCompletion.podSelector: Invalid value: \"a in (\": unable to parse requirement: found '', expected: ',', ')' or identifier",
			},
		},
		{
			name: "what is wrong in several documents", text: rollout("enabled: true") + "---" + request("cordoned: true"),
			lines: []string{cgu + "spec.enabled: unknown field", nm + "spec.cordoned: unknown field"},
		},

		{
			name: "no node name", text: strings.Replace(request(""), "nodeName: n1", "nodeName: ''", 1),
			lines: []string{nm + `spec.nodeName: Invalid value: "": should be at least 1 chars long`},
		},
		{
			name: "a requestor that is no DNS name", text: strings.Replace(request(""), "me.example.com", "Me", 1),
			lines: []string{nm + `spec.requestorID: Invalid value: "Me": should match '^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$'`},
		},
		{
			name: "a requestor that is too short", text: strings.Replace(request(""), "me.example.com", "m", 1),
			lines: []string{nm + `spec.requestorID: Invalid value: "m": should be at least 2 chars long`},
		},
		{
			name: "an additional requestor that is named twice", text: request("additionalRequestors: [ab, ab]"),
			lines: []string{
				nm + "spec.additionalRequestors: Forbidden: can be read, but not yet heeded: the node is returned when its one requestor is done",
				nm + `spec.additionalRequestors[1]: Duplicate value: "ab"`,
			},
		},
		{
			name: "an eviction filter without a condition", text: request("drainSpec: {podEvictionFilters: [{}]}"),
			lines: []string{nm + "spec.drainSpec.podEvictionFilters[0].byResourceNameRegex: Required value: a filter that names nothing would spare every pod; name a resource, or remove the filter"}, onlyHere: true,
		},
		{
			name: "a wait without a limit cannot be negative", text: request("waitForPodCompletion: {timeoutSeconds: -5}"),
			lines: []string{nm + "spec.waitForPodCompletion.timeoutSeconds: Invalid value: -5: should be greater than or equal to 0"},
		},
		{
			name: "a lock timeout of no time", text: request("lockTimeoutSeconds: 0"),
			lines: []string{nm + "spec.lockTimeoutSeconds: Invalid value: 0: should be greater than or equal to 1"},
		},
		{
			name: "an action of type job without a job", text: request("action: {type: job}"),
			lines: []string{nm + "spec.action: Invalid value: job must be set if, and only if, type is job"},
		},
		{
			name: "a health check that checks nothing", text: request("healthChecks: [{name: h}]"),
			lines: []string{nm + "spec.healthChecks[0]: Invalid value: exactly one of condition, workload and node must be set"},
		},
		{
			name: "a health check of an object and of a selector", text: request("healthChecks: [{name: h, condition: {apiVersion: v1, kind: Node, type: Ready, name: n1, selector: {}}}]"),
			lines: []string{nm + "spec.healthChecks[0].condition: Invalid value: exactly one of name and selector must be set"},
		},
		{
			name: "a health check of an API that cannot be", text: request("healthChecks: [{name: h, condition: {apiVersion: a/b/c, kind: Node, type: Ready, name: n1}}]"),
			lines: []string{nm + `spec.healthChecks[0].condition.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`}, onlyHere: true,
		},
		{
			name: "selectors of health checks", text: request("healthChecks: [{name: h, node: {selector: {matchLabels: {a: '-'}}}}, {name: w, workload: {namespace: shop, selector: {matchLabels: {b: '-'}}}}]"),
			lines: []string{
				nm + `spec.healthChecks[0].node.selector.matchLabels: Invalid value: "-": ` + labelValueRule,
				nm + `spec.healthChecks[1].workload.selector.matchLabels: Invalid value: "-": ` + labelValueRule,
			}, onlyHere: true,
		},

		{
			name: "a Job with misspelled fields", text: job("{backoffLimt: 1, template: {spec: {restartPolicy: Never, containers: [{name: a, image: b, comand: [x]}]}}}"),
			lines: []string{
				nm + "spec.action.job.template.spec.backoffLimt: unknown field",
				nm + "spec.action.job.template.spec.template.spec.containers[0].comand: unknown field",
			}, onlyHere: true,
		},
		{
			name: "a Job with values of the wrong type", text: job("{backoffLimit: two, template: {spec: {restartPolicy: Never, containers: [{name: a, image: 1, env: {}}]}}}"),
			lines: []string{
				nm + "spec.action.job.template.spec.backoffLimit: must be of type integer, not string",
				nm + "spec.action.job.template.spec.template.spec.containers.env: must be of type array, not object",
				nm + "spec.action.job.template.spec.template.spec.containers.image: must be of type string, not number",
			}, onlyHere: true,
		},
		{
			name: "a Job that a cluster would refuse", text: job("{template: {spec: {restartPolicy: Always, nodeName: n1, containers: [{}]}}}"),
			lines: []string{
				nm + "spec.action.job.template.spec.template.spec.containers[0].image: must be set",
				nm + "spec.action.job.template.spec.template.spec.containers[0].name: must be set",
				nm + "spec.action.job.template.spec.template.spec.nodeName: must not be set: the Job runs on the node under maintenance",
				nm + "spec.action.job.template.spec.template.spec.restartPolicy: must be Never, which is the default, or OnFailure",
			}, onlyHere: true,
		},
		{
			name: "a Job without containers", text: job("{template: {spec: {restartPolicy: Never}}}"),
			lines: []string{nm + "spec.action.job.template.spec.template.spec.containers: must have at least one container"}, onlyHere: true,
		},
		{
			name: "a Job that asks for no quantity", text: job("{template: {spec: {restartPolicy: Never, containers: [{name: a, image: b, resources: {requests: {cpu: much}}}]}}}"),
			lines: []string{nm + "spec.action.job.template: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"}, onlyHere: true,
		},

		{name: "budgets that are neither numbers nor percentages", text: `
apiVersion: maintenance.nvidia.com/v1alpha1
kind: MaintenanceOperatorConfig
metadata: {name: default}
spec: {maxParallelOperations: -1, maxUnavailable: 120%}
`, lines: []string{
			"f: MaintenanceOperatorConfig default: spec.maxParallelOperations: Invalid value: -1: must be a number of at least 0 or a percentage from 0% to 100%",
			`f: MaintenanceOperatorConfig default: spec.maxUnavailable: Invalid value: "120%": must be a number of at least 0 or a percentage from 0% to 100%`,
		}},
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
		}, onlyHere: true},
	}
}

const labelValueRule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with " +
	"an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"

func TestWhatIsWrongIsNamedWithItsPath(t *testing.T) {
	for _, test := range invalidCases() {
		t.Run(test.name, func(t *testing.T) {
			_, err := manifest.Decode("f", []byte(test.text))
			require.Error(t, err)
			require.IsType(t, manifest.Invalid{}, err)
			require.Equal(t, test.lines, strings.Split(err.Error(), "\n"))
		})
	}
}
