package manifest_test

import "strings"

// request is a NodeMaintenance with the required fields, and these fields added to its spec.
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

// job is a request with a Job that has this spec.
func job(spec string) string { return jobTemplate("{spec: " + spec + "}") }

func jobTemplate(template string) string {
	return request("action: {type: job, job: {namespace: maintenance, template: " + template + "}}")
}

// jobPod is a request with a Job that has a container, and these fields in its pod.
func jobPod(fields string) string {
	return job("{template: {spec: {containers: [{name: a, image: b}], " + fields + "}}}")
}

const (
	requestorRule = "must be like a DNS name, e.g. driver.example.com: letters, digits, '-' and '.', beginning and ending with a letter or digit"
	nodeNameRule  = "must be the name of a node: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	namespaceRule = "must be the name of a namespace: lower-case letters, digits and '-', beginning and ending with a letter or digit"
	selectorRule  = "must be a label selector, e.g. app=web,tier in (front,back),!canary"
	emptyFilter   = "a filter that names nothing picks no pod, or every one: name a resource, or remove the filter"
)

func invalidMaintenances() []invalidCase {
	const nm = "f: NodeMaintenance r: spec."
	const template = nm + "action.job.template."
	return []invalidCase{
		// Requestor and node.
		{
			name: "no requestor and no node", text: "{apiVersion: maintenance.nvidia.com/v1alpha1, kind: NodeMaintenance, metadata: {name: r}, spec: {}}",
			lines: []string{nm + "nodeName: Required value", nm + "requestorID: Required value"},
		},
		{
			name: "a requestor that is not a DNS name", text: strings.Replace(request(""), "me.example.com", "Me!", 1),
			lines: []string{nm + `requestorID: Invalid value: "Me!": ` + requestorRule},
		},
		{
			name: "a requestor that ends in a dot", text: strings.Replace(request(""), "me.example.com", "me.", 1),
			lines: []string{nm + `requestorID: Invalid value: "me.": ` + requestorRule},
		},
		{
			name: "a requestor that is too short", text: strings.Replace(request(""), "me.example.com", "m", 1),
			lines: []string{nm + `requestorID: Invalid value: "m": should be at least 2 chars long`},
		},
		{
			name: "a requestor that is too long", text: strings.Replace(request(""), "me.example.com", strings.Repeat("m", 64), 1),
			lines: []string{nm + "requestorID: Too long: may not be more than 63 bytes"},
		},
		{
			name: "a requestor that is a number", text: strings.Replace(request(""), "me.example.com", "42", 1),
			lines: []string{nm + "requestorID: must be of type string, not integer: write it in quotes"},
		},
		{
			name: "an empty node name", text: strings.Replace(request(""), "nodeName: n1", "nodeName: ''", 1),
			lines: []string{nm + `nodeName: Invalid value: "": should be at least 1 chars long`},
		},
		{
			name: "an invalid node name", text: strings.Replace(request(""), "nodeName: n1", "nodeName: node/n1", 1),
			lines: []string{nm + `nodeName: Invalid value: "node/n1": ` + nodeNameRule},
		},
		{
			name: "a node name that is too long", text: strings.Replace(request(""), "nodeName: n1", "nodeName: "+strings.Repeat("n", 254), 1),
			lines: []string{nm + "nodeName: Too long: may not be more than 253 bytes"},
		},
		{
			name: "an additional requestor that is named twice", text: request("additionalRequestors: [ab, ab]"),
			lines: []string{nm + `additionalRequestors[1]: Duplicate value: "ab"`}, cluster: []string{"spec.additionalRequestors[1]"},
		},
		{
			name: "additional requestors that are not DNS names", text: request("additionalRequestors: [ab, A_B, a]"),
			lines: []string{
				nm + `additionalRequestors[1]: Invalid value: "A_B": ` + requestorRule,
				nm + `additionalRequestors[2]: Invalid value: "a": should be at least 2 chars long`,
			}, cluster: []string{"spec.additionalRequestors[1]", "spec.additionalRequestors[2]"},
		},
		{
			name: "an additional requestor that is the requestor", text: request("additionalRequestors: [ab, me.example.com]"),
			lines: []string{nm + `additionalRequestors: Invalid value: must not repeat requestorID`},
		},
		{
			name: "additional requestors that are not a list", text: request("additionalRequestors: ab"),
			lines: []string{nm + "additionalRequestors: must be of type array, not string: write a list, in brackets or with one item a line after a dash"},
		},

		// Waiting for pods, and the drain.
		{
			name: "a cordon that is neither true nor false", text: request("cordon: sometimes"),
			lines: []string{nm + "cordon: must be of type boolean, not string: write true or false"},
		},
		{
			name: "a wait with a negative limit", text: request("waitForPodCompletion: {timeoutSeconds: -5}"),
			lines: []string{nm + "waitForPodCompletion.timeoutSeconds: Invalid value: -5: should be greater than or equal to 0"},
		},
		{
			name: "a selector that does not end", text: request("waitForPodCompletion: {podSelector: 'a in (b'}"),
			lines: []string{nm + `waitForPodCompletion.podSelector: Invalid value: "a in (b": unable to parse requirement: found '', expected: ',' or ')'`},
		},
		{
			name: "a selector of white space", text: request("waitForPodCompletion: {podSelector: ' '}"),
			lines: []string{nm + `waitForPodCompletion.podSelector: Invalid value: " ": ` + selectorRule},
		},
		{
			name: "a selector that is not text", text: request("drainSpec: {podSelector: {app: web}}"),
			lines: []string{nm + "drainSpec.podSelector: must be of type string, not object"}, cluster: []string{"spec.drainSpec.podSelector.app"},
		},
		{
			name: "a selector with an operator that does not exist", text: request("drainSpec: {podSelector: 'app is web'}"),
			lines: []string{nm + `drainSpec.podSelector: Invalid value: "app is web": unable to parse requirement: found 'is', expected: in, notin, =, ==, !=, gt, lt`},
		},
		{
			name: "a selector that ends in a comma", text: request("drainSpec: {podSelector: 'app=web,'}"),
			lines: []string{nm + `drainSpec.podSelector: Invalid value: "app=web,": found '', expected: identifier after ','`},
		},
		{
			name: "a selector with an invalid label value", text: request("drainSpec: {podSelector: 'app=-web'}"),
			lines: []string{nm + `drainSpec.podSelector: Invalid value: "app=-web": unable to parse requirement: values[0][app]: Invalid value: "-web": ` + labelValueRule},
		},
		{
			name: "a selector with a number that is too large", text: request("drainSpec: {podSelector: 'generation>99999999999999999999'}"),
			lines: []string{nm + `drainSpec.podSelector: Invalid value: "generation>99999999999999999999": unable to parse requirement: values[0]: Invalid value: "99999999999999999999": for 'Gt', 'Lt' operators, the value must be an integer`}, onlyOffline: true,
		},
		{
			name: "selectors that can never match a pod", onlyOffline: true, text: request(`
waitForPodCompletion: {podSelector: 'job,!job'}
drainSpec: {podSelector: 'app=web,app=db', podOrder: [{podSelector: 'tier in (front),tier notin (front,back)', order: 1}]}
`),
			lines: []string{
				nm + `drainSpec.podOrder[0].podSelector: Invalid value: "tier in (front),tier notin (front,back)": can never match: its requirements for label tier contradict each other`,
				nm + `drainSpec.podSelector: Invalid value: "app=web,app=db": can never match: its requirements for label app contradict each other`,
				nm + `waitForPodCompletion.podSelector: Invalid value: "job,!job": can never match: its requirements for label job contradict each other`,
			},
		},
		{
			name: "a drain that is not an object", text: request("drainSpec: true"),
			lines: []string{nm + "drainSpec: must be of type object, not boolean"},
		},
		{
			name: "a drain with negative times", text: request("drainSpec: {timeoutSeconds: -1, skipWaitForDeleteSeconds: -1}"),
			lines: []string{
				nm + "drainSpec.skipWaitForDeleteSeconds: Invalid value: -1: should be greater than or equal to 0",
				nm + "drainSpec.timeoutSeconds: Invalid value: -1: should be greater than or equal to 0",
			},
		},
		{
			name: "a drain with a time that has a unit", text: request("drainSpec: {timeoutSeconds: 5m}"),
			lines: []string{nm + "drainSpec.timeoutSeconds: must be of type integer, not string: write 300, in seconds"},
		},
		{
			name: "a drain of half a second", text: request("drainSpec: {timeoutSeconds: 0.5}"),
			lines: []string{nm + "drainSpec.timeoutSeconds: must be of type integer, not number"},
		},
		{
			name: "eviction filters that name nothing", text: request("drainSpec: {podEvictionFilters: [{}, {byResourceNameRegex: ''}, {byResourceNameRegex: null}]}"),
			lines: []string{
				nm + "drainSpec.podEvictionFilters[0].byResourceNameRegex: Required value: " + emptyFilter,
				nm + "drainSpec.podEvictionFilters[1].byResourceNameRegex: Required value: " + emptyFilter,
				nm + "drainSpec.podEvictionFilters[2].byResourceNameRegex: Required value: " + emptyFilter,
			},
		},
		{
			name: "a misspelled eviction filter", text: request("drainSpec: {podEvictionFilters: [{byResourceName: nvidia.com/gpu}]}"),
			lines: []string{
				nm + "drainSpec.podEvictionFilters[0].byResourceName: unknown field; did you mean byResourceNameRegex?",
				nm + "drainSpec.podEvictionFilters[0].byResourceNameRegex: Required value: " + emptyFilter,
			}, cluster: []string{"spec.drainSpec.podEvictionFilters[0].byResourceName"},
		},
		{
			name: "an eviction filter of null", text: request("drainSpec: {podEvictionFilters: [null]}"),
			lines: []string{nm + "drainSpec.podEvictionFilters[0]: must be of type object, not null"},
		},
		{
			name: "a regular expression that does not end", text: request(`drainSpec: {podEvictionFilters: [{byResourceNameRegex: "nvidia.com/(gpu"}]}`),
			lines: []string{nm + "drainSpec.podEvictionFilters[0].byResourceNameRegex: Invalid value: \"nvidia.com/(gpu\": error parsing regexp: missing closing ): `nvidia.com/(gpu`"},
		},
		{
			name: "a shell pattern instead of a regular expression", text: request(`drainSpec: {podEvictionFilters: [{byResourceNameRegex: "*gpu*"}]}`),
			lines: []string{nm + "drainSpec.podEvictionFilters[0].byResourceNameRegex: Invalid value: \"*gpu*\": error parsing regexp: missing argument to repetition operator: `*`"},
		},
		{
			name: "a regular expression that RE2 does not support", text: request(`drainSpec: {podEvictionFilters: [{byResourceNameRegex: "(?!cpu)"}]}`),
			lines: []string{nm + "drainSpec.podEvictionFilters[0].byResourceNameRegex: Invalid value: \"(?!cpu)\": error parsing regexp: invalid or unsupported Perl syntax: `(?!`"},
		},
		{
			name: "an order without a selector, and one without an order", text: request("drainSpec: {podOrder: [{order: 1}, {podSelector: app=db}]}"),
			lines: []string{nm + "drainSpec.podOrder[0].podSelector: Required value", nm + "drainSpec.podOrder[1].order: Required value"},
		},
		{
			name: "an order whose selector cannot be read", text: request("drainSpec: {podOrder: [{podSelector: 'app in web', order: 1}]}"),
			lines: []string{nm + `drainSpec.podOrder[0].podSelector: Invalid value: "app in web": unable to parse requirement: found 'web' expected: '('`},
		},

		// Failure actions and time limits.
		{
			name: "unsupported values", text: request("onDrainTimeout: retry\nonFailure: Keep"),
			lines: []string{
				nm + `onDrainTimeout: Unsupported value: "retry": supported values: "Fail", "Retry"`,
				nm + `onFailure: Unsupported value: "Keep": supported values: "Uncordon", "KeepCordoned"`,
			},
		},
		{
			name: "a retry without a drain", text: request("onDrainTimeout: Retry"),
			lines: []string{nm + `onDrainTimeout: Forbidden: there is no drain to retry: set drainSpec, {} drains with the defaults`},
		},
		{
			name: "a node to keep cordoned that is not cordoned", text: request("cordon: false\nonFailure: KeepCordoned"),
			lines: []string{nm + `onFailure: Forbidden: a node that is not cordoned cannot be kept so: set cordon to true, or onFailure to Uncordon`},
		},
		{
			name: "limits that are too small", text: request("lockTimeoutSeconds: 0\nhealthTimeoutSeconds: -1"),
			lines: []string{
				nm + "healthTimeoutSeconds: Invalid value: -1: should be greater than or equal to 0",
				nm + "lockTimeoutSeconds: Invalid value: 0: should be greater than or equal to 1",
			},
		},
		{
			name: "a number too large for its field", text: request("healthTimeoutSeconds: 3000000000"),
			lines: []string{nm + "healthTimeoutSeconds: must be a whole number from -2147483648 to 2147483647"},
		},

		// Health checks.
		{
			name: "an empty health check", text: request("healthChecks: [{name: h}]"),
			lines: []string{nm + "healthChecks[0]: Invalid value: exactly one of condition, workload, pods, node, cel, prometheus, http and harborCluster must be set"},
		},
		{
			name: "two health checks of one name, and one without", text: request("healthChecks: [{name: h, node: {}}, {name: h, node: {}}, {node: {}}]"),
			lines: []string{nm + `healthChecks[1]: Duplicate value: {"name":"h"}`, nm + "healthChecks[2].name: Required value"},
		},
		{
			name: "a health check with a name and a selector", text: request("healthChecks: [{name: h, condition: {apiVersion: v1, kind: Node, type: Ready, name: n1, selector: {}}}]"),
			lines: []string{nm + "healthChecks[0].condition: Invalid value: exactly one of name and selector must be set"},
		},
		{
			name: "health checks with an unknown status and an unknown kind", text: request("healthChecks: [{name: h, condition: {apiVersion: v1, kind: Node, type: Ready, name: n1, status: 'Yes'}}, {name: w, workload: {namespace: shop, kinds: [Pod]}}]"),
			lines: []string{
				nm + `healthChecks[0].condition.status: Unsupported value: "Yes": supported values: "True", "False", "Unknown"`,
				nm + `healthChecks[1].workload.kinds[0]: Unsupported value: "Pod": supported values: "Deployment", "StatefulSet", "DaemonSet"`,
			},
		},
		{
			name: "a health check with an invalid API version", text: request("healthChecks: [{name: h, condition: {apiVersion: a/b/c, kind: Node, type: Ready, name: n1}}]"),
			lines: []string{nm + `healthChecks[0].condition.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`}, onlyOffline: true,
		},
		{
			name: "health checks with invalid selectors", text: request("healthChecks: [{name: h, node: {selector: {matchLabels: {a: '-'}}}}, {name: w, workload: {namespace: shop, selector: {matchLabels: {b: '-'}}}}]"),
			lines: []string{
				nm + `healthChecks[0].node.selector.matchLabels: Invalid value: "-": ` + labelValueRule,
				nm + `healthChecks[1].workload.selector.matchLabels: Invalid value: "-": ` + labelValueRule,
			}, onlyOffline: true,
		},
		{
			name: "a health check whose selector can never match", text: request("healthChecks: [{name: w, workload: {namespace: shop, selector: {matchLabels: {b: c}, matchExpressions: [{key: b, operator: DoesNotExist}]}}}]"),
			lines: []string{nm + `healthChecks[0].workload.selector: Invalid value: "b=c,!b": can never match: its requirements for label b contradict each other`}, onlyOffline: true,
		},

		// The Job.
		{
			name: "an action that does not exist", text: request("action: {type: reboot}"),
			lines: []string{nm + `action.type: Unsupported value: "reboot": supported values: "none", "job"`},
		},
		{
			name: "an action of type job without a job", text: request("action: {type: job}"),
			lines: []string{nm + "action.job: Required value: the Job to run must be given when type is job"},
		},
		{
			name: "a job without its type", text: request("action: {job: {namespace: maintenance, template: {spec: {template: {spec: {containers: [{name: a, image: b}]}}}}}}"),
			lines: []string{nm + "action.type: Invalid value: must be job, since a job is given"},
		},
		{
			name: "a job without a namespace and a template", text: request("action: {type: job, job: {timeoutSeconds: -1}}"),
			lines: []string{
				nm + "action.job.namespace: Required value", nm + "action.job.template: Required value",
				nm + "action.job.timeoutSeconds: Invalid value: -1: should be greater than or equal to 0",
			},
		},
		{
			name: "an invalid namespace", text: strings.Replace(jobPod(""), "namespace: maintenance", "namespace: Drydock.System", 1),
			lines: []string{nm + `action.job.namespace: Invalid value: "Drydock.System": ` + namespaceRule},
		},
		{
			name: "a template that is not an object", text: jobTemplate("job.yaml"),
			lines: []string{nm + "action.job.template: must be of type object, not string"},
		},
		{
			name: "a Job with a name and a namespace", text: jobTemplate("{metadata: {name: j, namespace: shop}, spec: {template: {spec: {containers: [{name: a, image: b}]}}}}"),
			lines: []string{
				template + "metadata.name: Forbidden: the Job is named after its maintenance",
				template + "metadata.namespace: Forbidden: action.job.namespace says where the Job runs",
			}, onlyOffline: true,
		},
		{
			name: "a Job with misspelled fields", text: job("{backoffLimt: 1, template: {spec: {containers: [{name: a, image: b, comand: [x]}]}}}"),
			lines: []string{
				template + "spec.backoffLimt: unknown field",
				template + "spec.template.spec.containers[0].comand: unknown field",
			}, onlyOffline: true,
		},
		{
			name: "a Job with values of the wrong type", text: job("{backoffLimit: two, template: {spec: {containers: [{name: a, image: 1, env: {}}]}}}"),
			lines: []string{
				template + "spec.backoffLimit: must be of type integer, not string",
				template + "spec.template.spec.containers.env: must be of type array, not object",
				template + "spec.template.spec.containers.image: must be of type string, not number",
			}, onlyOffline: true,
		},
		{
			name: "a Job that would run elsewhere", text: jobPod("nodeName: n2, nodeSelector: {a: b}, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}"),
			lines: []string{
				template + "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution: Forbidden: the Job always runs on the node under maintenance",
				template + "spec.template.spec.nodeName: Forbidden: the Job runs on the node under maintenance",
				template + "spec.template.spec.nodeSelector: Forbidden: the Job always runs on the node under maintenance",
			}, onlyOffline: true,
		},
		{
			name: "a Job that would never run", text: job("{suspend: true, parallelism: 0, template: {spec: {schedulingGates: [{name: g}], containers: [{name: a, image: b}]}}}"),
			lines: []string{
				template + "spec.parallelism: Invalid value: 0: must be at least 1: the Job would never run",
				template + "spec.suspend: Invalid value: true: the Job would never run",
				template + "spec.template.spec.schedulingGates: Forbidden: no controller removes them, so the Job would never run",
			}, onlyOffline: true,
		},
		{
			name: "a Job that would end before it has run", text: job("{completions: 0, activeDeadlineSeconds: 0, backoffLimit: -1, ttlSecondsAfterFinished: -1, selector: {}, template: {spec: {containers: [{name: a, image: b}]}}}"),
			lines: []string{
				template + "spec.activeDeadlineSeconds: Invalid value: 0: must be at least 1: the Job would fail at once",
				template + "spec.backoffLimit: Invalid value: -1: must be at least 0",
				template + "spec.completions: Invalid value: 0: must be at least 1: the Job would be complete before it has run",
				template + "spec.selector: Forbidden: the cluster picks the Job's pods",
				template + "spec.ttlSecondsAfterFinished: Invalid value: -1: must be at least 0",
			}, onlyOffline: true,
		},
		{
			name: "a Job that is always restarted", text: jobPod("restartPolicy: Always"),
			lines: []string{template + `spec.template.spec.restartPolicy: Invalid value: "Always": must be Never, which is the default, or OnFailure`}, onlyOffline: true,
		},
		{
			name: "a Job with invalid containers", text: job("{template: {spec: {initContainers: [{name: a, image: b}], containers: [{}, {name: a, image: b}, {name: A_B, image: b, volumeMounts: [{name: host, mountPath: /host}]}]}}}"),
			lines: []string{
				template + "spec.template.spec.containers[0].image: Required value",
				template + "spec.template.spec.containers[0].name: Required value",
				template + `spec.template.spec.containers[1].name: Duplicate value: "a"`,
				template + `spec.template.spec.containers[2].name: Invalid value: "A_B": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', ` +
					`and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
				template + `spec.template.spec.containers[2].volumeMounts[0].name: Not found: "host"`,
			}, onlyOffline: true,
		},
		{
			name: "a Job without containers", text: job("{template: {spec: {restartPolicy: Never}}}"),
			lines: []string{template + "spec.template.spec.containers: Required value: a Job needs a container"}, onlyOffline: true,
		},
		{
			name: "a Job with invalid quantities", text: job("{template: {spec: {containers: [{name: a, image: b, resources: {requests: {cpu: much}, limits: {memory: 1GB}}}]}}}"),
			lines: []string{
				template + `spec.template.spec.containers[0].resources.limits[memory]: Invalid value: "1GB": must be a quantity, e.g. 500m or 2Gi`,
				template + `spec.template.spec.containers[0].resources.requests[cpu]: Invalid value: "much": must be a quantity, e.g. 500m or 2Gi`,
			}, onlyOffline: true,
		},

		{
			name: "several problems in one request", text: strings.Replace(request(`
cordoned: true
drainSpec: {podSelector: 'a in (', podEvictionFilters: [{byResourceNameRegex: '['}]}
action: {type: job, job: {namespace: Nowhere, template: {spec: {}}}}
healthChecks: [{name: h}]
`), "me.example.com", "Me!", 1),
			lines: []string{
				nm + `action.job.namespace: Invalid value: "Nowhere": ` + namespaceRule,
				template + "spec.template.spec.containers: Required value: a Job needs a container",
				nm + "cordoned: unknown field; did you mean cordon?",
				nm + "drainSpec.podEvictionFilters[0].byResourceNameRegex: Invalid value: \"[\": error parsing regexp: missing closing ]: `[`",
				nm + `drainSpec.podSelector: Invalid value: "a in (": unable to parse requirement: found '', expected: ',', ')' or identifier`,
				nm + "healthChecks[0]: Invalid value: exactly one of condition, workload, pods, node, cel, prometheus, http and harborCluster must be set",
				nm + `requestorID: Invalid value: "Me!": ` + requestorRule,
			}, cluster: []string{"spec.cordoned"},
		},
	}
}
